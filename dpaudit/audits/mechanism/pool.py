"""Outputs on one data set, from which mutants are made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit.attacks.black_box import leaves
from dpaudit.attacks.black_box.leaves import Leaf, Reading, numbers_in, read
from dpaudit.audits.mechanism.calls import numeric

# The number of outputs that decide what all have.
_SOME = 1000
_NUMBERS = (leaves.BOOLEAN, leaves.INTEGER, leaves.FLOAT)
_KINDS = {"b": leaves.BOOLEAN, "i": leaves.INTEGER, "u": leaves.INTEGER, "f": leaves.FLOAT}
_SCALARS = {leaves.INTEGER: "i", leaves.FLOAT: "f"}


@dataclass(frozen=True, eq=False)
class Pool:
    """Outputs on one data set.

    Attributes:
        outputs: the outputs as the mechanism returned them.
        readings: what is read in them; None for an array of numbers.
        content: what mutants are made of: the outputs for a given score or an array of numbers,
            else the readings.
    """

    outputs: Any
    readings: list[Reading] | None
    content: Any

    @classmethod
    def of(cls, outputs: Any, *, given_score: bool) -> Pool:
        """Read the outputs."""
        readings = None if numeric(outputs) else list(map(read, outputs))
        raw = readings is None or given_score
        return cls(outputs, readings, outputs if raw else readings)

    def __len__(self) -> int:
        return len(self.outputs)

    @cached_property
    def _flat(self) -> NDArray[Any]:
        return np.asarray(self.outputs).reshape(len(self), -1)

    @cached_property
    def width(self) -> int:
        """The number of leaves that every output has."""
        if self.readings is None:
            return len(self._flat[0])
        return min(len(reading.leaves) for reading in self.readings)

    def kind(self, j: int) -> int | None:
        """Return the kind of leaf j, if it is a number in the first outputs."""
        if self.readings is None:
            return _KINDS[self._flat.dtype.kind]
        kinds = [reading.leaves[j][0] for reading in self.readings[:_SOME]]
        return kinds[0] if set(kinds) <= set(_NUMBERS) else None

    def entry(self, j: int) -> list[Any] | NDArray[Any] | None:
        """Return leaf j of every output; None if they are not all finite numbers."""
        if self.readings is None:
            column = self._flat[:, j]
            return column if np.isfinite(column).all() else None
        entries = [self.leaf(i, j) for i in range(len(self))]
        there = all(kind in _NUMBERS and _finite(value) for kind, value in entries)
        return [value for _, value in entries] if there else None

    def leaf(self, i: int, j: int) -> Leaf:
        """Return leaf j of output i; padding if there is none."""
        if self.readings is not None:
            there = self.readings[i].leaves
            return there[j] if j < len(there) else (leaves.PADDING, 0)
        value = self._flat[i, j]
        return _KINDS[self._flat.dtype.kind], value if value.dtype.kind == "f" else int(value)

    def with_leaves(self, j: int, changed: Sequence[Leaf | None]) -> Any:
        """Return as many of the outputs with other leaves at j, or the same where None is given."""
        if self.readings is not None:
            return [
                reading if leaf is None else _with_leaf(reading, j, leaf)
                for reading, leaf in zip(self.readings, changed, strict=False)
            ]
        kinds = {leaf[0] for leaf in changed if leaf is not None}
        if self.width == 1 and kinds - {_KINDS[self._flat.dtype.kind]}:
            there = [leaf or self.leaf(i, j) for i, leaf in enumerate(changed)]
            return [Reading(_SCALARS[leaf[0]], [leaf], "") for leaf in there]
        outputs = self._flat[: len(changed)].copy()
        for i, leaf in enumerate(changed):
            if leaf is not None:
                outputs[i, j] = leaf[1]
        return outputs.reshape(len(changed), *np.shape(self.outputs)[1:])

    @cached_property
    def texts(self) -> list[str]:
        """The text of every output; empty if some output has none."""
        texts = [reading.text for reading in self.readings or ()]
        return texts if all(texts) else []

    @cached_property
    def numbers(self) -> int:
        """The number of numbers that every text has."""
        return min((len(numbers_in(text, leaves.MOST)) for text in self.texts), default=0)

    @cached_property
    def characters(self) -> int:
        """The length of the longest text."""
        return max(map(len, self.texts[:_SOME]), default=0)

    def with_texts(self, changed: Sequence[str]) -> list[Reading]:
        """Return as many of the outputs with other texts, of the same number of words."""
        readings = []
        for reading, text in zip(self.readings or (), changed, strict=False):
            words = iter(text.split(leaves.SEPARATOR))
            there = [
                (kind, next(words)) if kind in (leaves.WORD, leaves.BYTES) else (kind, value)
                for kind, value in reading.leaves
            ]
            readings.append(replace(reading, leaves=there, text=text))
        return readings

    @cached_property
    def keys(self) -> list[object]:
        """A key of every output, equal for equal outputs of one type."""
        if self.readings is None:
            return [row.tobytes() for row in self._flat]
        return [(reading.form, repr(reading.leaves)) for reading in self.readings]

    def informative(self) -> tuple[Any, Any] | None:
        """Return two outputs that occur nowhere else, with which to leak a coin, if possible.

        Integers above the largest output, or unique outputs from the pool's end, which no trial
        uses.
        """
        if self.width == 1 and self.kind(0) == leaves.INTEGER:
            values = self.entry(0)
            if values is None:
                return None
            largest = int(max(values))
            dtype = np.asarray(self.outputs[0]).dtype
            if dtype.kind in "iu" and largest + 2 > np.iinfo(dtype).max:
                return None
            changed = [(leaves.INTEGER, largest + 1), (leaves.INTEGER, largest + 2)]
            one, other = self.with_leaves(0, changed)
            return one, other
        last = range(max(len(self) - 100, 0), len(self))
        times = {self.keys[i]: 0 for i in last}
        for key in self.keys:
            if key in times:
                times[key] += 1
        alone = [self.content[i] for i in last if times[self.keys[i]] == 1]
        return (alone[0], alone[1]) if len(alone) > 1 else None


def _with_leaf(reading: Reading, j: int, leaf: Leaf) -> Reading:
    kind, _ = leaf
    form = _SCALARS[kind] if reading.form in _SCALARS.values() else reading.form
    return replace(reading, form=form, leaves=[*reading.leaves[:j], leaf, *reading.leaves[j + 1 :]])


def _finite(value: Any) -> bool:
    return isinstance(value, int) or bool(np.isfinite(value))
