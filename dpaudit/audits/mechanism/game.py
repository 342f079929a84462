"""The game of a black-box audit: outputs on two data sets, a score, and the bound it certifies.

Bets on the coins of the calls may refute the claim before the last output. The outputs are those of
the audit, in the same order, and what they show is used once for bets and once for the certificate
of all trials. So the two share the error probability: a small part for bets, as the number of
outputs that these need grows with its logarithm only, and the rest for the certificate.

A learned score is learned again whenever the outputs have doubled, from all before the block that
it scores; on the trials that certify it is the score of the certificate. The wealth carries over.

Two checks ask whether outputs depend on the call that made them, or on its place in the order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpaudit.attacks.black_box.learned import LearnedScore
from dpaudit.auditor.games import GameScores, Level, bound
from dpaudit.audits.mechanism.calls import (
    MOST,
    Calls,
    OutputTrials,
    Score,
    alike,
    failed,
    numeric,
    same_data,
)
from dpaudit.audits.mechanism.one_call import Raised
from dpaudit.bounds import outcomes
from dpaudit.bounds.frequentist.labels import Ends, LabelTest, Numbers, guessed_epsilon
from dpaudit.bounds.frequentist.sequential import CoinProcess, anytime_epsilon, block_ends
from dpaudit.bounds.outcomes import Scores
from dpaudit.core.errors import InputError
from dpaudit.core.estimate import Estimate

# The part of the error probability that bets spend.
SHARE = 0.1
# The fewest and the most outputs that a score is learned from, and the fewest of a data set.
_LEARNED_FROM, _OF_EITHER = (32, 16_384), 10


class Scorer(NamedTuple):
    """What scores outputs.

    Attributes:
        score: the score.
        name: its name.
        side: where its most informative values are.
        guesses: guesses by rare events, beside the score: 1 for D', −1 for D, 0 for none; or None.
        unread: what the score does not read, in words; empty for a given score.
    """

    score: Score
    name: str
    side: Ends
    guesses: Callable[[Any], Numbers | None] | None = None
    unread: tuple[str, ...] = ()


@dataclass(frozen=True)
class OutputCertificate:
    """The bound on one pair.

    Attributes:
        epsilon: the bound.
        event: the event that certifies it.
        scorer: what scores outputs.
        trials: the trials that certified it, or others of the game that tell noise from none.
        scores: their scores.
        early: whether bets certified it, before the last trial of the game.
    """

    epsilon: Estimate
    event: LabelTest
    scorer: Scorer
    trials: OutputTrials
    scores: outcomes.Scores
    early: bool = False

    @property
    def noiseless(self) -> bool:
        """Whether the outputs on each data set are all equal, and differ between the data sets."""
        absent, present = self.trials.of(False), self.trials.of(True)

        def alike(outputs: Any) -> bool:
            return all(same_data(outputs[0], output) for output in outputs)

        complete = len(absent) > 0 and len(present) > 0
        return (
            complete and not same_data(absent[0], present[0]) and alike(absent) and alike(present)
        )


def scored(score: Score, outputs: Any) -> outcomes.Scores:
    """Score the outputs; refuse more scores than outputs, which would count a trial twice."""
    scores = outcomes.scores(score(outputs), "scores")
    if len(scores) != len(outputs):
        raise InputError(f"score returned {len(scores)} numbers for {len(outputs)} outputs")
    return scores


def learned_scorer(learned: LearnedScore) -> Scorer:
    """Return a learned score as a scorer."""
    name, unread = f"learned ({learned.name})", learned.encoding.unread
    return Scorer(learned.score, name, learned.side, learned.guesses, unread)


@dataclass
class Bettor:
    """A bettor against a claim, on the trials of one audit.

    Attributes:
        process: settles the bets against the claim.
        alpha: their level.
        confidence: the confidence to state.
        scorer: what scores outputs; None as long as it is to be learned.
        seed: seed of what is learned.
        certificate: the bound where the claim is refuted; None as long as it is not.
        outputs: the number of outputs so far.
    """

    process: CoinProcess
    alpha: float
    confidence: float
    scorer: Scorer | None
    seed: int
    certificate: OutputCertificate | None = None
    outputs: int = 0

    def __post_init__(self) -> None:
        self._learns, self._learned_from = self.scorer is None, 0

    def watch(self, growing: Iterable[OutputTrials], scorer: Scorer | None = None) -> OutputTrials:
        """Bet on trials as they come; return all of them, or those until the claim is refuted.

        Args:
            growing: the trials of one stream, more of them each time.
            scorer: what scores them, if that was made without them; None for the scorer so far.
        """
        settled, learns = 0, self._learns and scorer is None
        self.scorer = scorer or self.scorer
        for trials in growing:
            if self.scorer is not None:
                self._bet(self.scorer, trials, settled)
            self.outputs += len(trials) - settled
            settled = len(trials)
            if self.certificate is not None:
                break
            if learns:
                self._learn(trials)
        return trials

    def _bet(self, scorer: Scorer, trials: OutputTrials, settled: int) -> None:
        # A given score may read all outputs at once; a learned one scores each by itself.
        values = scored(scorer.score, trials.outputs[settled if self._learns else 0 :])
        self.process.update(values[-(len(trials) - settled) :], trials.present[settled:])
        if self.process.p_value > self.alpha:
            return
        bound = anytime_epsilon(self.process, alpha=self.alpha, confidence=self.confidence)
        scores = scored(scorer.score, trials.outputs)
        self.certificate = OutputCertificate(
            bound, self.process.witness(), scorer, trials, scores, early=True
        )

    def _learn(self, trials: OutputTrials) -> None:
        """Learn the score of the next blocks from all trials so far, if these have doubled."""
        least, most = _LEARNED_FROM
        present = int(trials.present.sum())
        if not (
            max(least, 2 * self._learned_from) <= len(trials) <= most
            and _OF_EITHER <= present <= len(trials) - _OF_EITHER
        ):
            return
        self._learned_from = len(trials)
        learned = LearnedScore.fit(trials.of(False), trials.of(True), self.seed % 2**32, quick=True)
        scale = _calibrated(learned.score(trials.outputs), trials.present)
        scorer = learned_scorer(learned)
        self.scorer = scorer._replace(score=lambda outputs: scale(learned.score(outputs)))


def _calibrated(scores: Scores, present: NDArray[np.bool_]) -> Callable[[Scores], Scores]:
    """Return what makes scores log-odds: few outputs leave a regularised score close to 0.

    It is fitted on the outputs that the score was learned from (Platt 1999).
    """
    from sklearn.linear_model import LogisticRegression

    spread = scores.std() or 1.0
    model = LogisticRegression().fit(scores[:, None] / spread, present)
    slope, offset = float(model.coef_[0, 0]) / spread, float(model.intercept_[0])
    return lambda values: slope * values + offset


# A learned score is trained on half of the trials, at most on this many.
_TRAINING = 400_000
# The outputs that are bet on where a call of the certificate makes several.
_FIRST = 4_096
# The most outputs that have to be equal on each data set where bets ended the game.
_CONSTANT = 1_000
# Standard errors beyond which the scores within calls count as correlated.
_ALIKE = 6.0
# The number of entries tested for drift; the level of that test; the divisor of √n in the limit on
# a fourth moment.
_COORDINATES, _DRIFT, _TAIL = 8, 1e-6, 5


@dataclass(frozen=True)
class OutputBound:
    """A bound on ε from outputs, by a score that is learned on some trials and tested on others.

    Attributes:
        calls: the caller of the mechanism.
        score: a function, or "learned".
        pair: the data sets D and D'.
        trials: the number of outputs.
        delta: the δ of the bound.
        alpha: the level of the bound.
        confidence: the confidence to state.
        claim: the claimed ε; None claims nothing.
    """

    calls: Calls
    score: Score | Literal["learned"]
    pair: tuple[Any, Any]
    trials: int
    delta: float
    alpha: float
    confidence: float
    claim: float | None

    def sizes(self, trials: int) -> tuple[int, int]:
        """Split the trials into the numbers that train and that certify."""
        train = min(trials // 2, _TRAINING) if self.score == "learned" else 0
        return train, trials - train

    def bettor(self, claim: float, alpha: float, *, log_odds: bool) -> Bettor:
        """Return a bettor against the claim of an ε.

        Args:
            claim: the ε.
            alpha: the level of its bets.
            log_odds: whether a given score is the log-odds of D'.
        """
        learned = self.score == "learned"
        process = CoinProcess(claim, self.delta, log_odds=log_odds or learned)
        scorer = None if learned else self.scorer(None, 0)
        return Bettor(process, alpha, self.confidence, scorer, self.calls.seed)

    def run(self, bettor: Bettor | None = None) -> OutputCertificate:
        """Draw outputs on both data sets, and certify.

        Args:
            bettor: bets on the outputs, and ends the game once it refutes the claim. Where calls
                make several outputs, it has some at the beginning that are made one a call.
        """
        trials = self.trials
        # Some calls for so many outputs make more than one.
        if bettor is not None and self.calls.batched and trials > MOST:
            bettor.watch(self.calls.growing(self.pair, "certificate/first", block_ends(_FIRST)))
            if bettor.certificate:
                return bettor.certificate
            trials, bettor = trials - _FIRST, None
        train, test = self.sizes(trials)
        learning = self._drawn("certificate/train", train, bettor) if train else None
        if bettor and bettor.certificate:
            return bettor.certificate
        scorer = self.scorer(learning, test)
        judged = self._drawn("certificate/test", test, bettor, scorer)
        if bettor and bettor.certificate:
            return bettor.certificate
        if all(isinstance(output, Raised) for output in judged.outputs):
            raise failed(str(judged.outputs[0]))
        return self.judge(scorer, judged)

    def lengthened(self, certificate: OutputCertificate) -> OutputCertificate:
        """Return a certificate with as many outputs as it takes to call them constant.

        An early end may have few outputs, which are all equal although some noise is rare.

        Args:
            certificate: what the game certifies.
        """
        if not (certificate.early and certificate.noiseless):
            return certificate
        count = min(_CONSTANT, self.trials)
        self.calls.progress.expect(count)
        more = self.calls.run(self.pair, "certificate/constant", count)
        scores = scored(certificate.scorer.score, more.outputs)
        return replace(certificate, trials=more, scores=scores)

    def _drawn(
        self, stream: str, count: int, bettor: Bettor | None, scorer: Scorer | None = None
    ) -> OutputTrials:
        if bettor is None:
            return self.calls.run(self.pair, stream, count, MOST)
        return bettor.watch(self.calls.growing(self.pair, stream, block_ends(count)), scorer)

    def judge(self, scorer: Scorer, test: OutputTrials) -> OutputCertificate:
        """Certify on `test`, which the score must not have seen."""
        scores = scored(scorer.score, test.outputs)
        _check_independent(test, scores)
        # Rare events and the score share the level; the larger bound holds.
        guesses = scorer.guesses(test.outputs) if scorer.guesses else None
        level = self.alpha if guesses is None else self.alpha / 2
        sides = GameScores(
            scores[~test.present],
            scores[test.present],
            coin_flipped=True,
            expected=scorer.side,
            log_odds=self.score == "learned",
        )
        estimate, event = bound(sides, Level(self.delta, level, self.confidence), self.calls.seed)
        if guesses is not None:
            rare, rare_event = guessed_epsilon(
                guesses, test.present, delta=self.delta, alpha=level, confidence=self.confidence
            )
            if rare.lower > estimate.lower:
                estimate, event = rare, rare_event
                scorer = scorer._replace(name="learned (rare events)")
        return OutputCertificate(estimate, event, scorer, test, scores)

    def scorer(self, train: OutputTrials | None, trials: int) -> Scorer:
        """Return the given score, or one that is learned to certify with so many trials."""
        if self.score != "learned":
            return Scorer(self.score, getattr(self.score, "__name__", "given"), "top")
        if train is None:
            raise TypeError("a score is learned from trials")
        seed = self.calls.seed % 2**32  # scikit-learn takes 32-bit seeds
        return learned_scorer(
            LearnedScore.fit(train.of(False), train.of(True), seed, trials=trials)
        )


def _check_independent(trials: OutputTrials, scores: Scores) -> None:
    """Refuse scores that are positively correlated within the calls of one data set.

    If the outputs of a call are independent, the product of two centred scores of one call has
    mean 0. Tested on the ranks, and on the indicators of the upper nine tenths, half and tenth.

    Raises:
        InputError: the scores are correlated.
    """
    if len(np.unique(trials.calls)) == len(trials):
        return
    from scipy.stats import rankdata

    statistic = 0.0
    for name in (None, 0.1, 0.5, 0.9):
        excess = variance = 0.0
        for dataset in (False, True):
            here = trials.present == dataset
            ranks = rankdata(scores[here])
            values = ranks if name is None else (ranks > name * len(ranks)).astype(float)
            spread = values.std()
            if spread == 0:
                continue
            values = (values - values.mean()) / spread
            sums = np.bincount(trials.calls[here], values)
            sizes = np.bincount(trials.calls[here]).astype(float)
            pairs = float((sizes * (sizes - 1)).sum())
            excess += float((sums**2).sum() - len(values) + pairs / max(len(values) - 1, 1))
            variance += 2 * pairs
        if variance:
            statistic = max(statistic, excess / variance**0.5)
    if statistic > _ALIKE:
        raise InputError(
            "outputs of one call are alike, so one output reveals the data set of the others: make "
            f"the n outputs of a call independent, leave out batched, or use at most {MOST} "
            "trials, which are drawn one per call"
        )


def drift(trials: OutputTrials, scores: Scores) -> str | None:
    """Describe how outputs change with the call's number or depend on the previous call; else None.

    Tests the score and the first entries of numeric outputs, and their distances from the median,
    by Spearman's correlation with the call's number and between successive calls, at a joint level
    of one in a million. The certificate stays valid because of the coins, but a claim about a
    single call says little about a mechanism with memory.
    """
    from scipy.special import ndtri
    from scipy.stats import rankdata

    series = [scores]
    if numeric(trials.outputs):
        flat = trials.outputs.reshape(len(trials), -1)
        series += [flat[:, j] for j in range(min(flat.shape[1], _COORDINATES))]
    count = len(trials)
    # NaN ranks below all numbers.
    ranked = [rankdata(np.where(np.isnan(values), -np.inf, values)) for values in series]
    ranked += [_distance_ranks(ranks) for ranks in ranked]
    limit = -float(ndtri(_DRIFT / (4 * len(ranked))))
    position = np.linspace(-1, 1, count) * (3 * (count - 1) / (count + 1)) ** 0.5
    trend = memory = 0.0
    for ranks in ranked:
        spread = ranks.std()
        if spread == 0:
            continue
        unit = (ranks - ranks.mean()) / spread
        squares = unit * unit
        # With a few extreme values the correlations are not approximately normal.
        if (squares * squares).sum() / count > count**0.5 / _TAIL:
            continue
        trend = max(trend, abs(float((unit * position).sum())) / count**0.5)
        memory = max(memory, abs(float((unit[1:] * unit[:-1]).sum())) / count**0.5)
    signs = [
        words
        for size, words in (
            (trend, "change with the number of the call"),
            (memory, "depend on those of the call before"),
        )
        if size > limit
    ]
    if not signs:
        return None
    return (
        f"outputs {' and '.join(signs)}: the mechanism keeps a state between calls, and this audit "
        "is about a single call"
    )


def _distance_ranks(ranks: Scores) -> Scores:
    """Rank the distances of ranks from their middle, by counting instead of sorting."""
    distances = np.abs(2 * ranks - (len(ranks) + 1)).astype(np.int64)
    counts = np.bincount(distances)
    return (counts.cumsum() - (counts - 1) / 2)[distances]


def exceptions(trials: OutputTrials) -> str | None:
    """Describe how often calls raised an exception on either data set; None if none did."""
    raised = np.array([isinstance(output, Raised) for output in trials.outputs], np.bool_)
    if not raised.any():
        return None
    absent, present = (raised[trials.present == dataset].mean() for dataset in (False, True))
    return (
        f"the mechanism raised exceptions, which are outputs, in {present:.3%} of the calls on D' "
        f"and in {absent:.3%} of those on D, the first of them {trials.outputs[raised.argmax()]}"
    )


def with_exceptions(score: Score) -> Score:
    """Return a given score that puts outputs which are exceptions above all others."""

    @wraps(score)
    def wrapped(outputs: Any) -> Any:
        if numeric(outputs):
            return score(outputs)
        raised = np.array([isinstance(output, Raised) for output in outputs], np.bool_)
        if not raised.any():
            return score(outputs)
        answers = alike([output for output, no in zip(outputs, raised, strict=True) if not no])
        values = scored(score, answers) if len(answers) else np.zeros(0)
        scores = np.full(len(raised), values.max(initial=0.0) + 1)
        scores[~raised] = values
        return scores

    return wrapped
