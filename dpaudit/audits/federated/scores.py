"""Scores of attacks that distinguish real submissions from fakes, per training and averaged.

All intervals except those of `gated_areas` and `gated_divergence` are about a population of users
from which these are an independent sample. They are asymptotic, and each holds separately.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from dpaudit.audits.federated.transcripts import Checkpoint, Seen
from dpaudit.bounds.frequentist.clusters import clustered_mean, clustered_share, student_mean
from dpaudit.bounds.frequentist.means import betting_mean, nonnegative_mean
from dpaudit.bounds.frequentist.roc import clustered_auc, rate_at
from dpaudit.bounds.multiplicity import discoveries
from dpaudit.core.errors import InputError
from dpaudit.core.estimate import Estimate
from dpaudit.core.streams import generator
from dpaudit.core.transcripts import UserItemPairs
from dpaudit.record.result import WHOLE

# The false-positive rates at which the true-positive rate is measured.
RATES = (0.01, 0.001)
# The false-positive rates at which the ROC curve is drawn.
CURVE = tuple(float(f"{10 ** (exponent / 5):.3g}") for exponent in range(-15, 1))
# The level of each single test, and of the multiple-testing corrections.
LEVEL, MULTIPLE = 0.01, 0.05
# Groups of items by number of raters, each with about a quarter of the real pairs.
QUARTERS = ("rarest items", "rare items", "popular items", "most popular items")
# The level of intervals over trainings for numbers that are exact in each training.
_ALPHA = 0.05


def benjamini_hochberg(p_values: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Declare pairs real with an expected share of fakes among them of at most 5 %."""
    return discoveries(p_values, MULTIPLE)


