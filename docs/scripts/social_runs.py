"""The examples that `make_social` shows, and their records in a folder."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpaudit.auditor.run import run_audit
from dpaudit.config.load import load
from dpaudit.config.schema import Config
from dpaudit.core.files import write_text
from dpaudit.execution.workers import Workers
from dpaudit.record import storage as record
from dpaudit.record.result import AuditResult

EXAMPLES = Path(__file__).parents[2] / "examples"


def example(name: str) -> Config:
    """Load an example."""
    return load(EXAMPLES / f"{name}.toml", [])


def with_share(name: str, share: float) -> Config:
    """Load an example with another share; without sensitive ratings there is nothing to attack."""
    nobody = [] if share else ["attack=[]"]
    return load(EXAMPLES / f"{name}.toml", [f"data.sensitive={{ share = {share} }}", *nobody])


def with_categories(name: str, categories: tuple[int, ...], matched: bool) -> Config:
    """Load an example where categories are sensitive, or as many ratings at random."""
    more = ", matched_random = true" * matched
    sensitive = f"data.sensitive={{ categories = {list(categories)}{more} }}"
    return load(EXAMPLES / f"{name}.toml", [sensitive])


@dataclass(frozen=True)
class Runs:
    """The records and other results of a folder, of which those that are missing are made."""

    folder: Path

    def record(self, name: str, config: Config) -> AuditResult:
        """Return the record of a run; run it unless the folder has it from the same config."""
        place = self.folder / name
        if (place / record.NAME).is_file():
            result = record.load(place)
            if _decisive(Config.model_validate(result.config)) == _decisive(config):
                return result
            print(f"{place} was run from another config: it is run again")
        result = run_audit(config, workers=Workers(os.cpu_count() or 1))
        place.mkdir(parents=True, exist_ok=True)
        write_text(place / record.NAME, result.model_dump_json())
        print(place, f"{result.timing.seconds:.0f} s")
        return record.load(place)

    def cells(self, name: str, made: Callable[[], list[list[str]]]) -> list[list[str]]:
        """Return the cells of a table that no record has; make them unless the folder has them."""
        place = self.folder / f"{name}.json"
        if not place.is_file():
            self.folder.mkdir(parents=True, exist_ok=True)
            write_text(place, json.dumps(made()))
        found: list[list[str]] = json.loads(place.read_text(encoding="utf-8"))
        return found

    def took(self, name: str) -> str:
        """Say how long the runs took whose names begin with `name`."""
        places = sorted(self.folder.glob(f"{name}-*/{record.NAME}"))
        minutes = sum(record.load(place.parent).timing.seconds for place in places) / 60
        return (
            f"The {len(places)} runs behind this page took {minutes:.0f} minutes in all, each on "
            "one worker of a machine of two cores that did much other work."
        )


def _decisive(config: Config) -> tuple[Any, ...]:
    """What decides the numbers of a run, but for where the data lie."""
    data = config.data.model_copy(update={"path": None})
    return config.seed, data, config.model, config.training, config.attack
