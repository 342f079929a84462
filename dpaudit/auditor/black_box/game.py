"""The game of a black-box audit: outputs on two data sets, a score, and the bound it certifies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from dpaudit.attacks.black_box.learned import LearnedScore
from dpaudit.auditor.black_box.calls import MOST, Calls, Score, Trials
from dpaudit.auditor.black_box.order import check_calls
from dpaudit.auditor.black_box.same import same_data
from dpaudit.bounds import outcomes
from dpaudit.bounds.frequentist.labels import (
    Guesses,
    LabelTest,
    guessed_epsilon,
    label_epsilon,
)
from dpaudit.bounds.frequentist.revealing import Ends
from dpaudit.core.errors import InputError
from dpaudit.core.estimate import Estimate

# A learned score is trained on half of the trials, at most on this many.
_TRAINING = 400_000


@dataclass(frozen=True)
class Certificate:
    """The bound on one pair.

    Attributes:
        epsilon: the bound.
        event: the event that certifies it.
        score: the score's name.
        trials: the trials that certified it.
        scores: their scores.
        unread: what the score does not read, in words; empty for a given score.
    """

    epsilon: Estimate
    event: LabelTest
    score: str
    trials: Trials
    scores: outcomes.Scores
    unread: tuple[str, ...] = ()

    @property
    def noiseless(self) -> bool:
        """Whether the outputs on each data set are all equal, and differ between the data sets."""
        absent, present = self.trials.of(False), self.trials.of(True)

        def alike(outputs: Any) -> bool:
            return all(same_data(outputs[0], each) for each in outputs)

        both = len(absent) > 0 and len(present) > 0
        return both and not same_data(absent[0], present[0]) and alike(absent) and alike(present)


@dataclass(frozen=True)
class Game:
    """A game that learns a score on some trials and certifies it on others.

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
        train, test = (
            self.calls.run(pair, f"{purpose}/{part}", count, MOST) if count else None
            for part, count in zip(("train", "test"), self.sizes(trials), strict=True)
        )
        assert test is not None  # noqa: S101
        return self.certify(train or test, test, alpha)

    def certify(self, train: Trials, test: Trials, alpha: float) -> Certificate:
        """Certify on `test`, with a score learned on `train` unless one is given."""
        expected: Ends = "top"
        guesses: Guesses | None = None
        unread: tuple[str, ...] = ()
        if self.score == "learned":
            learned = LearnedScore.fit(
                train.of(False),
                train.of(True),
                self.calls.seed % 2**32,  # scikit-learn takes 32-bit seeds
                trials=len(test),
            )
            expected = learned.side
            score: Score = learned.score
            name = f"learned ({learned.name})"
            guesses = learned.guesses(test.outputs)
            unread = learned.encoding.unread
        else:
            score, name = self.score, getattr(self.score, "__name__", "given")
        scores = _scored(score, test.outputs)
        check_calls(test, scores)
        # Rare events and the score share the level; the larger bound holds.
        level = alpha if guesses is None else alpha / 2
        estimate, event = label_epsilon(
            scores[~test.present],
            scores[test.present],
            delta=self.delta,
            alpha=level,
            confidence=1 - alpha,
            coin_flipped=True,
            expected=expected,
            log_odds=self.score == "learned",
            seed=self.calls.seed,
        )
        if guesses is not None:
            rare, rare_event = guessed_epsilon(
                guesses, test.present, delta=self.delta, alpha=level, confidence=1 - alpha
            )
            if rare.lower > estimate.lower:
                estimate, event, name = rare, rare_event, "learned (rare events)"
        return Certificate(estimate, event, name, test, scores, unread)


def _scored(score: Score, outputs: Any) -> outcomes.Scores:
    """Score the outputs; refuse more scores than outputs, which would count a trial twice."""
    found = outcomes.scores(score(outputs), "scores")
    if len(found) != len(outputs):
        raise InputError(f"score returned {len(found)} numbers for {len(outputs)} outputs")
    return found