def holm(p_values: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Declare pairs real such that any fake is among them with at most 5 % probability.

    Takes the smallest p-values as long as the i-th is at most `α/(n − i + 1)` (Holm 1979). The
    library's implementation runs the garbage collector in every call and is a hundred times slower.
    """
    order = np.argsort(p_values)
    kept = p_values[order] <= MULTIPLE / np.arange(len(p_values), 0, -1)
    rejections = np.zeros(len(p_values), np.bool_)
    rejections[order] = np.logical_and.accumulate(kept)
    return rejections


# The two corrections, by name.
CORRECTIONS = {"Benjamini-Hochberg": benjamini_hochberg, "Holm": holm}


@dataclass(frozen=True)
class Finding:
    """One measured number of a training; the fields are those of `result.measured`."""

    metric: str
    step: int
    estimate: Estimate
    attack: str | None = None
    detail: str | None = None
    at: float | None = None

    @property
    def key(self) -> tuple[str, int, str | None, str | None, float | None]:
        """The fields that identify it among the findings of one training."""
        return self.metric, self.step, self.attack, self.detail, self.at


@dataclass(frozen=True, eq=False)
class Truth:
    """The ground truth of the observed pairs.

    Attributes:
        pairs: the pairs.
        real: mask of the real ones `(P,)`.
        confidence: confidence of each interval separately.
        seed: decides which half of the users chooses thresholds.
        raters: the number of real pairs of each pair's item `(P,)`.
    """

    pairs: UserItemPairs
    real: NDArray[np.bool_]
    confidence: float
    seed: int = 0
    raters: NDArray[np.int64] = field(init=False)

    def __post_init__(self) -> None:
        counts = np.bincount(self.pairs.items[self.real], minlength=len(self.pairs.shares))
        object.__setattr__(self, "raters", counts[self.pairs.items])

    @property
    def alpha(self) -> float:
        """The level of each interval."""
        return 1 - self.confidence

    def findings(self, checkpoint: Checkpoint, *, last: bool) -> Iterator[Finding]:
        """Yield the findings at a checkpoint; at the last one also the ROC and by popularity."""
        step = checkpoint.step
        yield from self._divergences(checkpoint)
        for label, seen in checkpoint.seen.items():
            scores = seen.verdicts.scores
            yield Finding("transcript.auc", step, self._auc(scores, seen.rows), label)
            for rate in RATES:
                rated = self._rate(scores, seen.rows, rate)
                if rated:
                    yield Finding("transcript.tpr", step, rated, label, at=rate)
            if seen.verdicts.p_values is not None:
                yield from self._tests(step, label, seen.rows, seen.verdicts.p_values)
            if last:
                yield from self._by_popularity(step, label, seen)
                yield from self._roc(step, label, seen)

    def _divergences(self, checkpoint: Checkpoint) -> Iterator[Finding]:
        real, step = self.real, checkpoint.step
        whole = clustered_mean(
            checkpoint.divergence[real],
            self.pairs.users[real],
            alpha=self.alpha,
        )
        yield Finding("transcript.kl", step, whole, detail=WHOLE)
        if checkpoint.parts:
            for name, value in vars(checkpoint.parts).items():
                exact = Estimate.exact(value, "mean over all ratings")
                yield Finding("transcript.kl", step, exact, detail=name)

    def _auc(self, scores: NDArray[np.float64], rows: NDArray[np.int64]) -> Estimate:
        return clustered_auc(scores, self.real[rows], self.pairs.users[rows], alpha=self.alpha)

    def _rate(
        self, scores: NDArray[np.float64], rows: NDArray[np.int64], rate: float
    ) -> Estimate | None:
        """Return the true-positive rate; None if there are too few pairs for such a threshold."""
        # Ids may have an order, so their parity must not decide the halves.
        count = int(self.pairs.users.max(initial=0)) + 1
        users = generator(self.seed, "transcript halves").permutation(count)[self.pairs.users[rows]]
        try:
            return rate_at(scores, self.real[rows], users, rate, alpha=self.alpha)
        except InputError:
            return None

    def _share(self, flags: NDArray[np.bool_], rows: NDArray[np.int64]) -> Estimate:
        return clustered_share(flags, self.pairs.users[rows], alpha=self.alpha)

    def _tests(
        self, step: int, label: str, rows: NDArray[np.int64], p_values: NDArray[np.float64]
    ) -> Iterator[Finding]:
        """Yield the power of single tests, and the discoveries under each correction."""
        real = self.real[rows]
        for name, these in (("real", real), ("fake", ~real)):
            share = self._share(p_values[these] <= LEVEL, rows[these])
            yield Finding("transcript.power", step, share, label, name, LEVEL)
        for name, correct in CORRECTIONS.items():
            rejections = correct(p_values)
            exposed = self._share(rejections[real], rows[real])
            yield Finding("transcript.exposed", step, exposed, label, name, MULTIPLE)
            if len(set(self.pairs.users[rows[rejections]])) > 1:
                false = self._share(~real[rejections], rows[rejections])
                yield Finding("transcript.false", step, false, label, name, MULTIPLE)

    def _roc(self, step: int, label: str, seen: Seen) -> Iterator[Finding]:
        """Yield the ROC curve at false-positive rates evenly spaced on a logarithmic axis."""
        real = self.real[seen.rows]
        fakes, reals = np.sort(seen.verdicts.scores[~real]), np.sort(seen.verdicts.scores[real])
        for rate in CURVE:
            above = int(rate * len(fakes))
            if not above:
                continue
            # The threshold that at most `above` fakes exceed; of those at it, a share is found.
            least = fakes[len(fakes) - above - 1] if above < len(fakes) else -np.inf
            over, tied = (fakes > least).sum(), (fakes == least).sum()
            share = (above - over) / max(tied, 1)
            power = (reals > least).mean() + share * (reals == least).mean()
            exact = Estimate.exact(float(power), "share of real pairs")
            yield Finding("transcript.roc", step, exact, label, at=rate)

    def _by_popularity(self, step: int, label: str, seen: Seen) -> Iterator[Finding]:
        raters = self.raters[seen.rows]
        ends = np.quantile(raters[self.real[seen.rows]], [0.25, 0.5, 0.75])
        quarter = np.searchsorted(ends, raters)
        for index, name in enumerate(QUARTERS):
            here = quarter == index
            try:
                area = self._auc(seen.verdicts.scores[here], seen.rows[here])
            except InputError:  # too few users have such pairs
                continue
            yield Finding("transcript.auc", step, area, label, name)


def averaged(trials: Sequence[Sequence[Finding]]) -> list[Finding]:
    """Average each number and its interval limits over the trainings that have it.

    All trainings have the same users, so the sampling error of users is not averaged out; the mean
    of the limits is conservative.
    """
    groups: dict[tuple[object, ...], list[Finding]] = {}
    for trial in trials:
        for finding in trial:
            groups.setdefault(finding.key, []).append(finding)
    return [_mean(alike) for alike in groups.values()]


def _mean(alike: Sequence[Finding]) -> Finding:
    one, count = alike[0], len(alike)
    if count == 1:
        return one
    if one.estimate.kind == "exact":  # exact in one training, but not for all trainings
        values, alpha = [finding.estimate.value for finding in alike], _ALPHA
        return replace(one, estimate=student_mean(values, alpha, "trainings"))
    value, lower, upper = (
        float(np.mean([getattr(finding.estimate, name) for finding in alike]))
        for name in ("value", "lower", "upper")
    )
    method = f"{one.estimate.method}, mean of {count} trainings"
    changed = {"value": value, "lower": lower, "upper": upper, "method": method}
    return replace(one, estimate=one.estimate.changed(**changed))


def gated_areas(
    trials: Sequence[Sequence[Finding]], last: int, alpha: float, confidence: float
) -> Iterator[Finding]:
    """Yield the expected AUC of each attack over trainings on the given data.

    The interval only assumes that trainings are independent given the data and that each AUC is in
    [0, 1].
    """
    areas: dict[str | None, list[float]] = {}
    for trial in trials:
        for finding in trial:
            if (
                finding.metric == "transcript.auc"
                and finding.step == last
                and finding.detail is None
            ):
                areas.setdefault(finding.attack, []).append(finding.estimate.value)
    for label, values in areas.items():
        yield Finding("attack.auc", last, betting_mean(values, alpha, confidence), label)


def gated_divergence(
    trials: Sequence[Sequence[Finding]], last: int, most: float, alpha: float, confidence: float
) -> Iterator[Finding]:
    """Yield the expected divergence of real submissions from fakes over trainings on these data.

    In each training, the divergences `‖g − F‖²/(2σ²)` of each round given the rounds before it add
    up to a number of each real pair. Its mean over trainings is the divergence of the pair's whole
    sequence from one of fakes, by the chain rule (Cover & Thomas 2006, Theorem 2.5.3,
    doi:10.1002/047174882X). The sample are trainings: given the data they are independent, and no
    law of the number is assumed. So the interval is about the mean over the observed users' real
    pairs, not about other users.

    An upper end exists only where submissions are clipped (`Transcript.most`); else it is infinite.

    Args:
        trials: the findings of each training.
        last: the last round.
        most: the largest number of a training, by what clips submissions; infinite for none.
        alpha: the level.
        confidence: the confidence to state.
    """
    values = [
        finding.estimate.value for trial in trials for finding in trial if is_whole(finding, last)
    ]
    if values:
        mean = nonnegative_mean(values, alpha, confidence, most=most)
        method = f"{mean.method} over trainings" + (", clipped" if mean.upper < np.inf else "")
        yield Finding("transcript.kl", last, mean.changed(method=method), detail=WHOLE)


def is_whole(finding: Finding, last: int) -> bool:
    """Whether it is the whole divergence after the last round."""
    return (finding.metric, finding.step, finding.detail) == ("transcript.kl", last, WHOLE)
