"""How well attackers tell real submissions from fakes, in numbers: of a training, then of several.

All intervals but that of `gated` are about a larger population of users like these, who are taken
as independent; they assume that and large numbers, and each stands for itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from dpaudit.auditor.federated.transcripts import Checkpoint, Seen
from dpaudit.bounds.frequentist.clusters import clustered_mean, clustered_share, student_mean
from dpaudit.bounds.frequentist.means import betting_mean
from dpaudit.bounds.frequentist.roc import clustered_auc, rate_at
from dpaudit.bounds.multiplicity import discoveries
from dpaudit.core.errors import InputError
from dpaudit.core.estimate import Estimate
from dpaudit.core.transcripts import Pairs
from dpaudit.record.metrics import MetricName
from dpaudit.record.result import WHOLE

# The false-positive rates at which true positives are counted.
RATES = (0.01, 0.001)
# The false-positive rates at which the curve is drawn.
CURVE = tuple(float(f"{10 ** (exponent / 5):.3g}") for exponent in range(-15, 1))
# The level of single tests, and of all tests together.
LEVEL, MULTIPLE = 0.01, 0.05
# Items by the number of their raters, about a quarter of the real pairs each.
QUARTERS = ("rarest items", "rare items", "popular items", "most popular items")
# The level of intervals over trainings of what is exact of each.
_ALPHA = 0.05


def benjamini_hochberg(p_values: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which pairs are called real so that among them the fakes are 5 % at most on average."""
    return discoveries(p_values, MULTIPLE)


