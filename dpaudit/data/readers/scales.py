"""The rating scale that fits the ratings of a file, and values that may be no ratings."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from dpaudit.data.source_parts import RatingScale

Values = NDArray[np.float64]

# The usual steps of scales, and the most steps of one.
_STEPS, _MOST_STEPS = (1.0, 0.5, 0.25, 0.2, 0.1, 0.05, 0.01), 2000
# The largest rating, and the least difference of the lowest and the highest.
_LARGEST, _LEAST = 1000, 1e-3
# The highest ratings of usual scales that begin above 0.
_HIGHEST = (5.0, 10.0)
# A column of an unknown name with more values than this holds counts or weights.
MOST_VALUES = 21
# The most values that mark what is not rated, such as 98 and 99.
_MARKS = 3


def usual_scale(values: Values) -> RatingScale | None:
    """Return the scale of these ratings, which rounds them if they are on no usual steps.

    Args:
        values: at least two ratings, distinct and sorted.

    Returns:
        The scale, from the lowest rating to the highest by the largest usual step that leads to all
        of them; else by a power of ten, from a step below to a step above. None for ratings above
        1000, and for ratings that hardly differ.
    """
    low, high = float(values[0]), float(values[-1])
    if max(-low, high) > _LARGEST or high - low < _LEAST:
        return None
    for step in _STEPS:
        steps = (values - low) / step
        if steps[-1] <= _MOST_STEPS and np.allclose(steps, np.round(steps), rtol=0, atol=1e-4):
            return RatingScale(minimum=low, maximum=high, step=step)
    digits = -math.ceil(math.log10((high - low) / _MOST_STEPS))
    step = 10.0**-digits
    ends = (
        round(math.floor(low / step) * step, digits),
        round(math.ceil(high / step) * step, digits),
    )
    return _valid(*ends, step, rounded=True)


def possible_scale(values: Values) -> RatingScale | None:
    """Return `usual_scale`, else a valid scale in steps of the least difference of two ratings."""
    if len(values) < 2:
        return None
    step = float(np.diff(values).min())
    return usual_scale(values) or _valid(float(values[0]), float(values[-1]), step, rounded=False)


def occurring(numbers: Values, codes: NDArray[np.int32]) -> tuple[Values, NDArray[np.int64]]:
    """Return the distinct finite values of a column, sorted, and the number of rows of each.

    Args:
        numbers: the number of each code; several codes may have the same.
        codes: the code of each row, −1 if it has none.
    """
    counts = np.bincount(codes[codes >= 0], minlength=len(numbers))
    known = np.isfinite(numbers) & (counts > 0)
    values, index = np.unique(numbers[known], return_inverse=True)
    return values, np.bincount(index, counts[known], len(values)).astype(np.int64)


def likely_ratings(values: Values, rows: NDArray[np.int64]) -> Values:
    """Return the values without those at the ends that may mark "not rated".

    Such are −1 beside 1 to 10, 99 beside −10 to 10, 0 beside 1 to 5. A value may be one if it is

    - far from three others or more: by more than half of their range, if these are five or more,
      else by ten times their range;
    - the only one below 0, an integer, and less far from 0 than the highest;
    - 0 beside few positive values that end at 5 or 10, or in more rows than each of four others.

    Args:
        values: distinct values, sorted `(n,)`.
        rows: the number of rows that have each `(n,)`.
    """
    count = len(values)
    for cut in range(1, min(_MARKS, count - 2) + 1):
        for low, high in ((cut, count), (0, count - cut)):
            gap = values[cut] - values[cut - 1] if low else values[high] - values[high - 1]
            extent, others = values[high - 1] - values[low], high - low
            far = others >= 3 and gap > (extent / 2 if others >= 5 else 10 * extent)
            if far or (low == 1 and _odd_first(values, rows)):
                return likely_ratings(values[low:high], rows[low:high])
    return values


def _odd_first(values: Values, rows: NDArray[np.int64]) -> bool:
    """Whether the lowest of three values or more may mark "not rated" by its sign or as 0."""
    first, second, last = values[0], values[1], values[-1]
    if first < 0:
        return bool(second >= 0 and first.is_integer() and last > -first)
    usual = len(values) > 3 and len(values) <= MOST_VALUES and last in _HIGHEST
    return bool(first == 0 and (usual or (len(values) > 4 and rows[0] > rows[1:].max())))


def _valid(minimum: float, maximum: float, step: float, *, rounded: bool) -> RatingScale | None:
    options = {"round": True} if rounded else {}
    try:
        return RatingScale(minimum=minimum, maximum=maximum, step=step, **options)
    except ValidationError:
        return None
