"""Counts and scores of an attack's outcomes, checks of the arguments of bounds, and seeds.

Seeds of audits are drawn from the operating system's entropy unless given. The level of an audit
holds over the random choice of its seed. It does not hold for a seed that all audits share or that
was chosen by its result: if scores take few values, a fixed seed draws the same coins in many
audits.
"""

from __future__ import annotations

import math
import secrets
from dataclasses import dataclass, fields
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpaudit.core.errors import InputError, said
from dpaudit.core.estimate import Estimate, Kind

Scores = NDArray[np.float64]
# If a proof needs fair coins, class sizes with a p-value below this are refused.
UNFAIR = 1e-6
_MOST = 10**9
# Every TOML and JSON reader accepts integers of this many bits.
_BITS = 63


@dataclass(frozen=True)
class Counts:
    """How often an attack answered "present" and "absent" in the trials of either class.

    Attributes:
        tp: answers "present" where the record was present (data set D').
        fp: answers "present" where the record was absent (data set D).
        fn: answers "absent" where the record was present.
        tn: answers "absent" where the record was absent.

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
                raise InputError(f"no trial of class {name!r} was run: give at least one")

    @property
    def present(self) -> int:
        """Number of trials on data set D'."""
        return self.tp + self.fn

    @property
    def absent(self) -> int:
        """Number of trials on data set D."""
        return self.fp + self.tn


def check_size(name: str, size: int) -> None:
    """Refuse more trials than double precision resolves: rates close to 1 would round to 1.

    Raises:
        InputError: the size is above 10^9.
    """
    if size > _MOST:
        raise InputError(f"{name} is above 10^9, the most trials that a bound can use: correct it")


def scores(values: ArrayLike, name: str) -> Scores:
    """Return the scores of one class as a vector of finite numbers.

    Args:
        values: the scores.
        name: their name in error messages.

    Raises:
        InputError: the values are not a vector of numbers, are empty, or one is NaN or infinite.
    """
    try:
        if np.iscomplexobj(values):
            raise TypeError("they are complex")
        given = np.asarray(values)
        texts = given.dtype.kind == "O" and any(isinstance(one, str | bytes) for one in given.flat)
        if given.dtype.kind in "US" or texts:
            raise TypeError("they are text")
        # Numbers beyond double precision become infinite, and are refused below.
        with np.errstate(over="ignore", invalid="ignore"):
            numbers = np.asarray(values, dtype=np.float64)
    except Exception as error:  # objects from a user's code may raise anything
        raise InputError(f"{name} are not numbers: {said(error)}") from error
    if numbers.ndim != 1:
        raise InputError(f"{name} have shape {numbers.shape}: give one score per trial")
    if not len(numbers):
        raise InputError(f"{name} are empty: give at least one score")
    bad = np.flatnonzero(~np.isfinite(numbers))
    if len(bad):
        raise InputError(
            f"{name}[{bad[0]}] = {numbers[bad[0]]} is not a finite number: give every trial a "
            "finite score, e.g. the score of no evidence where the attack failed"
        )
    return numbers


def check_coins(absent: int, present: int, remedy: str) -> None:
    """Refuse class sizes that contradict fair coins, by an exact two-sided binomial test.

    Fair coins are refused once in a million audits. Coins that are refused half of the time have
    odds of up to 1 + 10/√m to 1. A bound on ε from the rarer guesses alone is then too large by up
    to the logarithm of these odds: 0.3 for m = 1000, 0.1 for m = 10 000.

    Args:
        absent: the number of coins that chose D.
        present: the number of coins that chose D'.
        remedy: what the error message advises.

    Raises:
        InputError: the p-value of the sizes is below 1e-6.
    """
    from scipy.stats import binom

    trials = absent + present
    p_value = min(1.0, 2 * float(binom.cdf(min(absent, present), trials, 0.5)))
    if p_value < UNFAIR:
        raise InputError(
            f"{present} scores with the record and {absent} without it contradict {trials} fair "
            f"coins (p = {p_value:.2g}), which this method's proof needs: {remedy}"
        )


def check_number(name: str, value: Any) -> None:
    """Refuse what is no number, such as a word, a list or a truth value."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InputError(f"{name} = {value!r} is not a number: give one")


def check_delta(delta: float) -> None:
    """Refuse a δ outside [0, 1)."""
    check_number("delta", delta)
    if not 0 <= delta < 1:
        raise InputError(f"delta = {delta} is not in [0, 1): use e.g. 1e-5")


def check_epsilon(epsilon: float, name: str = "epsilon") -> None:
    """Refuse an ε that is negative or not finite; errors call it `name`."""
    check_number(name, epsilon)
    if not 0 <= epsilon < math.inf:
        raise InputError(f"{name} = {epsilon} is not a finite number of at least 0: give one")


def check_alpha(alpha: float) -> None:
    """Refuse a level outside (0, 1)."""
    check_number("alpha", alpha)
    if not 0 < alpha < 1:
        raise InputError(
            f"alpha = {alpha} (1 - confidence) is not in (0, 1): use e.g. 0.05 for 95 %"
        )


def lower_bound(
    lower: float,
    *,
    value: float,
    alpha: float,
    confidence: float | None = None,
    n: int,
    method: str,
    kind: Kind = "frequentist",
) -> Estimate:
    """Return an estimate of a non-negative quantity with a lower bound and no upper bound.

    `value` and `lower` are cut at 0. The confidence is 1 − α unless one is given for a family.
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


def interval(
    value: float, limits: tuple[float, float], *, alpha: float, n: int, method: str
) -> Estimate:
    """Return an estimate with limits that hold by themselves, and under a law of the sample."""
    return Estimate(
        value=value,
        lower=limits[0],
        upper=limits[1],
        confidence=1 - alpha,
        alpha=alpha,
        n=n,
        method=method,
        kind="assumes-law",
    )


def fresh_seed() -> int:
    """Draw a seed from the operating system's entropy."""
    return secrets.randbits(_BITS)


def settled(seed: int | None) -> int:
    """Return the given seed, or a fresh one for None.

    Raises:
        InputError: the seed is not a whole number of at least 0.
    """
    if seed is None:
        return fresh_seed()
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise InputError(f"seed = {seed!r} is not a whole number of at least 0")
    return int(seed)