def holm(p_values: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which pairs are called real so that any fake is among them with 5 % probability at most.

    The least p-values, as long as the i-th is at most `α/(n − i + 1)` (Holm 1979). The library's
    own collects garbage at every call, which takes a hundred times as long.
    """
    order = np.argsort(p_values)
    kept = p_values[order] <= MULTIPLE / np.arange(len(p_values), 0, -1)
    found = np.zeros(len(p_values), np.bool_)
    found[order] = np.logical_and.accumulate(kept)
    return found


# The two corrections, by name.
CORRECTIONS = {"Benjamini-Hochberg": benjamini_hochberg, "Holm": holm}


@dataclass(frozen=True)
class Finding:
    """One number of a training; the fields are those of `result.measured`."""

    metric: MetricName
    step: int
    estimate: Estimate
    attack: str | None = None
    detail: str | None = None
    at: float | None = None

    @property
    def key(self) -> tuple[MetricName, int, str | None, str | None, float | None]:
        """What tells it from others of the same training."""
        return self.metric, self.step, self.attack, self.detail, self.at


@dataclass(frozen=True, eq=False)
class Truth:
    """What the auditor knows of the pairs that are watched.

    Attributes:
        pairs: the pairs.
        real: which are real `(P,)`.
        confidence: of each interval, by itself.
        raters: of each pair's item, how many real pairs there are `(P,)`.
    """

    pairs: Pairs
    real: NDArray[np.bool_]
    confidence: float
    raters: NDArray[np.int64] = field(init=False)

    def __post_init__(self) -> None:
        counts = np.bincount(self.pairs.items[self.real], minlength=len(self.pairs.shares))
        object.__setattr__(self, "raters", counts[self.pairs.items])

    @property
    def alpha(self) -> float:
        """The level of each interval."""
        return 1 - self.confidence

    def findings(self, checkpoint: Checkpoint, *, last: bool) -> Iterator[Finding]:
        """What a training shows after some rounds; of its last, also by the items' popularity."""
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
            checkpoint.divergence[real].astype(np.float64),
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
        """None where too few are watched to hold out such a threshold."""
        try:
            users = self.pairs.users[rows]
            return rate_at(scores, self.real[rows], users, rate, alpha=self.alpha)
        except InputError:
            return None

    def _share(self, flags: NDArray[np.bool_], rows: NDArray[np.int64]) -> Estimate:
        return clustered_share(flags, self.pairs.users[rows], alpha=self.alpha)

    def _tests(
        self, step: int, label: str, rows: NDArray[np.int64], p_values: NDArray[np.float64]
    ) -> Iterator[Finding]:
        """What single tests find, and all together with either correction."""
        real = self.real[rows]
        for name, these in (("real", real), ("fake", ~real)):
            share = self._share(p_values[these] <= LEVEL, rows[these])
            yield Finding("transcript.power", step, share, label, name, LEVEL)
        for name, correct in CORRECTIONS.items():
            found = correct(p_values)
            exposed = self._share(found[real], rows[real])
            yield Finding("transcript.exposed", step, exposed, label, name, MULTIPLE)
            if len(set(self.pairs.users[rows[found]])) > 1:
                false = self._share(~real[found], rows[found])
                yield Finding("transcript.false", step, false, label, name, MULTIPLE)

    def _roc(self, step: int, label: str, seen: Seen) -> Iterator[Finding]:
        """The curve, at shares of fakes that stand evenly on a logarithmic axis."""
        real = self.real[seen.rows]
        fakes, reals = np.sort(seen.verdicts.scores[~real]), np.sort(seen.verdicts.scores[real])
        for rate in CURVE:
            above = int(rate * len(fakes))
            if not above:
                continue
            # The largest score that `above` fakes at most exceed.
            least = fakes[len(fakes) - above - 1] if above < len(fakes) else -np.inf
            found = 1 - np.searchsorted(reals, least, side="right") / len(reals)
            exact = Estimate.exact(float(found), "share of real pairs")
            yield Finding("transcript.roc", step, exact, label, at=rate)

    def _by_popularity(self, step: int, label: str, seen: Seen) -> Iterator[Finding]:
        raters = self.raters[seen.rows]
        ends = np.quantile(raters[self.real[seen.rows]], [0.25, 0.5, 0.75])
        quarter = np.searchsorted(ends, raters)
        for index, name in enumerate(QUARTERS):
            here = quarter == index
            try:
                area = self._auc(seen.verdicts.scores[here], seen.rows[here])
            except InputError:  # too few users have any
                continue
            yield Finding("transcript.auc", step, area, label, name)


def averaged(worlds: Sequence[Sequence[Finding]]) -> list[Finding]:
    """The mean of each number over the trainings that have it, with the mean of its limits.

    The same users stand in every training, so their chance is not averaged out: the mean of limits
    is wider than limits of the mean need be.
    """
    found: dict[tuple[object, ...], list[Finding]] = {}
    for world in worlds:
        for each in world:
            found.setdefault(each.key, []).append(each)
    return [_mean(alike) for alike in found.values()]


def _mean(alike: Sequence[Finding]) -> Finding:
    one, count = alike[0], len(alike)
    if count == 1:
        return one
    if one.estimate.kind == "exact":  # of a training, and not of all
        values, alpha = [each.estimate.value for each in alike], _ALPHA
        return replace(one, estimate=student_mean(values, alpha, "trainings"))
    value, lower, upper = (
        float(np.mean([getattr(each.estimate, name) for each in alike]))
        for name in ("value", "lower", "upper")
    )
    method = f"{one.estimate.method}, mean of {count} trainings"
    changed = {"value": value, "lower": lower, "upper": upper, "method": method}
    return replace(one, estimate=one.estimate.changed(**changed))


def gated(
    worlds: Sequence[Sequence[Finding]], last: int, alpha: float, confidence: float
) -> Iterator[Finding]:
    """The expected area under each attack's curve over trainings on these very data.

    Trainings are independent given the data and each area is in [0, 1]: the interval assumes
    nothing else.
    """
    areas: dict[str | None, list[float]] = {}
    for world in worlds:
        for each in world:
            if each.metric == "transcript.auc" and each.step == last and each.detail is None:
                areas.setdefault(each.attack, []).append(each.estimate.value)
    for label, values in areas.items():
        yield Finding("attack.auc", last, betting_mean(values, alpha, confidence), label)
