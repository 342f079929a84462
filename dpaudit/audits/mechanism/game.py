"""The game of a black-box audit: outputs on two data sets, a score, and the bound it certifies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, Literal, NamedTuple

import numpy as np

from dpaudit.attacks.black_box.learned import LearnedScore
from dpaudit.auditor.games.certify import Level, bound
from dpaudit.auditor.games.outcomes import GameScores
from dpaudit.audits.mechanism.blocks import failed
from dpaudit.audits.mechanism.calls import MOST, Calls, Score, Trials, alike, numeric
from dpaudit.audits.mechanism.order import check_calls
from dpaudit.audits.mechanism.outcome import Raised
from dpaudit.audits.mechanism.same import same_data
from dpaudit.bounds import outcomes
from dpaudit.bounds.frequentist.event_choice import Ends
from dpaudit.bounds.frequentist.labels import Guesses, LabelTest, guessed_epsilon
from dpaudit.core.errors import InputError
from dpaudit.core.estimate import Estimate

# A learned score is trained on half of the trials, at most on this many.
_TRAINING = 400_000


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
class Certificate:
    """The bound on one pair.

    Attributes:
        epsilon: the bound.
        event: the event that certifies it.
        scorer: what scores outputs.
        trials: the trials that certified it.
        scores: their scores.
    """

    epsilon: Estimate
    event: LabelTest
    scorer: Scorer
    trials: Trials
    scores: outcomes.Scores

    @property
    def noiseless(self) -> bool:
        """Whether the outputs on each data set are all equal, and differ between the data sets."""
        absent, present = self.trials.of(False), self.trials.of(True)

        def alike(outputs: Any) -> bool:
            return all(same_data(outputs[0], output) for output in outputs)

        both = len(absent) > 0 and len(present) > 0
        return both and not same_data(absent[0], present[0]) and alike(absent) and alike(present)


@dataclass(frozen=True)
class OutputBound:
    """A bound on ε from outputs, by a score that is learned on some trials and tested on others.

    Attributes:
        calls: the caller of the mechanism.
        score: a function, or "learned".
        delta: the δ of the bound.
    """

    calls: Calls
    score: Score | Literal["learned"]
    delta: float

    def sizes(self, trials: int) -> tuple[int, int]:
        """Split the trials into the numbers that train and that certify."""
        train = min(trials // 2, _TRAINING) if self.score == "learned" else 0
        return train, trials - train

    def run(
        self,
        pair: tuple[Any, Any],
        purpose: str,
        trials: int,
        alpha: float,
    ) -> Certificate:
        """Draw outputs on both data sets, and certify."""
        train, test = self.sizes(trials)
        learning = self.calls.run(pair, f"{purpose}/train", train, MOST) if train else None
        judged = self.calls.run(pair, f"{purpose}/test", test, MOST)
        if all(isinstance(output, Raised) for output in judged.outputs):
            raise failed(str(judged.outputs[0]))
        return self.certify(learning or judged, judged, alpha)

    def certify(self, train: Trials, test: Trials, alpha: float) -> Certificate:
        """Certify on `test`, with a score learned on `train` unless one is given."""
        return self.judge(self._scorer(train, len(test)), test, alpha)

    def judge(self, scorer: Scorer, test: Trials, alpha: float) -> Certificate:
        """Certify on `test`, which the score must not have seen."""
        scores = _scored(scorer.score, test.outputs)
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
        estimate, event = bound(sides, Level(self.delta, level, 1 - alpha), self.calls.seed)
        if guesses is not None:
            rare, rare_event = guessed_epsilon(
                guesses, test.present, delta=self.delta, alpha=level, confidence=1 - alpha
            )
            if rare.lower > estimate.lower:
                estimate, event = rare, rare_event
                scorer = scorer._replace(name="learned (rare events)")
        return Certificate(estimate, event, scorer, test, scores)

    def _scorer(self, train: Trials, trials: int) -> Scorer:
        if self.score != "learned":
            return Scorer(self.score, getattr(self.score, "__name__", "given"), "top")
        learned = LearnedScore.fit(
            train.of(False),
            train.of(True),
            self.calls.seed % 2**32,  # scikit-learn takes 32-bit seeds
            trials=trials,
        )
        return Scorer(
            learned.score,
            f"learned ({learned.name})",
            learned.side,
            learned.guesses,
            learned.encoding.unread,
        )


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
    def scored(outputs: Any) -> Any:
        if numeric(outputs):
            return score(outputs)
        raised = np.array([isinstance(output, Raised) for output in outputs], np.bool_)
        if not raised.any():
            return score(outputs)
        answers = alike([output for output, no in zip(outputs, raised, strict=True) if not no])
        values = _scored(score, answers) if len(answers) else np.zeros(0)
        scores = np.full(len(raised), values.max(initial=0.0) + 1)
        scores[~raised] = values
        return scores

    return scored


def _scored(score: Score, outputs: Any) -> outcomes.Scores:
    """Score the outputs; refuse more scores than outputs, which would count a trial twice."""
    scores = outcomes.scores(score(outputs), "scores")
    if len(scores) != len(outputs):
        raise InputError(f"score returned {len(scores)} numbers for {len(outputs)} outputs")
    return scores
