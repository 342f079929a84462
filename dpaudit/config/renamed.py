"""Keys and names of version 0.1 that were renamed; each is refused with its new name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from dpaudit.core import registry

_KEYS: Mapping[str, Mapping[str, str]] = {
    "": {"campaign": "sybil"},
    "train": {"play": "evaluate_folds", "worlds": "trials"},
    "transcript": {"worlds": "trials"},
}
_METRICS = {"campaign.accuracy": "sybil.accuracy"}
# Pairs of these defenses; another package's may have pairs of these names.
_PAIRS = {"crossing": "support-threshold", "first": "tight"}
_WITH_PAIRS = {"slope-one", "cosine"}
# Another package may register attacks of these names.
_ATTACKS = {"campaign": "sybil", "list-watcher": "passive-lists"}
# For a defense or an attack: old parameters and their new names.
_PARAMS: Mapping[str, Mapping[str, str]] = {
    "dpsgd-mf": {
        "passes": "epochs",
        "rate": "learning_rate",
        "bound": "error_bound",
        "clip": "clip_norm",
        "item_rate": "item_learning_rate",
        "sampling": "sampling_rate",
    },
    "dpps-mf": {"passes": "epochs", "step": "learning_rate", "bound": "loss_bound"},
    "dpps-pnbm": {"rate": "learning_rate", "share": "sampling_rate"},
    "dpsgd-pnbm": {"rate": "learning_rate", "share": "sampling_rate", "clip": "clip_norm"},
    "fake-gradients": {
        "batch": "batch_size",
        "bound": "clip_norm",
        "rate": "learning_rate",
        "fake_bound": "fake_clip_norm",
        "draw": "seed",
    },
    "privsr": {"rate": "learning_rate", "clip": "clip_norm"},
    "privsr-ranking": {"rate": "learning_rate", "clip": "clip_norm"},
    "ranking-reconstruction": {"draw": "seed"},
    "sybil": {"helpers": "fake_accounts"},
}
# The key that names the defense or attack of a table.
_NAMED_BY = {"model": "defense", "attack": "name", "sybil": "attack"}


class Renamed(NamedTuple):
    """One old name.

    Attributes:
        place: the keys from the outermost in; the key of a list is followed by an index.
        remedy: a sentence with the new name.
    """

    place: tuple[int | str, ...]
    remedy: str


def renamed(values: Mapping[str, Any]) -> Iterator[Renamed]:
    """Yield the old names in a parsed config, in the order of its tables.

    Args:
        values: the config as parsed from TOML, not yet validated.
    """
    yield from _keys((), values, _KEYS[""])
    models = [one.get("defense", "slope-one") for _, one in _tables("model", values)]
    pairs = {} if models and not _WITH_PAIRS.intersection(map(str, models)) else _PAIRS
    known = registry.names("attacks")
    attacks = {old: new for old, new in _ATTACKS.items() if old not in known}
    old_values = {
        "game": {"pair": pairs, "attack": attacks},
        "sybil": {"attack": attacks},
        "gate": {"metric": _METRICS},
    }
    for table in values:
        for place, one in _tables(table, values):
            yield from _of_table(table, place, one, old_values.get(table, {}))


def _tables(
    name: str, values: Mapping[str, Any]
) -> Iterator[tuple[tuple[int | str, ...], Mapping[str, Any]]]:
    """Yield the tables of this name, each with its place."""
    content = values.get(name)
    if isinstance(content, Mapping):
        yield (name,), content
    for index, one in enumerate(content if isinstance(content, list) else ()):
        if isinstance(one, Mapping):
            yield (name, index), one


def _of_table(
    table: str,
    place: tuple[int | str, ...],
    values: Mapping[str, Any],
    old_values: Mapping[str, Mapping[str, str]],
) -> Iterator[Renamed]:
    yield from _keys(place, values, _KEYS.get(table, {}))
    for key, names in old_values.items():
        value = values.get(key)
        if isinstance(value, str) and value in names:
            yield Renamed((*place, key), f"{key} = {value!r} is now {names[value]!r}")
    name = values.get(_NAMED_BY.get(table, ""), "sybil" if table == "sybil" else None)
    for group in ("params", "grid"):
        given = values.get(group)
        if isinstance(name, str) and isinstance(given, Mapping):
            yield from _keys((*place, group), given, _PARAMS.get(name, {}))


def _keys(
    place: tuple[int | str, ...], values: Mapping[str, Any], names: Mapping[str, str]
) -> Iterator[Renamed]:
    for old, new in names.items():
        if old in values:
            yield Renamed((*place, old), f"{old!r} is now {new!r}: rename it")
