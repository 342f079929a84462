"""The game of a black-box audit: outputs on two data sets, a score, and the bound it certifies."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, Literal

import numpy as np

from dpaudit.attacks.black_box.learned import LearnedScore
from dpaudit.auditor.games.certify import Level, bound
from dpaudit.auditor.games.outcomes import GameScores
from dpaudit.audits.mechanism.blocks import failed
from dpaudit.audits.mechanism.calls import MOST, Calls, Score, Trials, alike, numeric
from dpaudit.audits.mechanism.certificate import Certificate, Scorer, learned_scorer, scored
from dpaudit.audits.mechanism.early import Bettor
from dpaudit.audits.mechanism.order import check_calls
from dpaudit.audits.mechanism.outcome import Raised
from dpaudit.bounds.frequentist.coin_betting import CoinProcess, block_ends
from dpaudit.bounds.frequentist.labels import guessed_epsilon

# A learned score is trained on half of the trials, at most on this many.
_TRAINING = 400_000
# The outputs that are bet on where a call of the certificate makes several.
_FIRST = 4_096
# The most outputs that have to be equal on each data set where bets ended the game.
_CONSTANT = 1_000


@dataclass(frozen=True)
class OutputBound:
    """A bound on ε from outputs, by a score that is learned on some trials and tested on others.

    Attributes:
        calls: the caller of the mechanism.
        score: a function, or "learned".
        delta: the δ of the bound.
        confidence: the confidence to state.
    """

    calls: Calls
    score: Score | Literal["learned"]
    delta: float
    confidence: float

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

    def run(
        self,
        pair: tuple[Any, Any],
        purpose: str,
        trials: int,
        alpha: float,
        bettor: Bettor | None = None,
    ) -> Certificate:
        """Draw outputs on both data sets, and certify.

        Args:
            pair: the data sets D and D'.
            purpose: names the streams.
            trials: the number of outputs.
            alpha: the level of the bound.
            bettor: bets on the outputs, and ends the game once it refutes the claim. Where calls
                make several outputs, it has some at the beginning that are made one a call.
        """
        if bettor is not None and self.calls.several(trials):
            bettor.watch(self.calls.growing(pair, f"{purpose}/first", block_ends(_FIRST)))
            if bettor.certificate:
                return bettor.certificate
            trials, bettor = trials - _FIRST, None
        train, test = self.sizes(trials)
        learning = self._drawn(pair, f"{purpose}/train", train, bettor) if train else None
        if bettor and bettor.certificate:
            return bettor.certificate
        scorer = self.scorer(learning, test)
        judged = self._drawn(pair, f"{purpose}/test", test, bettor, scorer)
        if bettor and bettor.certificate:
            return bettor.certificate
        if all(isinstance(output, Raised) for output in judged.outputs):
            raise failed(str(judged.outputs[0]))
        return self.judge(scorer, judged, alpha)

    def lengthened(
        self, certificate: Certificate, pair: tuple[Any, Any], trials: int
    ) -> Certificate:
        """Return a certificate with as many outputs as it takes to call them constant.

        An early end may have few outputs, which are all equal although some noise is rare.

        Args:
            certificate: what a game certifies.
            pair: the data sets D and D'.
            trials: the most outputs of the game.
        """
        if not (certificate.early and certificate.noiseless):
            return certificate
        count = min(_CONSTANT, trials)
        self.calls.progress.expect(count)
        more = self.calls.run(pair, "certificate/constant", count)
        scores = scored(certificate.scorer.score, more.outputs)
        return replace(certificate, trials=more, scores=scores)

    def _drawn(
        self,
        pair: tuple[Any, Any],
        stream: str,
        count: int,
        bettor: Bettor | None,
        scorer: Scorer | None = None,
    ) -> Trials:
        if bettor is None:
            return self.calls.run(pair, stream, count, MOST)
        return bettor.watch(self.calls.growing(pair, stream, block_ends(count)), scorer)

    def certify(self, train: Trials, test: Trials, alpha: float) -> Certificate:
        """Certify on `test`, with a score learned on `train` unless one is given."""
        return self.judge(self.scorer(train, len(test)), test, alpha)

    def judge(self, scorer: Scorer, test: Trials, alpha: float) -> Certificate:
        """Certify on `test`, which the score must not have seen."""
        scores = scored(scorer.score, test.outputs)
        check_calls(test, scores)
        # Rare events and the score share the level; the larger bound holds.
        guesses = scorer.guesses(test.outputs) if scorer.guesses else None
        level = alpha if guesses is None else alpha / 2
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
        return Certificate(estimate, event, scorer, test, scores)

    def scorer(self, train: Trials | None, trials: int) -> Scorer:
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


def exceptions(trials: Trials) -> str | None:
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
