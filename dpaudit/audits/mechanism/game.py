"""The game of a black-box audit: outputs on two data sets, a score, and the bound it certifies.

Two checks ask whether outputs depend on the call that made them, or on its place in the order.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, Literal

import numpy as np

from dpaudit.attacks.black_box.learned import LearnedScore
from dpaudit.auditor.games.certify import GameScores, Level, bound
from dpaudit.audits.mechanism.blocks import failed
from dpaudit.audits.mechanism.calls import MOST, Calls, OutputTrials, Score, alike, numeric
from dpaudit.audits.mechanism.certificate import (
    Bettor,
    OutputCertificate,
    Scorer,
    learned_scorer,
    scored,
)
from dpaudit.audits.mechanism.one_call import Raised
from dpaudit.bounds.frequentist.coin_betting import CoinProcess, block_ends
from dpaudit.bounds.frequentist.labels import guessed_epsilon
from dpaudit.bounds.outcomes import Scores
from dpaudit.core.errors import InputError

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
        return Bettor(
            CoinProcess(claim, self.delta, log_odds=log_odds or self.score == "learned"),
            alpha,
            self.confidence,
            None if self.score == "learned" else self.scorer(None, 0),
            self.calls.seed,
        )

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
        self,
        stream: str,
        count: int,
        bettor: Bettor | None,
        scorer: Scorer | None = None,
    ) -> OutputTrials:
        if bettor is None:
            return self.calls.run(self.pair, stream, count, MOST)
        return bettor.watch(self.calls.growing(self.pair, stream, block_ends(count)), scorer)

    def certify(self, train: OutputTrials, test: OutputTrials) -> OutputCertificate:
        """Certify on `test`, with a score learned on `train` unless one is given."""
        return self.judge(self.scorer(train, len(test)), test)

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
        learned = LearnedScore.fit(
            train.of(False),
            train.of(True),
            self.calls.seed % 2**32,  # scikit-learn takes 32-bit seeds
            trials=trials,
        )
        return learned_scorer(learned)


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
    midranks: Scores = (counts.cumsum() - (counts - 1) / 2)[distances]
    return midranks


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
