"""The rating scale that fits the ratings of a file."""

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
    """Return `usual_scale`, else one by the least difference of two ratings, if it is valid."""
    if len(values) < 2:
        return None
    step = float(np.diff(values).min())
    return usual_scale(values) or _valid(float(values[0]), float(values[-1]), step, rounded=False)


def _valid(minimum: float, maximum: float, step: float, *, rounded: bool) -> RatingScale | None:
    options = {"round": True} if rounded else {}
    try:
        return RatingScale(minimum=minimum, maximum=maximum, step=step, **options)
    except ValidationError:
        return None
