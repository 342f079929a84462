"""What scores the outputs of a black-box audit, and the bound that the scores certify.

Bets on the coins of the calls may refute the claim before the last output. The outputs are those of
the audit, in the same order, and what they show is used once for bets and once for the certificate
of all trials. So the two share the error probability: a small part for bets, as the number of
outputs that these need grows with its logarithm only, and the rest for the certificate.

A learned score is learned again whenever the outputs have doubled, from all before the block that
it scores; on the trials that certify it is the score of the certificate. The wealth carries over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpaudit.attacks.black_box.learned import LearnedScore
from dpaudit.audits.mechanism.blocks import same_data
from dpaudit.audits.mechanism.calls import OutputTrials, Score
from dpaudit.bounds import outcomes
from dpaudit.bounds.frequentist.coin_betting import CoinProcess, anytime_epsilon
from dpaudit.bounds.frequentist.event_choice import Ends
from dpaudit.bounds.frequentist.labels import Guesses, LabelTest
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
    guesses: Callable[[Any], Guesses | None] | None = None
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
    return Scorer(
        learned.score,
        f"learned ({learned.name})",
        learned.side,
        learned.guesses,
        learned.encoding.unread,
    )


class Bettor:
    """A bettor against a claim, on the trials of one audit.

    Args:
        process: settles the bets against the claim.
        alpha: their level.
        confidence: the confidence to state.
        scorer: what scores outputs; None to learn it.
        seed: seed of what is learned.

    Attributes:
        certificate: the bound where the claim is refuted; None as long as it is not.
        outputs: the number of outputs so far.
    """

    def __init__(
        self,
        process: CoinProcess,
        alpha: float,
        confidence: float,
        scorer: Scorer | None,
        seed: int,
    ) -> None:
        self.certificate: OutputCertificate | None = None
        self.outputs = 0
        self._process, self._alpha, self._confidence = process, alpha, confidence
        self._scorer, self._learns, self._seed = scorer, scorer is None, seed
        self._learned_from = 0

    @property
    def p_value(self) -> float:
        """The p-value of the claim, which holds at any time."""
        return self._process.p_value

    def watch(self, growing: Iterable[OutputTrials], scorer: Scorer | None = None) -> OutputTrials:
        """Bet on trials as they come; return all of them, or those until the claim is refuted.

        Args:
            growing: the trials of one stream, more of them each time.
            scorer: what scores them, if that was made without them; None for the scorer so far.
        """
        settled, learns = 0, self._learns and scorer is None
        self._scorer = scorer or self._scorer
        for trials in growing:
            if self._scorer is not None:
                self._bet(self._scorer, trials, settled)
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
        self._process.update(values[-(len(trials) - settled) :], trials.present[settled:])
        if self.p_value > self._alpha:
            return
        bound = anytime_epsilon(self._process, alpha=self._alpha, confidence=self._confidence)
        self.certificate = OutputCertificate(
            bound,
            self._process.witness(),
            scorer,
            trials,
            scored(scorer.score, trials.outputs),
            early=True,
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
        learned = LearnedScore.fit(
            trials.of(False), trials.of(True), self._seed % 2**32, quick=True
        )
        scale = _calibrated(learned.score(trials.outputs), trials.present)
        scorer = learned_scorer(learned)
        self._scorer = scorer._replace(score=lambda outputs: scale(learned.score(outputs)))


def _calibrated(scores: Scores, present: NDArray[np.bool_]) -> Callable[[Scores], Scores]:
    """Return what makes scores log-odds: few outputs leave a regularised score close to 0.

    It is fitted on the outputs that the score was learned from (Platt 1999).
    """
    from sklearn.linear_model import LogisticRegression

    spread = scores.std() or 1.0
    model = LogisticRegression().fit(scores[:, None] / spread, present)
    slope, offset = float(model.coef_[0, 0]) / spread, float(model.intercept_[0])
    return lambda values: slope * values + offset
