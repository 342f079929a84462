"""Outputs on one data set, and the carriers of violations that are planted in them.

Carriers are splits of the outputs, and places where a bit can be written. The places are drawn at
random among those of each kind: entries that are numbers, by their type; numbers and characters of
texts; and bits of a number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit.attacks.black_box import leaves
from dpaudit.attacks.black_box.leaves import Leaf, Reading, last_digit, numbers_in, read
from dpaudit.audits.mechanism.calls import Score, numeric

Bits = NDArray[np.bool_]
# Both sets of a split hold at least this share of the outputs.
_SHARE = 0.2
# Each of the two most frequent outputs must occur at least this often.
_OFTEN = 10
# The number of outputs that decide what all have, and where a bit can be written.
_SOME = 1000
# The highest bit that is written, in numbers of this many bytes; of an integer of any size.
_HIGHEST, _WHOLE = {2: 7, 4: 18, 8: 40}, 40
_NUMBERS = (leaves.BOOLEAN, leaves.INTEGER, leaves.FLOAT)
_KINDS = {"b": leaves.BOOLEAN, "i": leaves.INTEGER, "u": leaves.INTEGER, "f": leaves.FLOAT}
_SCALARS = {leaves.INTEGER: "i", leaves.FLOAT: "f"}


@dataclass(frozen=True, eq=False)
class OutputPool:
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
    def of(cls, outputs: Any, *, given_score: bool) -> OutputPool:
        """Read the outputs."""
        readings = None if numeric(outputs) else list(map(read, outputs))
        return cls(outputs, readings, outputs if readings is None or given_score else readings)

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
            first, second = self.with_leaves(0, changed)
            return first, second
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


@dataclass(frozen=True)
class OutputSplit:
    """A division of the outputs into a set and its complement.

    Attributes:
        name: the feature that divides them.
        inside: returns the mask of the outputs in the set.
    """

    name: str
    inside: Callable[[OutputPool], Bits]


@dataclass(frozen=True)
class Written:
    """A place in outputs where a bit can be written.

    Attributes:
        name: the place.
        put: writes bits into as many outputs.
        share: the share of the outputs that have the place.
    """

    name: str
    put: Callable[[OutputPool, Bits], Any]
    share: float


@dataclass(frozen=True)
class OutputPair:
    """Two outputs, one of which is released.

    Attributes:
        name: description of the outputs.
        outputs: the two outputs.
    """

    name: str
    outputs: tuple[Any, Any]


Plant = OutputSplit | Written | OutputPair


def splits(
    pool: OutputPool, score: Score | None, rng: np.random.Generator
) -> Iterator[OutputSplit | OutputPair]:
    """Yield the splits that the outputs allow.

    Args:
        pool: outputs on D.
        score: the given score; None if it is learned.
        rng: chooses the places, except that a given score reads one of the entries.
    """
    common = Counter(pool.keys).most_common(2)
    if len(common) == 2 and common[1][1] >= max(_OFTEN, len(pool) // 1000):
        chosen = [pool.content[pool.keys.index(key)] for key, _ in common]
        yield OutputPair("the commonest two outputs", (chosen[0], chosen[1]))
    if score is None:
        for kind in (leaves.BOOLEAN, leaves.INTEGER, leaves.FLOAT):
            at = [j for j in range(pool.width) if pool.kind(j) == kind]
            yield from _first(_entry_split(pool, int(j)) for j in rng.permutation(at))
    else:
        entries = [j for j in range(pool.width) if _entry_split(pool, j)]
        if entries:
            yield from _first([_entry_split(pool, _read(score, pool, entries))])
    places: list[tuple[str, Callable[..., list[Any] | None], int]] = [
        ("number {} in the text", _numbers, pool.numbers)
    ]
    if score is None:
        places.append(("character {} of the text", _characters, pool.characters))
    for name, feature, count in places:
        yield from _first(
            _split(pool, name.format(k + 1), partial(feature, k=int(k)))
            for k in rng.permutation(count)
        )
    yield from _first([_split(pool, "the lengths", _lengths)])


def writings(pool: OutputPool, rng: np.random.Generator) -> Iterator[Written]:
    """Yield a place of each kind where a bit can be written, drawn at random."""
    entries = [(j, pool.kind(j)) for j in range(pool.width)]
    for kind in (leaves.INTEGER, leaves.FLOAT):
        yield from _first(
            _bit(pool, j, rng)
            for j in rng.permutation([j for j, entry_kind in entries if entry_kind == kind])
        )
    yield from _first(_last_digit(pool, int(k)) for k in rng.permutation(pool.numbers))
    floats = rng.permutation([j for j, kind in entries if kind == leaves.FLOAT])
    yield from _first(_written(pool, "the signs of zeros", _sign, int(j)) for j in floats)
    if pool.width == 1:
        yield from _first([_written(pool, "the types of numbers", _type, 0)])


def _first(plants: Any) -> Iterator[Any]:
    """Yield the first plant that is possible."""
    yield from islice((plant for plant in plants if plant is not None), 1)


def _split(
    pool: OutputPool, name: str, feature: Callable[[OutputPool], list[Any] | NDArray[Any] | None]
) -> OutputSplit | None:
    """Return the split by the median of a feature of every output, if it has one."""
    cut = _median(feature(pool))
    if cut is None:
        return None

    def inside(drawn: OutputPool) -> Bits:
        values = feature(drawn)
        return _above(values, cut) if values is not None else np.zeros(len(drawn), np.bool_)

    return OutputSplit(name, inside)


def _entry_split(pool: OutputPool, j: int) -> OutputSplit | None:
    name = "the values" if pool.width == 1 else f"the values of entry {j}"
    return _split(pool, name, partial(OutputPool.entry, j=j))


def _numbers(pool: OutputPool, k: int) -> list[Any] | None:
    """Return number k of every text."""
    by_text = [numbers_in(text, k + 1) for text in pool.texts]
    if not all(len(numbers) > k for numbers in by_text):
        return None
    return [numbers[k][1] for numbers in by_text]


def _characters(pool: OutputPool, k: int) -> list[Any] | None:
    """Return the code of character k of every text, −1 if it is shorter."""
    return [ord(text[k]) if len(text) > k else -1 for text in pool.texts]


def _lengths(pool: OutputPool) -> list[Any] | None:
    """Return the length of every text or list; None for arrays of one shape."""
    if pool.readings is None:
        return None
    return [
        len(reading.text) if len(reading.leaves) == 1 else len(reading.leaves)
        for reading in pool.readings
    ]


def _median(values: Any) -> Any:
    """Return the value that divides the values most evenly; None if one part is too small.

    Values are compared exactly, without conversion to float.
    """
    if values is None or not len(values):
        return None
    ordered = sorted(values) if isinstance(values, list) else np.sort(values)
    middle = ordered[len(ordered) // 2]
    cuts = [middle, next((x for x in ordered[len(ordered) // 2 :] if x > middle), middle)]
    shares = [float(np.mean(_above(values, cut))) for cut in cuts]
    best = min((0, 1), key=lambda i: abs(shares[i] - 0.5))
    return cuts[best] if _SHARE <= shares[best] <= 1 - _SHARE else None


def _above(values: Any, cut: Any) -> Bits:
    if isinstance(values, np.ndarray):
        return np.asarray(values >= cut)
    return np.array([value >= cut for value in values], np.bool_)


def _read(score: Score, pool: OutputPool, entries: list[int]) -> int:
    """Return the entry most correlated with a given score (Spearman)."""
    from scipy.stats import spearmanr

    scores = np.asarray(score(pool.outputs), float)
    if scores.std() == 0:
        return entries[0]
    columns = {j: np.asarray(pool.entry(j), float) for j in entries}
    return max(columns, key=lambda j: abs(float(spearmanr(scores, columns[j]).statistic)))


def _bit(pool: OutputPool, j: int, rng: np.random.Generator) -> Written | None:
    """Return a random bit of entry j."""
    values = [pool.leaf(i, j)[1] for i in range(min(len(pool), _SOME))]
    if isinstance(values[0], int):
        length = int(np.median([abs(value).bit_length() for value in values]))
        highest = min(max(length - 2, 0), _WHOLE)
    else:
        highest = _HIGHEST.get(np.asarray(values[0]).dtype.itemsize, 0)
    bit = int(rng.integers(highest + 1))
    entry = "the values" if pool.width == 1 else f"entry {j}"
    return _written(pool, f"bit {bit} of {entry}", partial(_put_bit, position=bit), j)


def _written(
    pool: OutputPool, name: str, write: Callable[[Leaf, bool], Leaf | None], j: int
) -> Written | None:
    """Return a place in entry j if some outputs have it; `write` returns None for others."""
    some = [write(pool.leaf(i, j), True) for i in range(min(len(pool), _SOME))]
    share = sum(leaf is not None for leaf in some) / len(some)

    def put(drawn: OutputPool, bits: Bits) -> Any:
        return drawn.with_leaves(
            j, [write(drawn.leaf(i, j), bool(bit)) for i, bit in enumerate(bits)]
        )

    return Written(name, put, share) if share else None


def _last_digit(pool: OutputPool, k: int) -> Written:
    """Return the parity of the last digit of number k of every text."""

    def put(drawn: OutputPool, bits: Bits) -> Any:
        changed = []
        for text, bit in zip(drawn.texts, bits, strict=False):
            at = last_digit(text, k)
            digit = str(int(text[at]) & ~1 | int(bit))
            changed.append(text[:at] + digit + text[at + 1 :])
        return drawn.with_texts(changed)

    return Written(f"the last digit of number {k + 1} in the text", put, 1.0)


def _put_bit(leaf: Leaf, bit: bool, position: int) -> Leaf | None:
    """Set a bit of a fraction, or of an integer that has a higher one."""
    kind, value = leaf
    if kind == leaves.INTEGER and abs(value) >> (position + 1):
        return kind, value & ~(1 << position) | int(bit) << position
    array = np.asarray(value)
    size = array.dtype.itemsize
    if kind != leaves.FLOAT or size not in _HIGHEST or value == np.round(value):
        return None
    whole = array.view(f"u{size}")
    mask = whole.dtype.type(1 << position)
    return kind, (whole & ~mask | mask * whole.dtype.type(bit)).view(array.dtype)[()]


def _sign(leaf: Leaf, bit: bool) -> Leaf | None:
    """Set the sign of a zero."""
    kind, value = leaf
    zero = kind == leaves.FLOAT and value == 0
    return (kind, type(value)(-0.0 if bit else 0.0)) if zero else None


def _type(leaf: Leaf, bit: bool) -> Leaf | None:
    """Convert a whole number to int or float."""
    kind, value = leaf
    number = kind in (leaves.INTEGER, leaves.FLOAT) and abs(value) < 2**53 and int(value) == value
    if not number:
        return None
    return (leaves.INTEGER, int(value)) if bit else (leaves.FLOAT, float(value))
