"""What scores the outputs of a black-box audit, and the bound that the scores certify."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from dpaudit.attacks.black_box.learned import LearnedScore
from dpaudit.audits.mechanism.calls import Score, Trials
from dpaudit.audits.mechanism.same import same_data
from dpaudit.bounds import outcomes
from dpaudit.bounds.frequentist.event_choice import Ends
from dpaudit.bounds.frequentist.labels import Guesses, LabelTest
from dpaudit.core.errors import InputError
from dpaudit.core.estimate import Estimate


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
        trials: the trials that certified it, or others of the game that tell noise from none.
        scores: their scores.
        early: whether bets certified it, before the last trial of the game.
    """

    epsilon: Estimate
    event: LabelTest
    scorer: Scorer
    trials: Trials
    scores: outcomes.Scores
    early: bool = False

    @property
    def noiseless(self) -> bool:
        """Whether the outputs on each data set are all equal, and differ between the data sets."""
        absent, present = self.trials.of(False), self.trials.of(True)

        def alike(outputs: Any) -> bool:
            return all(same_data(outputs[0], output) for output in outputs)

        both = len(absent) > 0 and len(present) > 0
        return both and not same_data(absent[0], present[0]) and alike(absent) and alike(present)


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
