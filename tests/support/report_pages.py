"""Which pages the browser tests open, and how."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

AUDITS = Path(__file__).parents[1] / "browser" / "audits"
KINDS = [*sorted(path.stem for path in AUDITS.glob("*.toml")), "claims"]
PAGES = [*KINDS, "card"]  # a privacy card has no charts
# Width in pixels, colour scheme, medium.
LOOKS = {
    "desk": (1440, "light", "screen"),
    "desk, dark": (1440, "dark", "screen"),
    "phone": (390, "light", "screen"),
    "phone, dark": (390, "dark", "screen"),
    "paper": (800, "dark", "print"),
}
# Opens the page of a kind in a look; `page.seen` has its messages, errors and requests.
Open = Callable[..., AbstractContextManager[Any]]
