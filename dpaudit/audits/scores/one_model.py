"""Membership inference on one trained model, which is not trained again.

Members and non-members of a given split are scored once. If the two groups differ in other ways
than by training, for example in time, an attack that reads the difference looks like leakage. So
the plain numbers assume that members and non-members are exchangeable but for the training, and
decide nothing. With features that the model never saw, a classifier says what these alone tell (the
blind baseline), and `observational` compares members with others that are alike by them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpaudit.audits.membership.calibration import best_threshold
from dpaudit.audits.scores import observational
from dpaudit.audits.scores.observational import Corrected, Features, Mask, Numbers, Observed
from dpaudit.bounds import outcomes
from dpaudit.bounds.frequentist.one_run import check_gamma
from dpaudit.bounds.frequentist.roc import auc_in_folds, clustered_auc, least_absent, rate_of
from dpaudit.bounds.outcomes import check_alpha
from dpaudit.core.errors import InputError
from dpaudit.core.estimate import Estimate
from dpaudit.core.foreign import foreign
from dpaudit.core.frequency import Spelling, base_of
from dpaudit.core.messages import show
from dpaudit.core.rounding import at_least
from dpaudit.core.streams import generator
from dpaudit.record.result import GateRecord, Outcome

# Folds of the classifier, which guesses each by what it learns from those before it.
_FOLDS = 5


@dataclass(frozen=True)
class Limits:
    """The largest numbers allowed; None for no limit.

    Attributes:
        auc: of the AUC.
        tpr: of the true-positive rate, at every false-positive rate.
        epsilon: of ε.
    """

    auc: float | None = None
    tpr: float | None = None
    epsilon: float | None = None

    @property
    def named(self) -> list[str]:
        """The limits that are given."""
        return [name for name in ("auc", "tpr", "epsilon") if getattr(self, name) is not None]

    def count(self, rates: int) -> int:
        """Return how many numbers are judged, at this many false-positive rates."""
        return len(self.named) + (rates - 1) * (self.tpr is not None)

    def judge(self, corrected: Corrected) -> list[GateRecord]:
        """Judge each limit on the whole interval of its number.

        Args:
            corrected: the numbers; if they are refused, every outcome is inconclusive.
        """
        records = []
        for name in self.named:
            limit = float(getattr(self, name))
            for label, estimate in _numbers(name, corrected):
                outcome: Outcome = "inconclusive"
                reason = corrected.refused or "too few pairs for this rate: give more"
                if estimate is not None and name == "epsilon":
                    outcome, reason = _of_epsilon(estimate, limit, corrected)
                elif estimate is not None:
                    outcome, reason = _of_rate(estimate, limit, mirror=name == "auc")
                rule = f"{label} <= {limit:g}, {corrected.condition}"
                place = f"one-model/{name}/{label}"
                records.append(GateRecord(id=place, rule=rule, outcome=outcome, reason=reason))
        return records


def _numbers(name: str, corrected: Corrected) -> list[tuple[str, Estimate | None]]:
    if name == "auc":
        return [("corrected AUC", corrected.auc)]
    if name == "epsilon":
        return [("ε", corrected.epsilon)]
    if corrected.tpr is None:
        return [("corrected TPR", None)]
    return [(f"corrected TPR at {rate:g}", value) for rate, value in corrected.tpr.items()]


def _of_rate(estimate: Estimate, limit: float, *, mirror: bool) -> tuple[Outcome, str]:
    """Judge an AUC, whose reverse attack counts too, or a rate."""
    spelling = Spelling(base_of(estimate.value, 0.0, limit))
    interval = spelling.interval(estimate)
    most = max(estimate.upper, 1 - estimate.lower) if mirror else estimate.upper
    if estimate.lower > limit:
        return "fail", f"{interval} lies above"
    if most <= limit:
        return "pass", f"{interval} lies below"
    if estimate.upper <= limit:
        return "inconclusive", f"{interval}: the reverse attack may have {spelling.value(most)}"
    return "inconclusive", f"{interval} straddles it: more rows narrow it"


def _of_epsilon(estimate: Estimate, limit: float, corrected: Corrected) -> tuple[Outcome, str]:
    """Judge a lower bound on ε, which passes only if a larger leak would have been found."""
    planted, word = corrected.planted, "certified " if corrected.equal else ""
    certified = f"{word}ε at least {at_least(estimate.lower, 2)}"
    if estimate.lower > limit:
        return "fail", certified
    if estimate.value > limit:
        return "inconclusive", (
            f"{certified}, but the right guesses suggest {estimate.value:.3g}: give more rows"
        )
    if planted is None:
        return "inconclusive", f"{certified}, and it was not tried what would be found"
    often = f"{planted.hits} of {planted.runs} times"
    if planted.found:
        return "pass", f"{certified}, and {planted.mutant} in these rows is found {often}"
    return "inconclusive", (
        f"{certified}, and {planted.mutant} in these rows is found only {often}: give more rows"
    )


@dataclass(frozen=True)
class OneModel:
    """Membership inference on one trained model.

    Attributes:
        auc: probability that a member scores above a non-member, ties half.
        tpr: true-positive rate by false-positive rate; None where there are too few non-members.
        lacking: why a rate was not measured, by rate.
        advantage: true- minus false-positive rate, at a threshold from the other half of the
            scores.
        exchangeable: the blind baseline, AUC of a classifier of members by features that the model
            never saw, each fold by those before it; None without features. If its interval lies
            above 0.5, the groups differ by more than the training.
        corrected: what is left once the features are accounted for; None without features.
    """

    auc: Estimate
    tpr: Mapping[float, Estimate | None]
    advantage: Estimate
    lacking: Mapping[float, str]
    exchangeable: Estimate | None = None
    corrected: Corrected | None = None

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
    kinds: Mapping[int, observational.FeatureKind] | None = None,
    gamma: float | None = None,
    at_most: float | None = None,
    judged: int = 1,
    confidence: float = 0.95,
    seed: int = 0,
) -> OneModel:
    """Measure how well scores of one trained model tell members from non-members.

    Each interval holds by itself, samples members and non-members, and assumes that they are
    independent and exchangeable but for the training, or, of what is corrected, but for that and
    the features.

    Args:
        present: the members' scores, larger for likelier membership `(n,)`.
        absent: the non-members' scores `(n',)`.
        rates: the false-positive rates.
        features: features that the model never saw, of members `(n, F)` and non-members `(n', F)`.
        kinds: what a column of the features is; numbers, unless they are whole and few. One row of
            each group is compared, drawn at random.
        gamma: by what factor the odds of being a member may differ between rows that are compared,
            from 1; `observational` says what needs it.
        at_most: the largest ε allowed, to see whether more would be found.
        judged: how many corrected numbers limits judge; these hold together.
        confidence: the confidence of each interval, or of all that are judged.
        seed: divides the scores in halves and the features in folds, and orders equal scores.

    Raises:
        InputError: a score or feature is not finite, a group has fewer than 4 scores, numbers of
            rows differ, a rate is outside 10^-9 to 1, the seed is negative, a kind is none, or
            gamma is below 1.
    """
    alpha = 1 - confidence
    check_alpha(alpha)
    _check_rates(rates)
    if seed < 0:
        raise InputError(f"the seed {seed} is negative: give an integer from 0")
    if gamma is not None:
        check_gamma(gamma)
    if at_most is not None and not 0 < at_most < math.inf:
        raise InputError(f"at_most = {at_most} is no largest ε: give a number above 0, or None")
    scores, real = _joined(present, absent)
    # Order decides which half a score is in, and a file may be sorted.
    order = generator(seed, "membership halves").permutation(len(scores))
    table = None if features is None else Features(_table(features, real)[order], kinds or {})
    scores, real = scores[order], real[order]
    observed = None
    if table is not None:
        level = alpha / max(1, judged)
        # One row of each group, the first in the random order.
        kept = table.alone()
        members, others = int(real[kept].sum()), int((~real[kept]).sum())
        if min(members, others) < 4:
            raise InputError(
                f"features have {members} groups of members and {others} of non-members: give at "
                "least 4 of each"
            )
        observed = Observed(scores[kept], real[kept], table.of(kept), seed, level, gamma)
    given = int((~real).sum())
    # Twice as many as show the rate at all: with fewer, the largest score alone decides.
    needed = {rate: 2 * least_absent(rate) for rate in rates}
    return OneModel(
        auc=clustered_auc(scores, real, np.arange(len(real)), alpha=alpha).changed(method="auc"),
        tpr={
            rate: rate_of(scores, real, rate, alpha, seed) if given >= least else None
            for rate, least in needed.items()
        },
        advantage=_advantage(scores, real, _ranks(real) % 2 == 0, alpha),
        lacking={
            rate: f"needs {least} non-members, {given} were given"
            for rate, least in needed.items()
            if given < least
        },
        exchangeable=None if observed is None else _classified(observed, alpha),
        corrected=None if observed is None else observed.corrected(rates, at_most),
    )


def _check_rates(rates: Sequence[float]) -> None:
    if not isinstance(rates, Sequence | np.ndarray) or isinstance(rates, str):
        raise InputError(f"rates = {show(rates)} is no sequence: give such as (0.001, 0.01)")
    for rate in rates:
        if not isinstance(rate, Real) or not 1e-9 <= rate < 1:
            raise InputError(
                f"rates holds {show(rate)}: give false-positive rates from 1e-9 to below 1"
            )


def _joined(present: ArrayLike, absent: ArrayLike) -> tuple[Numbers, Mask]:
    groups = []
    for name, values in (("present", present), ("absent", absent)):
        group = outcomes.scores(values, name)
        if len(group) < 4:
            raise InputError(f"{name} has shape {group.shape}: give at least 4 scores")
        groups.append(group)
    return np.concatenate(groups), np.arange(sum(map(len, groups))) < len(groups[0])


def _ranks(real: Mask) -> NDArray[np.int64]:
    """Number the members, and the non-members, in their order `(n,)`."""
    number = np.empty(len(real), np.int64)
    for which in (real, ~real):
        number[which] = np.arange(which.sum())
    return number


def _advantage(scores: Numbers, real: Mask, choosing: Mask, alpha: float) -> Estimate:
    """Return the difference of two rates, each with a Clopper-Pearson interval.

    Every second member and every second non-member, `choosing`, set the threshold.
    """
    from scipy.stats import binomtest

    threshold = best_threshold(scores[choosing], real[choosing])
    above = scores[~choosing] > threshold
    limits = []
    for which in (real[~choosing], ~real[~choosing]):
        hits, n = int(above[which].sum()), int(which.sum())
        interval = binomtest(hits, n).proportion_ci(1 - alpha / 2, "exact")
        limits.append((hits / n, interval.low, interval.high))
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


def _table(features: tuple[ArrayLike, ArrayLike], real: Mask) -> Numbers:
    """Return the checked features of members, then of non-members `(n, F)`."""
    with foreign(
        lambda said: InputError(f"features are not numbers ({said}): give tables of them")
    ):
        groups = [np.asarray(group, np.float64) for group in features]
    sizes = (int(real.sum()), int((~real).sum()))
    for name, group, size in zip(("members", "non-members"), groups, sizes, strict=True):
        wide = group.shape[1] if group.ndim == 2 else 0
        if not wide or len(group) != size or wide != groups[0].shape[1]:
            raise InputError(
                f"features of {name} have shape {group.shape}: give one row for each of {size} "
                f"scores, and the same columns for both groups"
            )
        if not np.isfinite(group).all():
            raise InputError(f"features of {name} hold NaN or infinity: leave these rows out")
    return np.concatenate(groups)


def _classified(observed: Observed, alpha: float) -> Estimate:
    """Return the AUC of a classifier that guesses each fold by those before it."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    real, (columns, _) = observed.member, observed.features.columns()
    classifier = HistGradientBoostingClassifier(max_iter=50, random_state=observed.seed % 2**32)
    folds = _ranks(real) * _FOLDS // np.where(real, real.sum(), (~real).sum())
    chances = np.full(len(real), np.nan)
    for fold in range(1, _FOLDS):
        asked = folds == fold
        fit = classifier.fit(columns[folds < fold], real[folds < fold])
        chances[asked] = fit.predict_proba(columns[asked])[:, 1]
    asked = folds > 0
    area = auc_in_folds(chances[None, asked], real[asked], folds[asked], alpha=alpha)
    return area.changed(method="classifier of earlier folds, placements in folds")
