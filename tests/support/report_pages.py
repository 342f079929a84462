"""Which pages the browser tests open, and how."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parents[1]
# The configs and options of the pages that `dpaudit run` makes.
RUNS: dict[str, list[str]] = {
    path.stem: [str(path)] for path in sorted((TESTS / "browser" / "audits").glob("*.toml"))
} | {"black-box": [str(TESTS.parent / "examples" / "black-box.toml"), "-s", "audit.trials=4000"]}
KINDS = [*RUNS, "claims"]
PAGES = [*KINDS, "card", "evidence"]  # the last two have no charts
# Width in pixels, colour scheme, medium.
LOOKS = {
    "desk": (1440, "light", "screen"),
    "desk, dark": (1440, "dark", "screen"),
    "phone": (390, "light", "screen"),
    "phone, dark": (390, "dark", "screen"),
    "small phone": (320, "light", "screen"),
    "paper": (800, "dark", "print"),
}
# Opens the page of a kind in a look; `page.seen` has its messages, errors and requests.
Open = Callable[..., AbstractContextManager[Any]]
