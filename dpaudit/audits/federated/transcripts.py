"""Runs of federated trainings, in which attacks infer round by round which submissions are real.

What they infer is scored per training, and averaged. All intervals but those of `gated_areas` and
`gated_divergence` are about a population of users from which these are an independent sample. They
are asymptotic, and each holds separately.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from operator import add
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from dpaudit.attacks.base import SubmissionTest, TranscriptReader
from dpaudit.bounds.frequentist.intervals import clustered_mean, clustered_share, student_mean
from dpaudit.bounds.frequentist.means import betting_mean, nonnegative_mean
from dpaudit.bounds.frequentist.roc import clustered_auc, rate_at
from dpaudit.bounds.multiplicity import discoveries
from dpaudit.core.errors import InputError
from dpaudit.core.estimate import Estimate
from dpaudit.core.releases import Round, UserItemPairs, Verdicts
from dpaudit.core.streams import generator
from dpaudit.defenses.federated.fake_gradients import Distances, TrainingTranscript
from dpaudit.kernels.federated.transcripts import add_normal, add_two_valued
from dpaudit.record.result import WHOLE

Rows = NDArray[np.int64]
K = TypeVar("K")
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


@dataclass(frozen=True, eq=False)
class Seen:
    """What one attack infers from the rounds so far.

    Attributes:
        rows: the pairs that the attack observed, increasing `(n,)`.
        verdicts: its scores and p-values of these pairs.
    """

    rows: Rows
    verdicts: Verdicts


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """The state of one training after some rounds.

    Attributes:
        step: number of rounds.
        seen: what each attack infers, by label; empty if attacks are not evaluated here.
        divergence: Kullback-Leibler divergence of each pair's real submissions from fake ones so
            far, in nats `(P,)`; for a fake pair, of the submissions that a real one would make.
        parts: the components of the divergence, averaged over all ratings, in nats; None unless
            fakes are the same for all users and nothing is clipped.
    """

    step: int
    seen: Mapping[str, Seen]
    divergence: NDArray[np.float64]
    parts: Distances | None


def run_transcript(
    transcript: TrainingTranscript,
    attacks: Mapping[str, SubmissionTest],
    steps: Sequence[int],
    asked: Sequence[int],
    seed: int,
) -> Iterator[Checkpoint]:
    """Run a training to its end, and yield a checkpoint after each of the given rounds.

    Args:
        transcript: a training that has not started.
        attacks: the attacks, by label.
        steps: numbers of rounds after which to yield a checkpoint.
        asked: those of `steps` at which the attacks are evaluated.
        seed: seed of the choice of pairs for attacks that must store whole sequences.
    """
    pairs = transcript.pairs
    total: Distances | None = None
    views = {label: _View.of(attack, transcript, seed) for label, attack in attacks.items()}
    divergence = np.zeros(len(pairs))
    wanted = set(steps)
    for step, (round_, distances) in enumerate(transcript.rounds(), 1):
        _add(divergence, pairs, round_)
        if total is None or distances is None:
            total = distances
        else:
            total = Distances(*map(add, astuple(total), astuple(distances)))
        for view in views.values():
            view.see(round_)
        if step in wanted:
            evaluated = views.items() if step in asked else ()
            yield Checkpoint(
                step=step,
                seen={label: Seen(view.rows, view.reader.verdicts()) for label, view in evaluated},
                divergence=divergence.copy(),
                parts=_nats(total, pairs.sigma),
            )


@dataclass(frozen=True, eq=False)
class _View:
    """The view of one attack."""

    rows: Rows
    reader: TranscriptReader
    local: NDArray[np.int32] | None  # each pair's place in `rows`, or −1; None: all are observed

    @classmethod
    def of(cls, attack: SubmissionTest, transcript: TrainingTranscript, seed: int) -> _View:
        pairs = transcript.pairs
        if attack.most_pairs is None:
            return cls(np.arange(len(pairs)), attack.reader(pairs), None)
        rows = _some(transcript.real, attack.most_pairs, seed)
        local = np.full(len(pairs), -1, np.int32)
        local[rows] = np.arange(len(rows))
        subset = replace(pairs, users=pairs.users[rows], items=pairs.items[rows])
        return cls(rows, attack.reader(subset), local)

    def see(self, round_: Round) -> None:
        if self.local is None:
            self.reader.see(round_)
            return
        rows = self.local[round_.place]
        mask = rows >= 0
        arrays = {name: getattr(round_, name) for name in ("shown", "gradients", "made_up")}
        seen = {name: array[mask] for name, array in arrays.items() if array is not None}
        self.reader.see(replace(round_, place=rows[mask], **seen))


def _some(real: NDArray[np.bool_], count: int, seed: int) -> Rows:
    """Draw at most `count` pairs, half real and half fake, increasing."""
    rng = generator(seed, "watched pairs")
    chosen = []
    for label in (True, False):
        rows = np.flatnonzero(real == label)
        chosen.append(rng.choice(rows, min(len(rows), count // 2), replace=False))
    return np.sort(np.concatenate(chosen))


def _add(divergence: NDArray[np.float64], pairs: UserItemPairs, round_: Round) -> None:
    """Add a round's divergence of real submissions from fakes to each pair's total."""
    if pairs.level is not None:
        add_two_valued(round_.place, round_.gradients, pairs.level, divergence)
    elif not pairs.sigma:
        return  # without noise the divergence is not finite; it stays 0
    elif round_.made_up is None:
        add_normal(
            round_.place, round_.gradients, round_.fakes, pairs.items, pairs.sigma, divergence
        )
    else:
        apart = (round_.gradients - round_.made_up).astype(np.float64)
        divergence[round_.place] += (apart**2).sum(1) / (2 * pairs.sigma**2)


def _nats(total: Distances | None, sigma: float) -> Distances | None:
    """Convert squared distances to divergences of normal submissions; None without noise."""
    if total is None or not sigma:
        return None
    return Distances(*(distance / (2 * sigma**2) for distance in astuple(total)))


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
        users = self.pairs.users[real]
        whole = clustered_mean(checkpoint.divergence[real], users, alpha=self.alpha)
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
        for name, chosen in (("real", real), ("fake", ~real)):
            share = self._share(p_values[chosen] <= LEVEL, rows[chosen])
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


def grouped(findings: Iterable[Finding], key: Callable[[Finding], K]) -> dict[K, list[Finding]]:
    """Return the findings that agree in a key, by this key."""
    groups: dict[K, list[Finding]] = {}
    for finding in findings:
        groups.setdefault(key(finding), []).append(finding)
    return groups


def averaged(findings: Iterable[Finding]) -> list[Finding]:
    """Average each number and its interval limits over the trainings that have it.

    All trainings have the same users, so the sampling error of users is not averaged out; the mean
    of the limits is conservative.
    """
    return [_mean(group) for group in grouped(findings, lambda finding: finding.key).values()]


def _mean(findings: Sequence[Finding]) -> Finding:
    """Return the mean over trainings of one number."""
    first, estimates = findings[0], [finding.estimate for finding in findings]
    if len(findings) == 1:
        return first
    if first.estimate.kind == "exact":  # exact in one training, but not for all trainings
        values = [estimate.value for estimate in estimates]
        return replace(first, estimate=student_mean(values, _ALPHA, "trainings"))
    means = {
        name: float(np.mean([getattr(estimate, name) for estimate in estimates]))
        for name in ("value", "lower", "upper")
    }
    method = f"{first.estimate.method}, mean of {len(findings)} trainings"
    return replace(first, estimate=first.estimate.changed(**means, method=method))


def gated_areas(
    findings: Iterable[Finding], last: int, alpha: float, confidence: float
) -> Iterator[Finding]:
    """Yield the expected AUC of each attack over trainings on the given data.

    The interval only assumes that trainings are independent given the data and that each AUC is in
    [0, 1].
    """
    whole = ("transcript.auc", last, None)
    areas = [
        finding for finding in findings if (finding.metric, finding.step, finding.detail) == whole
    ]
    for label, group in grouped(areas, lambda area: area.attack).items():
        values = [area.estimate.value for area in group]
        yield Finding("attack.auc", last, betting_mean(values, alpha, confidence), label)


def gated_divergence(
    findings: Iterable[Finding], last: int, most: float, alpha: float, confidence: float
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
        findings: the findings of all trainings.
        last: the last round.
        most: the largest number of a training, by what clips submissions; infinite for none.
        alpha: the level.
        confidence: the confidence to state.
    """
    values = [finding.estimate.value for finding in findings if is_whole(finding, last)]
    if values:
        mean = nonnegative_mean(values, alpha, confidence, most=most)
        method = f"{mean.method} over trainings" + (", clipped" if mean.upper < np.inf else "")
        yield Finding("transcript.kl", last, mean.changed(method=method), detail=WHOLE)


def is_whole(finding: Finding, last: int) -> bool:
    """Whether it is the whole divergence after the last round."""
    return (finding.metric, finding.step, finding.detail) == ("transcript.kl", last, WHOLE)
