"""The output folder of a run: what it may replace, and the store of its finished tasks."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpaudit.auditor.context import judging, without_counts
from dpaudit.config.schema import Config
from dpaudit.core.errors import ConfigError
from dpaudit.core.messages import place
from dpaudit.core.provenance import tool_version
from dpaudit.data.ratings import Ratings
from dpaudit.execution.store import NAME, seed_in, words_of
from dpaudit.execution.tasks import digest_of, identity_of
from dpaudit.record import storage

# What a run may change without a word, besides numbers of trials.
_OPEN = {"audit", "seed", "keep_seed"}


@dataclass(frozen=True)
class RunFolder:
    """Where a run keeps the results of finished tasks.

    Attributes:
        path: the output folder.
        fresh: whether to drop the results that it holds.
        force: whether to replace another run that it holds; results that fit are used.
    """

    path: Path
    fresh: bool = False
    force: bool = False

    def check(self, config: Config) -> str:
        """Refuse to replace the record of another run: one of another config or seed.

        Other numbers of trials are no other run; nor are other claims, gates, observers and what
        else only judges, and a seed that the config leaves to chance.

        Returns:
            A sentence if a record will be replaced that was judged otherwise; else empty.

        Raises:
            ConfigError: the folder holds the record of another run, or one that cannot be read.
        """
        path = self.path / storage.NAME
        if self.fresh or self.force or not path.exists():
            return ""
        try:
            recorded = storage.load(path).config
        except ConfigError as error:
            raise ConfigError(
                f"{place(path)} is no record that this dpaudit can read: --force replaces it, and "
                "-o names another folder"
            ) from error
        deciding, judged = _differing(recorded, config)
        if deciding:
            raise ConfigError(
                f"{place(self.path)} holds the record of another run ({_others(deciding)}): "
                "--force replaces it and uses the finished tasks that fit, and -o names another "
                "folder"
            )
        if not judged:
            return ""
        return (
            f"{place(path)} is replaced, as it was judged otherwise ({_others(judged)}); finished "
            "tasks are used"
        )


def _differing(recorded: dict[str, Any], config: Config) -> tuple[list[str], list[str]]:
    """Name the keys of a config whose values differ from the recorded ones.

    Returns:
        The keys that decide results, and those that only judge or report them.
    """
    new = json.loads(config.recorded().model_dump_json())
    common = recorded.keys() & new.keys()
    keys = judging(config)
    deciding = [
        name
        for name in common - _OPEN - config.judging
        if _comparable(_read(recorded[name], keys.get(name)))
        != _comparable(_read(new[name], keys.get(name)))
    ]
    # A table that only one of them has is of another kind of audit; empty, it asks for nothing.
    single = (recorded.keys() ^ new.keys()) - _OPEN - config.judging
    deciding += [name for name in single if recorded.get(name) or new.get(name)]
    judged = [name for name in common & config.judging if recorded[name] != new[name]]
    for name in common & keys.keys():
        old, now = (_judging(values[name], keys[name]) for values in (recorded, new))
        judged += [f"{name}.{key}" for key in sorted(keys[name]) if old[key] != now[key]]
    named = "seed" in config.model_fields_set or config.keep_seed is False
    if named and recorded.get("seed") != new["seed"]:
        deciding.append("seed")
    return sorted(deciding), sorted(judged)


def _tables(value: Any) -> list[dict[str, Any]]:
    """Return the tables that stand under one key of a config: several, one or none."""
    return value if isinstance(value, list) else [value] if value else []


def _read(value: Any, keys: frozenset[str] | None) -> Any:
    """Return the value of a key without what only judges."""
    if not keys:
        return value
    return [
        {key: entry for key, entry in table.items() if key not in keys} for table in _tables(value)
    ]


def _judging(value: Any, keys: frozenset[str]) -> dict[str, list[Any]]:
    """Return what only judges in the tables under a key, by its key in each table."""
    return {key: [table.get(key) for table in _tables(value)] for key in keys}


def _comparable(value: Any) -> Any:
    """Return a value of a config without numbers of trials."""
    if isinstance(value, list):
        return [_comparable(item) for item in value]
    return without_counts(value) if isinstance(value, dict) else value


def _others(names: Iterable[str]) -> str:
    return ", ".join(f"other {name}" for name in names)


def resumed(config: Config, folder: RunFolder) -> Config:
    """Return the config with the seed that the run in this folder drew.

    A seed that the config names stays; a drawn one is used again while the code is the same.
    """
    path = folder.path / NAME
    secret = words_of(path).get("secret") == "yes"
    if "seed" in config.model_fields_set or folder.fresh or secret != (config.keep_seed is False):
        return config
    seed = seed_in(path, identity_of(config.plugins))
    return config if seed is None else config.model_copy(update={"seed": seed})


def identity(config: Config, ratings: Ratings | None) -> dict[str, str]:
    """Return what the results of a config's tasks depend on besides its tables."""
    return {
        "tool": tool_version(),
        **identity_of(config.plugins),
        "files": _digest(config.files),
        "data": "" if ratings is None else ratings.digest,
        "seed": str(config.seed),
    }


def _digest(files: Iterable[Path]) -> str:
    digests = (hashlib.blake2b(path.read_bytes()).hexdigest() for path in files if path.is_file())
    return digest_of(*digests)
