"""Several bounds or claims at once: union bound, Holm, false discovery rate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpaudit.bounds.outcomes import check_alpha
from dpaudit.core.errors import InputError


@dataclass(frozen=True)
class Holm:
    """Claims rejected together; any of the rejections is wrong with probability at most α.

    Attributes:
        rejected: whether each claim is rejected.
        adjusted: each claim's adjusted p-value, the smallest α at which it is rejected.
    """

    rejected: tuple[bool, ...]
    adjusted: tuple[float, ...]


def split(alpha: float, size: int) -> float:
    """Return the level of each of `size` bounds that hold together at 1 − α: `α / size`.

    The union bound (Bonferroni), valid under any dependence.

    Raises:
        InputError: α is not in (0, 1), or `size` is not a whole number of at least 1.
    """
    check_alpha(alpha)
    if isinstance(size, bool) or not isinstance(size, int | np.integer) or size < 1:
        raise InputError(f"size = {size!r} is not a number of bounds: give a whole number from 1")
    return alpha / int(size)


def holm(p_values: Sequence[float], alpha: float) -> Holm:
    """Reject claims such that all rejections are right with confidence 1 − α.

    With `p_(1) ≤ … ≤ p_(m)` the claims (1) … (i) are rejected as long as `p_(i) ≤ α/(m − i + 1)`.
    The p-values may depend on each other in any way. Holm rejects at least the claims that `split`
    rejects, but gives no simultaneous bounds. Holm 1979, Scandinavian Journal of Statistics 6,
    65-70 (jstor.org/stable/4615733).

    Args:
        p_values: one p-value per claim.
        alpha: the largest probability of any wrong rejection.

    Raises:
        InputError: there is no p-value, one is not in [0, 1], or α is not in (0, 1).
    """
    check_alpha(alpha)
    if not len(p_values):
        raise InputError("p_values are empty: give one per claim")
    for i, p in enumerate(p_values):
        if not 0 <= p <= 1:
            raise InputError(f"p_values[{i}] = {p} is not in [0, 1]: use 1 for a claim not tested")
    from statsmodels.stats.multitest import multipletests

    rejected, adjusted, _, _ = multipletests(p_values, alpha, method="holm")
    return Holm(tuple(map(bool, rejected)), tuple(map(float, adjusted)))


def discoveries(p_values: ArrayLike, rate: float) -> NDArray[np.bool_]:
    """Return a mask of rejected claims with a false discovery rate of at most `rate`.

    With `p_(1) ≤ … ≤ p_(m)` the claims up to the last `p_(i) ≤ rate i/m` are rejected. The p-values
    must be independent or positively dependent. Benjamini & Hochberg 1995,
    doi:10.1111/j.2517-6161.1995.tb02031.x.
    """
    from statsmodels.stats.multitest import fdrcorrection

    p_values = np.asarray(p_values, np.float64)
    rejected: NDArray[np.bool_] = fdrcorrection(p_values, rate)[0]
    return rejected
