"""Lower bounds on ε from the counts of one attack whose event was chosen beforehand.

The event "the attack answers present" must not be chosen on these counts. Trials are independent,
so tp and fp are binomial with the attack's true and false positive rates.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from dpaudit.bounds.outcomes import Counts, check_alpha, check_delta, lower_bound
from dpaudit.core.errors import InputError
from dpaudit.core.estimate import Estimate

Floats = NDArray[np.float64]


def clopper_pearson_epsilon(
    counts: Counts, *, delta: float = 0.0, alpha: float = 0.05, split: float = 0.5
) -> Estimate:
    """Return a certified lower bound on ε from the event "answers present" and its complement.

    (ε, δ)-DP says TPR ≤ e^ε FPR + δ and TNR ≤ e^ε FNR + δ, so

        ε ≥ max(ln((TPR − δ)/FPR), ln((TNR − δ)/FNR)).

    TPR and TNR are replaced by lower, FPR and FNR by upper Clopper-Pearson limits. As TNR = 1 − FPR
    and FNR = 1 − TPR, both ratios use the same two limits, so the complement costs no confidence:
    the bound exceeds ε with probability at most α. Jagielski, Ullman, Oprea 2020, arXiv:2006.07709;
    Nasr et al. 2021, arXiv:2101.04535.

    Args:
        counts: the attack's outcomes.
        delta: the δ of the claim.
        alpha: the level of the bound.
        split: the share of α for the upper limit on FPR; the lower limit on TPR has the rest. It
            must not depend on these counts: see `best_split`.

    Raises:
        InputError: δ, α or the split is out of range.
    """
    check_delta(delta)
    tpr, fpr = rate_limits(counts, alpha=alpha, split=split)
    return lower_bound(
        _largest_log_ratio(_both_events(tpr, fpr), delta),
        value=_largest_log_ratio(_both_events(*_rates(counts)), delta),
        alpha=alpha,
        n=counts.present + counts.absent,
        method="clopper-pearson",
    )


def best_split(
    rate_present: float,
    rate_absent: float,
    present: int,
    absent: int,
    *,
    delta: float = 0.0,
    alpha: float = 0.05,
) -> float:
    """Return the split that maximises `clopper_pearson_epsilon` at the expected counts.

    The rates must come from a plan or from other trials. A split chosen on the counts to be
    certified voids the level.

    Args:
        rate_present: the probability of the answer "present" on data set D', known in advance.
        rate_absent: the same on data set D.
        present: the number of trials on data set D' that will be run.
        absent: the number of trials on data set D that will be run.
        delta: the δ of the claim.
        alpha: the level of the bound.

    Returns:
        A split on a grid of step 0.005 inside (0, 1); ½ if no split certifies anything.

    Raises:
        InputError: a rate, a size, δ or α is out of range.
    """
    check_delta(delta)
    check_alpha(alpha)
    for name, rate in (("rate_present", rate_present), ("rate_absent", rate_absent)):
        if not 0 <= rate <= 1:
            raise InputError(f"{name} = {rate} is not in [0, 1]: give a probability")
    for name, size in (("present", present), ("absent", absent)):
        if size < 1:
            raise InputError(f"{name} = {size} trials are too few: give at least 1")
    splits = np.linspace(0.005, 0.995, 199)
    lower = _lower_limits(rate_present * present, present, alpha * (1 - splits)).tolist()
    upper = _upper_limits(rate_absent * absent, absent, alpha * splits).tolist()
    bounds = [
        _largest_log_ratio(_both_events(p, q), delta) for p, q in zip(lower, upper, strict=True)
    ]
    best = int(np.argmax(bounds))
    return float(splits[best]) if bounds[best] > 0 else 0.5


def rate_limits(counts: Counts, *, alpha: float, split: float = 0.5) -> tuple[float, float]:
    """Return the lower limit on TPR at level α(1 − split) and the upper on FPR at α·split.

    One-sided Clopper-Pearson limits that hold together with probability at least 1 − α.

    Raises:
        InputError: α or the split is out of range.
    """
    check_alpha(alpha)
    if not 0 < split < 1:
        raise InputError(f"split = {split} is not in (0, 1): use 0.5 for equal shares of alpha")
    lower = _lower_limits(counts.tp, counts.present, np.array(alpha * (1 - split)))
    upper = _upper_limits(counts.fp, counts.absent, np.array(alpha * split))
    return float(lower), float(upper)


def _lower_limits(hits: float, n: int, levels: Floats) -> Floats:
    """Return the rate at which `hits` or more of n have the probability of each level."""
    from scipy.special import betaincinv

    return np.asarray(betaincinv(hits, n - hits + 1, levels) if hits > 0 else 0.0 * levels)


def _upper_limits(hits: float, n: int, levels: Floats) -> Floats:
    """Return the rate at which `hits` or fewer of n have the probability of each level."""
    from scipy.special import betainccinv

    return np.asarray(betainccinv(hits + 1, n - hits, levels) if hits < n else 1.0 + 0.0 * levels)


def _rates(counts: Counts) -> tuple[float, float]:
    return counts.tp / counts.present, counts.fp / counts.absent


def _both_events(p: float, q: float) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return numerator p ≤ P and denominator q ≥ Q of the event, and those of its complement."""
    return (p, q), (1 - q, 1 - p)


def _largest_log_ratio(pairs: Iterable[tuple[float, float]], delta: float) -> float:
    """Return the largest of ln((p − δ)/q); at least 0, infinite if q is 0 and p above δ."""
    logs = [math.log((p - delta) / q) if q > 0 else math.inf for p, q in pairs if p > delta]
    return max([0.0, *logs])
