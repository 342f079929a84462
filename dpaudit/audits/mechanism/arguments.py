"""The check of the arguments of a black-box audit."""

from __future__ import annotations

from collections.abc import Sequence, Sized
from typing import Any, Literal

import numpy as np

from dpaudit.audits.mechanism.calls import Score
from dpaudit.audits.mechanism.same import same_data
from dpaudit.bounds import outcomes
from dpaudit.core.errors import InputError

# What ends an audit before its last trial: that the claim is refuted.
Stop = Literal["when-decided"]
# The least and the largest number of trials, and of outputs in the search.
_LEAST, _MOST = 200, 100_000_000
# The largest factor of a planted violation.
_STRONGEST = 1e6


def check_calls(name: str, value: Any) -> None:
    """Refuse a number of calls that is no whole number, too small for any audit, or too large.

    Raises:
        InputError: it is.
    """
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or not _LEAST <= value <= _MOST:
        raise InputError(f"{name} = {value!r} is not a whole number from {_LEAST} to {_MOST}")


def check_probability(name: str, value: Any) -> None:
    """Refuse what is no number in (0, 1).

    Raises:
        InputError: it is none.
    """
    outcomes.check_number(name, value)
    if not 0 < value < 1:
        raise InputError(f"{name} = {value!r} is not in (0, 1): use e.g. 0.95 or 0.05")


def check_claim(claim: Any, detectable: Any) -> None:
    """Refuse a claimed ε and a factor of planted violations that no audit can use.

    Args:
        claim: the claimed ε; None claims nothing.
        detectable: the factor; None plants nothing.

    Raises:
        InputError: one is no number, or out of range.
    """
    if claim is not None:
        outcomes.check_epsilon(claim, "claim")
    if detectable is not None:
        outcomes.check_number("detectable", detectable)
        if not 1 < detectable <= _STRONGEST:
            raise InputError(
                f"detectable = {detectable} is not above 1 and at most {_STRONGEST:g}: use e.g. 1.5"
            )


def check_stop(stop: Any, claim: float | None) -> None:
    """Refuse another word than "when-decided", and to decide where nothing is claimed.

    Raises:
        InputError: it is another word, or there is no claim.
    """
    if stop not in (None, "when-decided"):
        raise InputError(f"stop = {stop!r} is neither 'when-decided' nor None: use one of these")
    if stop and claim is None:
        raise InputError("stop = 'when-decided' decides on a claim: give one, or leave out stop")


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
    if not isinstance(pairs, Sized):
        raise InputError(f"pairs = {pairs!r} is no list: give a list of pairs (d, d_prime)")
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
