"""The examples that `make_social` shows, and their records in a folder."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

# It stands beside this file.
from pages import audited, trained

from dpaudit.audits.trained.config import TrainedConfig
from dpaudit.config.schema import Config
from dpaudit.core.files import write_text
from dpaudit.record import storage
from dpaudit.record.result import AuditResult


def with_share(name: str, share: float) -> TrainedConfig:
    """Load an example with another share; without sensitive ratings there is nothing to attack."""
    nobody = [] if share else ["attack=[]"]
    return trained(name, [f"data.sensitive={{ share = {share} }}", *nobody])


def with_categories(name: str, categories: tuple[int, ...], matched: bool) -> TrainedConfig:
    """Load an example where categories are sensitive, or as many ratings at random."""
    more = ", matched_random = true" * matched
    return trained(name, [f"data.sensitive={{ categories = {list(categories)}{more} }}"])


@dataclass(frozen=True)
class Runs:
    """The records and other results of a folder, of which those that are missing are made."""

    folder: Path

    def record(self, name: str, config: Config) -> AuditResult:
        """Return the record of a run; run it unless the folder has it from the same config."""
        return audited(config, self.folder / name)

    def cells(self, name: str, made: Callable[[], list[list[str]]]) -> list[list[str]]:
        """Return the cells of a table that no record has; make them unless the folder has them."""
        place = self.folder / f"{name}.json"
        if not place.is_file():
            self.folder.mkdir(parents=True, exist_ok=True)
            write_text(place, json.dumps(made()))
        cells: list[list[str]] = json.loads(place.read_text(encoding="utf-8"))
        return cells

    def took(self, name: str) -> str:
        """Say how long the runs took whose names begin with `name`."""
        places = sorted(self.folder.glob(f"{name}-*/{storage.NAME}"))
        minutes = sum(storage.load(place.parent).timing.seconds for place in places) / 60
        return (
            f"The {len(places)} runs behind this page take {minutes:.0f} minutes by the clock, on "
            "two cores that others used too."
        )
