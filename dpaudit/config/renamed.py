"""Keys and names of version 0.1 that were renamed; each is refused with its new name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

_KEYS: Mapping[str, Mapping[str, str]] = {
    "": {"campaign": "sybil"},
    "train": {"play": "evaluate_folds", "worlds": "trials"},
    "transcript": {"worlds": "trials"},
}
# For a table and a key: old values and their new names.
_VALUES: Mapping[tuple[str, str], Mapping[str, str]] = {
    ("game", "pair"): {"crossing": "support-threshold", "first": "tight"},
    ("sybil", "attack"): {"campaign": "sybil", "list-watcher": "passive-lists"},
    ("gate", "metric"): {"campaign.accuracy": "sybil.accuracy"},
}
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
    for table, content in values.items():
        several = isinstance(content, list)
        for index, one in enumerate(content if several else [content]):
            if isinstance(one, Mapping):
                yield from _of_table(table, (table, index) if several else (table,), one)


def _of_table(
    table: str, place: tuple[int | str, ...], values: Mapping[str, Any]
) -> Iterator[Renamed]:
    yield from _keys(place, values, _KEYS.get(table, {}))
    for (of, key), names in _VALUES.items():
        value = values.get(key)
        if of == table and isinstance(value, str) and value in names:
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
