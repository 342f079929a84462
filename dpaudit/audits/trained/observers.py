"""The observer of a game on a trained model."""

from __future__ import annotations

from typing import Any

from dpaudit.config.compatibility.observers import check_covered, observer_of
from dpaudit.config.tables import Game
from dpaudit.core.errors import ConfigError
from dpaudit.core.releases import NoisedSteps
from dpaudit.defenses.base import TrainedDefense


def observed(label: str, game: Game, defense: TrainedDefense[Any]) -> str:
    """Return the observer of a game, whom the claim must cover.

    Raises:
        ConfigError: the claim does not cover the observer, or the defense shows the observer
            nothing that the attack reads.
    """
    observe = observer_of(game, label, defense.observers())
    check_covered(game, label, defense.claim(), observe)
    check_observed(label, defense, observe)
    return observe


def sees_steps(defense: TrainedDefense[Any], observe: str) -> bool:
    """Whether the observer sees training steps whose noise has a known law."""
    return issubclass(defense.observers()[observe].shows[0], NoisedSteps)


def check_observed(label: str, defense: TrainedDefense[Any], observe: str) -> None:
    """Refuse an observer whose views of this model have no known law.

    Raises:
        ConfigError: the views have no known law.
    """
    try:
        defense.check_observed(observe)
    except ConfigError as error:
        raise ConfigError(f"[[game]] on model {label!r}: {error}") from error
