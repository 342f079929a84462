"""What trainings show of assumptions that a published claim rests on and that nothing enforces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dpaudit.data.ratings import Ratings
from dpaudit.defenses.base import TrainedDefense
from dpaudit.record.result import Measurement


def assumptions(
    label: str, defenses: Sequence[TrainedDefense[Any]], ratings: Ratings, seed: int
) -> list[Measurement]:
    """How often what a published claim assumes fails in trainings of a model, at each ε.

    Args:
        label: of the model.
        defenses: the model at each ε.
        ratings: what is learned from.
        seed: decides the streams.

    Raises:
        RunError: a training of which denominators are counted diverged.
    """
    return [
        Measurement(
            metric=found.metric,
            model=label,
            epsilon=defense.epsilon,
            estimate=found.estimate,
            step=found.step,
            states=found.states,
        )
        for defense in defenses
        if defense.variant == "published"
        for found in defense.assumptions(ratings, seed)
    ]
