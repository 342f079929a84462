"""The outcomes of an attack, and what a bound may be asked for: checked once, here."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpaudit.core.errors import InputError, said
from dpaudit.core.estimate import Estimate, Kind

Scores = NDArray[np.float64]
# The level at which class sizes are refused where a proof needs fair coins.
UNFAIR = 1e-6
_MOST = 10**9


@dataclass(frozen=True)
class Counts:
    """How often an attack said "present" and "absent" in the worlds of either class.

    Attributes:
        tp: said present where the record was present (world D').
        fp: said present where it was absent (world D).
        fn: said absent where it was present.
        tn: said absent where it was absent.

    Raises:
        InputError: a count is negative, not whole or above 10^9, or a class is empty.
    """

    tp: int
    fp: int
    fn: int
    tn: int

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 0:
                raise InputError(f"{field.name} = {value!r} is not a count: give a whole number")
            check_size(field.name, int(value))
        for name, size in (("present", self.present), ("absent", self.absent)):
            if size == 0:
                raise InputError(f"no world of class {name!r} was played: give at least one")

    @property
    def present(self) -> int:
        """Number of worlds D'."""
        return self.tp + self.fn

    @property
    def absent(self) -> int:
        """Number of worlds D."""
        return self.fp + self.tn


def check_size(name: str, size: int) -> None:
    """Refuse more trials than double precision can tell: rates so near to 1 would count as 1.

    Raises:
        InputError: there are more than 10^9.
    """
    if size > _MOST:
        raise InputError(f"{name} is above 10^9, more trials than can be counted: correct it")


def scores(values: ArrayLike, name: str) -> Scores:
    """Scores of one class as a vector of finite numbers.

    Args:
        values: the scores.
        name: what to call them in an error.

    Raises:
        InputError: they are no vector of numbers, there is none, or one is NaN or infinite.
    """
    try:
        if np.iscomplexobj(values):
            raise TypeError("they are complex")
        # What is beyond double precision is infinite.
        with np.errstate(over="ignore", invalid="ignore"):
            found = np.asarray(values, dtype=np.float64)
    except Exception as error:  # objects of another's code can fail anyhow
        raise InputError(f"{name} are not numbers: {said(error)}") from error
    if found.ndim != 1:
        raise InputError(f"{name} have shape {found.shape}: give one score a world")
    if not len(found):
        raise InputError(f"{name} are empty: give at least one score")
    bad = np.flatnonzero(~np.isfinite(found))
    if len(bad):
        raise InputError(
            f"{name}[{bad[0]}] = {found[bad[0]]} is not a finite number: an attack that fails must "
            "score its world all the same, e.g. with the score of no evidence"
        )
    return found


def check_coins(absent: int, present: int, remedy: str) -> None:
    """Refuse class sizes that fair coins do not give: an exact two-sided binomial test.

    Fair coins are refused once in a million audits. Coins that are refused about half the time fall
    one way with odds of up to 1 + 10/√m to 1, and a bound on ε from the rarer guesses alone is
    then too large by up to the logarithm of these odds: 0.3 for m = 1000, 0.1 for 10 000.

    Args:
        absent: how many coins fell for D.
        present: how many for D'.
        remedy: what to do with classes of fixed sizes.

    Raises:
        InputError: the sizes have a p-value below 1e-6.
    """
    from scipy.stats import binom

    trials = absent + present
    p_value = min(1.0, 2 * float(binom.cdf(min(absent, present), trials, 0.5)))
    if p_value < UNFAIR:
        raise InputError(
            f"{present} scores with the record and {absent} without it are not what {trials} fair "
            f"coins give (p = {p_value:.2g}), which this method's proof needs: {remedy}"
        )


def check_delta(delta: float) -> None:
    """Refuse a δ outside [0, 1)."""
    if not 0 <= delta < 1:
        raise InputError(f"delta = {delta} is not in [0, 1): use e.g. 1e-5")


def check_epsilon(epsilon: float) -> None:
    """Refuse an ε that is negative or not finite."""
    if not 0 <= epsilon < math.inf:
        raise InputError(f"epsilon = {epsilon} is not a finite number of at least 0")


def check_alpha(alpha: float) -> None:
    """Refuse a level outside (0, 1)."""
    if not 0 < alpha < 1:
        raise InputError(
            f"alpha = {alpha} (1 - confidence) is not in (0, 1): use e.g. 0.05 for 95 %"
        )


def lower_bound(
    lower: float,
    *,
    value: float,
    alpha: float,
    confidence: float | None,
    n: int,
    method: str,
    kind: Kind = "frequentist",
) -> Estimate:
    """An estimate of a non-negative quantity that is bounded from below alone.

    `confidence` is 1 − α where none is stated for a family. Neither number is below 0.
    """
    return Estimate(
        value=max(0.0, float(value)),
        lower=max(0.0, float(lower)),
        upper=math.inf,
        confidence=1 - alpha if confidence is None else confidence,
        alpha=alpha,
        n=n,
        method=method,
        kind=kind,
    )
