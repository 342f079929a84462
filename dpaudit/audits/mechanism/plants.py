"""Carriers of planted violations: splits of the outputs, and places where a bit can be written.

The places are drawn at random among those of each kind: entries that are numbers, by their type;
numbers and characters of texts; and bits of a number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit.attacks.black_box import leaves
from dpaudit.attacks.black_box.leaves import Leaf, last_digit, numbers_in
from dpaudit.audits.mechanism.calls import Score
from dpaudit.audits.mechanism.pool import Pool

Bits = NDArray[np.bool_]

# Both sets of a split hold at least this share of the outputs.
_SHARE = 0.2
# Each of the two most frequent outputs must occur at least this often.
_OFTEN = 10
# The number of outputs that decide where a bit can be written.
_SOME = 1000
# The highest bit that is written, in numbers of this many bytes; of an integer of any size.
_HIGHEST, _WHOLE = {2: 7, 4: 18, 8: 40}, 40


@dataclass(frozen=True)
class Split:
    """A division of the outputs into a set and its complement.

    Attributes:
        name: the feature that divides them.
        inside: returns the mask of the outputs in the set.
    """

    name: str
    inside: Callable[[Pool], Bits]


@dataclass(frozen=True)
class Written:
    """A place in outputs where a bit can be written.

    Attributes:
        name: the place.
        put: writes bits into as many outputs.
        share: the share of the outputs that have the place.
    """

    name: str
    put: Callable[[Pool, Bits], Any]
    share: float


@dataclass(frozen=True)
class Pair:
    """Two outputs, one of which is released.

    Attributes:
        name: description of the outputs.
        outputs: the two outputs.
    """

    name: str
    outputs: tuple[Any, Any]


Plant = Split | Written | Pair


def splits(pool: Pool, score: Score | None, rng: np.random.Generator) -> Iterator[Split | Pair]:
    """Yield the splits that the outputs allow.

    Args:
        pool: outputs on D.
        score: the given score; None if it is learned.
        rng: chooses the places, except that a given score reads one of the entries.
    """
    common = Counter(pool.keys).most_common(2)
    if len(common) == 2 and common[1][1] >= max(_OFTEN, len(pool) // 1000):
        chosen = [pool.content[pool.keys.index(key)] for key, _ in common]
        yield Pair("the commonest two outputs", (chosen[0], chosen[1]))
    if score is None:
        for kind in (leaves.BOOLEAN, leaves.INTEGER, leaves.FLOAT):
            at = [j for j in range(pool.width) if pool.kind(j) == kind]
            yield from _first(_entry_split(pool, int(j)) for j in rng.permutation(at))
    else:
        entries = [j for j in range(pool.width) if _entry_split(pool, j)]
        if entries:
            split = _entry_split(pool, _read(score, pool, entries))
            yield from _first([split])
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


def writings(pool: Pool, rng: np.random.Generator) -> Iterator[Written]:
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
    pool: Pool, name: str, feature: Callable[[Pool], list[Any] | NDArray[Any] | None]
) -> Split | None:
    """Return the split by the median of a feature of every output, if it has one."""
    cut = _median(feature(pool))
    if cut is None:
        return None

    def inside(drawn: Pool) -> Bits:
        values = feature(drawn)
        return _above(values, cut) if values is not None else np.zeros(len(drawn), np.bool_)

    return Split(name, inside)


def _entry_split(pool: Pool, j: int) -> Split | None:
    name = "the values" if pool.width == 1 else f"the values of entry {j}"
    return _split(pool, name, partial(Pool.entry, j=j))


def _numbers(pool: Pool, k: int) -> list[Any] | None:
    """Return number k of every text."""
    by_text = [numbers_in(text, k + 1) for text in pool.texts]
    if not all(len(numbers) > k for numbers in by_text):
        return None
    return [numbers[k][1] for numbers in by_text]


def _characters(pool: Pool, k: int) -> list[Any] | None:
    """Return the code of character k of every text, −1 if it is shorter."""
    return [ord(text[k]) if len(text) > k else -1 for text in pool.texts]


def _lengths(pool: Pool) -> list[Any] | None:
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


def _read(score: Score, pool: Pool, entries: list[int]) -> int:
    """Return the entry most correlated with a given score (Spearman)."""
    from scipy.stats import spearmanr

    scores = np.asarray(score(pool.outputs), float)
    if scores.std() == 0:
        return entries[0]
    columns = {j: np.asarray(pool.entry(j), float) for j in entries}
    return max(columns, key=lambda j: abs(float(spearmanr(scores, columns[j]).statistic)))


def _bit(pool: Pool, j: int, rng: np.random.Generator) -> Written | None:
    """Return a random bit of entry j."""
    values = [pool.leaf(i, j)[1] for i in range(min(len(pool), _SOME))]
    if isinstance(values[0], int):
        length = int(np.median([abs(value).bit_length() for value in values]))
        highest = min(max(length - 2, 0), _WHOLE)
    else:
        highest = _HIGHEST.get(np.asarray(values[0]).dtype.itemsize, 0)
    bit = int(rng.integers(highest + 1))
    entry = "the values" if pool.width == 1 else f"entry {j}"
    return _written(pool, f"bit {bit} of {entry}", partial(_put_bit, place=bit), j)


def _written(
    pool: Pool, name: str, write: Callable[[Leaf, bool], Leaf | None], j: int
) -> Written | None:
    """Return a place in entry j if some outputs have it; `write` returns None for others."""
    some = [write(pool.leaf(i, j), True) for i in range(min(len(pool), _SOME))]
    share = sum(leaf is not None for leaf in some) / len(some)

    def put(drawn: Pool, bits: Bits) -> Any:
        return drawn.with_leaves(
            j, [write(drawn.leaf(i, j), bool(bit)) for i, bit in enumerate(bits)]
        )

    return Written(name, put, share) if share else None


def _last_digit(pool: Pool, k: int) -> Written:
    """Return the parity of the last digit of number k of every text."""

    def put(drawn: Pool, bits: Bits) -> Any:
        changed = []
        for text, bit in zip(drawn.texts, bits, strict=False):
            at = last_digit(text, k)
            digit = str(int(text[at]) & ~1 | int(bit))
            changed.append(text[:at] + digit + text[at + 1 :])
        return drawn.with_texts(changed)

    return Written(f"the last digit of number {k + 1} in the text", put, 1.0)


def _put_bit(leaf: Leaf, bit: bool, place: int) -> Leaf | None:
    """Set a bit of a fraction, or of an integer that has a higher one."""
    kind, value = leaf
    if kind == leaves.INTEGER and abs(value) >> (place + 1):
        return kind, value & ~(1 << place) | int(bit) << place
    array = np.asarray(value)
    size = array.dtype.itemsize
    if kind != leaves.FLOAT or size not in _HIGHEST or value == np.round(value):
        return None
    whole = array.view(f"u{size}")
    mask = whole.dtype.type(1 << place)
    return kind, (whole & ~mask | mask * whole.dtype.type(bit)).view(array.dtype)[()]


def _sign(leaf: Leaf, bit: bool) -> Leaf | None:
    """Set the sign of a zero."""
    kind, value = leaf
    return (
        (kind, type(value)(-0.0 if bit else 0.0)) if kind == leaves.FLOAT and value == 0 else None
    )


def _type(leaf: Leaf, bit: bool) -> Leaf | None:
    """Convert a whole number to int or float."""
    kind, value = leaf
    number = kind in (leaves.INTEGER, leaves.FLOAT) and abs(value) < 2**53 and int(value) == value
    if not number:
        return None
    return (leaves.INTEGER, int(value)) if bit else (leaves.FLOAT, float(value))
