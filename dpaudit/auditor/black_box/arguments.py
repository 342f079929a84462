"""The check of the arguments of a black-box audit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from dpaudit.auditor.black_box.calls import Score
from dpaudit.auditor.black_box.same import same_data
from dpaudit.bounds import outcomes
from dpaudit.core.errors import InputError

# The least number of trials, and of outputs in the search.
_LEAST = 200


def check_calls(name: str, value: Any) -> None:
    """Refuse a number of calls that is no whole number, or too small for any audit.

    Raises:
        InputError: it is.
    """
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < _LEAST:
        raise InputError(f"{name} = {value!r} is not a whole number of at least {_LEAST}")


def check_arguments(
    pairs: Sequence[tuple[Any, Any]],
    score: Score | Literal["learned"],
    delta: float,
    alpha: float,
) -> None:
    """Refuse the arguments of `audit_pairs` that no audit can use, before the mechanism is called.

    Args:
        pairs: pairs of data sets.
        score: a function, or "learned".
        delta: the δ at which ε is bounded.
        alpha: the level of the bound.

    Raises:
        InputError: an argument is out of range, or a pair is none or holds equal data sets.
    """
    outcomes.check_alpha(alpha)
    outcomes.check_delta(delta)
    if score != "learned" and not callable(score):
        raise InputError(f"score = {score!r} is neither 'learned' nor a function")
    if not len(pairs):
        raise InputError("pairs are empty: give at least one pair of neighbouring data sets")
    for index, pair in enumerate(pairs):
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise InputError(f"pairs[{index}] is not a tuple (d, d_prime): make it one")
        if same_data(*pair):
            raise InputError(
                f"pairs[{index}] holds the same data set twice, which no mechanism tells apart: "
                "give two neighbouring data sets"
            )
