"""Carriers of planted violations: splits of the outputs, and places where a bit can be written."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit.attacks.black_box.encoding import packed
from dpaudit.attacks.black_box.leaves import numbers_in
from dpaudit.auditor.black_box.calls import Score, numeric

Bits = NDArray[np.bool_]

# Both sets of a split hold at least this share of the outputs.
_SHARE = 0.2
# Each of the two most frequent outputs must occur at least this often.
_OFTEN = 10
_DIGIT = re.compile(r"\d(?=\D*$)")


@dataclass(frozen=True)
class Split:
    """A division of the outputs into a set and its complement.

    Attributes:
        name: the feature that divides them.
        inside: returns the mask of the outputs in the set.
    """

    name: str
    inside: Callable[[Any], Bits]


@dataclass(frozen=True)
class Written:
    """A place in outputs where a bit can be written.

    Attributes:
        name: the place.
        put: writes bits into outputs.
    """

    name: str
    put: Callable[[Any, Bits], Any]


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


def splits(pool: Any, score: Score | None, rng: np.random.Generator) -> Iterator[Split | Pair]:
    """Yield the splits that the outputs allow.

    Args:
        pool: outputs on D.
        score: the given score; None if it is learned.
        rng: chooses an entry if outputs have several and the score is learned.
    """
    keys = Counter(_key(output) for output in pool)
    common = keys.most_common(2)
    if len(common) == 2 and common[1][1] >= max(_OFTEN, len(pool) // 1000):
        chosen = [next(x for x in pool if _key(x) == key) for key, _ in common]
        yield Pair("the commonest two outputs", (chosen[0], chosen[1]))
    width = _width(pool)
    entries = [j for j in range(width) if _median(_entry(pool, j)) is not None]
    if entries:
        chosen_entry = int(rng.choice(entries)) if score is None else _read(score, pool, entries)
        cut = _median(_entry(pool, chosen_entry))
        name = "the values" if width == 1 else f"the values of entry {chosen_entry}"
        yield Split(name, partial(_entry_above, j=chosen_entry, cut=cut))
    for name, feature in (("numbers in the text", _number_in), ("lengths", _length)):
        cut = _median(_each(pool, feature))
        if cut is not None:
            yield Split(f"the {name}", partial(_each_above, feature=feature, cut=cut))


def writings(pool: Any) -> Iterator[tuple[Written, float]]:
    """Yield the places where a bit can be written, and the share of the outputs that have each."""
    for name, put, shows in (
        ("the lowest bits", _put_low, _has_low),
        ("the last digits", _put_digit, _has_digit),
        ("the signs of zeros", _put_sign, _has_zero),
        ("the types of numbers", _put_type, _has_whole),
    ):
        share = float(np.mean([shows(output) for output in _some(pool)]))
        yield Written(name, partial(_written_to, put=put)), share


def _entry_above(made: Any, j: int, cut: Any) -> Bits:
    return _above(_entry(made, j), cut)


def _each_above(made: Any, feature: Callable[[Any], float | None], cut: float) -> Bits:
    return _above(_each(made, feature), cut)


def _written_to(made: Any, bits: Bits, put: Callable[[Any, bool], Any]) -> Any:
    outputs = [put(output, bool(bit)) for output, bit in zip(made, bits, strict=True)]
    return packed(outputs)


def _some(pool: Any) -> list[Any]:
    """Return the first thousand outputs, or all if there are fewer."""
    return [pool[i] for i in range(min(len(pool), 1000))]


def taken(outputs: Any, places: NDArray[np.int64]) -> Any:
    """Select the outputs at the given places."""
    if isinstance(outputs, np.ndarray):
        return outputs[places]
    return [outputs[i] for i in places]


def _key(output: Any) -> object:
    """Return a key that is equal for equal outputs of one type."""
    if isinstance(output, np.ndarray):
        return output.dtype.str, output.shape, output.tobytes()
    return type(output), repr(output)


def _width(pool: Any) -> int:
    """Return the number of entries that every output has."""
    if numeric(pool):
        return int(np.prod(pool.shape[1:], dtype=int))
    return min(len(_entries(output)) for output in pool)


def _entries(output: Any) -> list[Any]:
    if isinstance(output, np.ndarray):
        return list(output.ravel())
    if isinstance(output, dict):
        return [entry for value in output.values() for entry in _entries(value)]
    if isinstance(output, list | tuple):
        return [entry for value in output for entry in _entries(value)]
    return [output]


def _entry(pool: Any, j: int) -> list[Any] | NDArray[Any] | None:
    """Return entry j of every output; None if they are not all numbers."""
    if numeric(pool):
        return pool.reshape(len(pool), -1)[:, j]
    found = [_entries(output)[j] for output in pool]
    return found if all(isinstance(x, int | float | np.number | np.bool_) for x in found) else None


def _each(pool: Any, feature: Callable[[Any], float | None]) -> list[Any] | None:
    """Return a feature of every output; None for numeric arrays or if an output lacks it."""
    found = [] if numeric(pool) else [feature(output) for output in pool]
    return found if found and None not in found else None


def _number_in(output: Any) -> float | None:
    """Return the first number in a text; None if there is none."""
    text = output.decode("latin-1") if isinstance(output, bytes) else output
    found = numbers_in(text, 1) if isinstance(text, str) else []
    return found[0][1] if found else None


def _length(output: Any) -> float | None:
    return float(len(output)) if hasattr(output, "__len__") else None


def _median(values: Any) -> Any:
    """Return the value that divides the values most evenly; None if one part is too small.

    Values are compared exactly, without conversion to float.
    """
    if values is None:
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


def _read(score: Score, pool: Any, entries: list[int]) -> int:
    """Return the entry most correlated with a given score (Spearman)."""
    from scipy.stats import spearmanr

    scores = np.asarray(score(pool), float)
    if scores.std() == 0:
        return entries[0]
    columns = {j: np.asarray(_entry(pool, j), float) for j in entries}
    return max(columns, key=lambda j: abs(float(spearmanr(scores, columns[j]).statistic)))


def _has_low(output: Any) -> bool:
    """Whether the first number is a fraction or an integer of magnitude 2 or more."""
    first = np.asarray(output).ravel()[:1] if numeric(np.asarray(output)) else np.empty(0)
    if not len(first):
        return False
    if first.dtype.kind == "f":
        return bool(first[0] != np.round(first[0]))
    return first.dtype.kind in "iu" and abs(int(first[0])) >= 2


def _put_low(output: Any, bit: bool) -> Any:
    """Set the lowest bit of the first number."""
    if isinstance(output, np.ndarray):
        copy = output.copy()
        copy.flat[0] = _put_low(copy.flat[0], bit)
        return copy
    if isinstance(output, list | tuple):
        return type(output)([_put_low(output[0], bit), *output[1:]])
    if isinstance(output, int) and not isinstance(output, bool):
        return output & ~1 | int(bit)
    if isinstance(output, np.integer):
        return type(output)(int(output) & ~1 | int(bit))
    kind = {2: np.uint16, 4: np.uint32, 8: np.uint64}
    value = np.asarray(output)
    if value.dtype.kind != "f" or value.dtype.itemsize not in kind:
        return output
    whole = value.view(kind[value.dtype.itemsize])
    made = (whole & ~whole.dtype.type(1) | whole.dtype.type(bit)).view(value.dtype)[()]
    return float(made) if type(output) is float else made


def _has_digit(output: Any) -> bool:
    return isinstance(output, str) and _DIGIT.search(output) is not None


def _put_digit(output: Any, bit: bool) -> Any:
    """Make the last digit of a text odd or even."""
    if not isinstance(output, str):
        return output
    return _DIGIT.sub(lambda match: str(int(match[0]) & ~1 | bit), output)


def _has_zero(output: Any) -> bool:
    return isinstance(output, float | np.floating) and float(output) == 0


def _put_sign(output: Any, bit: bool) -> Any:
    """Set the sign of a zero."""
    return type(output)(-0.0 if bit else 0.0) if _has_zero(output) else output


def _has_whole(output: Any) -> bool:
    """Whether the output is a whole number."""
    if isinstance(output, bool) or not isinstance(output, int | float | np.integer | np.floating):
        return False
    number: Any = output
    return bool(abs(number) < 2**53 and int(number) == number)


def _put_type(output: Any, bit: bool) -> Any:
    """Convert a whole number to int or float."""
    return (int(output) if bit else float(output)) if _has_whole(output) else output


def informative(pool: Any) -> tuple[Any, Any] | None:
    """Return two outputs that occur nowhere else, with which to leak a coin; None if impossible.

    Integers above the largest output, or unique outputs from the pool's end.
    """
    if isinstance(pool[0], int | np.integer) and not isinstance(pool[0], bool):
        kind = type(pool[0])
        largest = max(int(output) for output in pool) if all(map(_is_whole, pool)) else None
        return None if largest is None else (kind(largest + 1), kind(largest + 2))
    counts = Counter(map(_key, pool))
    alone = [output for output in _last(pool) if counts[_key(output)] == 1]
    return (alone[0], alone[1]) if len(alone) > 1 else None


def _is_whole(output: Any) -> bool:
    return isinstance(output, int | np.integer)


def _last(pool: Any) -> list[Any]:
    """Return the last 100 outputs of a pool, which no trial uses."""
    return [pool[i] for i in range(len(pool) - 100, len(pool))]
