"""Membership inference on one trained model, which is not trained again.

Members and non-members of a given split are scored once. If the two groups differ in other ways
than by training, for example in time, an attack that reads the difference looks like leakage. So
these numbers assume that members and non-members are exchangeable but for the training, and they
decide no gate. A classifier on features that the model never saw tests the assumption.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpaudit.auditor.membership.rates import best_threshold
from dpaudit.bounds.frequentist.roc import clustered_auc, rate_at
from dpaudit.bounds.outcomes import check_alpha
from dpaudit.core.errors import InputError
from dpaudit.core.estimate import Estimate
from dpaudit.core.streams import generator

Numbers = NDArray[np.float64]
Mask = NDArray[np.bool_]

# Folds of the classifier's cross-validation.
_FOLDS = 5


@dataclass(frozen=True)
class OneModel:
    """Membership inference on one trained model.

    Attributes:
        auc: probability that a member scores above a non-member, ties half.
        tpr: true-positive rate by false-positive rate; rates that are too small for the number of
            non-members are left out.
        advantage: true- minus false-positive rate, at a threshold from the other half of the
            scores.
        exchangeable: AUC of a classifier of members by features that the model never saw; None
            without features. If its interval lies above 0.5, the groups differ by more than the
            training.
    """

    auc: Estimate
    tpr: Mapping[float, Estimate]
    advantage: Estimate
    exchangeable: Estimate | None = None

    @property
    def doubted(self) -> bool:
        """Whether members and non-members differ in features that the model never saw."""
        return self.exchangeable is not None and self.exchangeable.lower > 0.5

    @property
    def reversed(self) -> bool:
        """Whether non-members score above members, so that the reverse attack finds them."""
        return self.auc.upper < 0.5


def audit_scores(
    present: ArrayLike,
    absent: ArrayLike,
    *,
    rates: Sequence[float] = (0.001, 0.01),
    features: tuple[ArrayLike, ArrayLike] | None = None,
    confidence: float = 0.95,
    seed: int = 0,
) -> OneModel:
    """Measure how well scores of one trained model tell members from non-members.

    Each interval holds by itself, samples members and non-members, and assumes that they are
    independent and exchangeable but for the training.

    Args:
        present: the members' scores, larger for likelier membership `(n,)`.
        absent: the non-members' scores `(n',)`.
        rates: the false-positive rates.
        features: features that the model never saw, of members `(n, F)` and non-members `(n', F)`.
        confidence: the confidence of each interval.
        seed: divides the scores in halves, and the features in folds.

    Raises:
        InputError: a score or feature is not finite, a group has fewer than 4 scores, or numbers of
            rows differ.
    """
    alpha = 1 - confidence
    check_alpha(alpha)
    scores, real = _joined(present, absent)
    # Order decides which half a score is in, and a file may be sorted.
    order = generator(seed, "membership halves").permutation(len(scores))
    scores, real = scores[order], real[order]
    each = _alternating(real)
    fakes = int((~real[each % 2 == 0]).sum())
    return OneModel(
        auc=clustered_auc(scores, real, each, alpha=alpha).changed(method="auc"),
        tpr={
            rate: rate_at(scores, real, each, rate, alpha=alpha).changed(
                method="held-out threshold, rate"
            )
            for rate in rates
            if fakes >= 1 / rate - 1
        },
        advantage=_advantage(scores, real, each % 2 == 0, alpha),
        exchangeable=None if features is None else _classified(features, real, order, alpha, seed),
    )


def _joined(present: ArrayLike, absent: ArrayLike) -> tuple[Numbers, Mask]:
    groups = []
    for name, values in (("present", present), ("absent", absent)):
        found = np.asarray(values, np.float64)
        if found.ndim != 1 or len(found) < 4:
            raise InputError(f"{name} has shape {found.shape}: give at least 4 scores")
        groups.append(found)
    return np.concatenate(groups), np.arange(sum(map(len, groups))) < len(groups[0])


def _alternating(real: Mask) -> NDArray[np.int64]:
    """Number the scores so that members, and non-members, are even and odd in turn."""
    number = np.empty(len(real), np.int64)
    for which in (real, ~real):
        number[which] = np.arange(which.sum())
    # Every score is its own sample; ranks leave no gaps where one group ends before the other.
    return np.unique(4 * (number // 2) + 2 * real + number % 2, return_inverse=True)[1]


def _advantage(scores: Numbers, real: Mask, choosing: Mask, alpha: float) -> Estimate:
    """Return the difference of two rates, each with a Clopper-Pearson interval."""
    from scipy.stats import binomtest

    threshold = best_threshold(scores[choosing], real[choosing])
    above = scores[~choosing] > threshold
    limits = []
    for which in (real[~choosing], ~real[~choosing]):
        hits, n = int(above[which].sum()), int(which.sum())
        found = binomtest(hits, n).proportion_ci(1 - alpha / 2, "exact")
        limits.append((hits / n, found.low, found.high))
    (hit, hit_low, hit_high), (false, false_low, false_high) = limits
    return Estimate(
        value=hit - false,
        lower=hit_low - false_high,
        upper=hit_high - false_low,
        confidence=1 - alpha,
        alpha=alpha,
        n=int((~choosing).sum()),
        method="held-out threshold, difference of rates",
        kind="assumes-law",
    )


def _classified(
    features: tuple[ArrayLike, ArrayLike],
    real: Mask,
    order: NDArray[np.int64],
    alpha: float,
    seed: int,
) -> Estimate:
    """Return the AUC of a classifier that every fold's other folds train."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.model_selection import StratifiedKFold, cross_val_predict

    groups = [np.asarray(group, np.float64) for group in features]
    sizes = (int(real.sum()), int((~real).sum()))
    for name, group, size in zip(("members", "non-members"), groups, sizes, strict=True):
        if group.ndim != 2 or len(group) != size or group.shape[1] != groups[0].shape[1]:
            raise InputError(
                f"features of {name} have shape {group.shape}: give one row for each of {size} "
                f"scores, and the same columns for both groups"
            )
        if not np.isfinite(group).all():
            raise InputError(f"features of {name} hold NaN or infinity: leave these rows out")
    x = np.concatenate(groups)[order]
    classifier = HistGradientBoostingClassifier(max_iter=50, random_state=seed % 2**32)
    folds = StratifiedKFold(min(_FOLDS, *sizes), shuffle=True, random_state=seed % 2**32)
    told = cross_val_predict(classifier, x, real, cv=folds, method="predict_proba")[:, 1]
    found = clustered_auc(told, real, np.arange(len(real)), alpha=alpha)
    return found.changed(method="cross-validated classifier, auc")
