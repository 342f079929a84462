"""The observer of a game on a trained model, and the claims that cover it."""

from __future__ import annotations

from typing import Any

from dpaudit.config import schema as configs
from dpaudit.config.compatibility.observers import observer_of
from dpaudit.core.claim import Claim
from dpaudit.core.errors import ConfigError
from dpaudit.core.releases import NoisedSteps
from dpaudit.defenses.base import TrainedDefense

# A claim about an observer (key) also covers observers (values) who see less.
_COVERS: dict[str, tuple[str, ...]] = {
    "recommender": ("iterates", "public", "values", "list"),
    "iterates": ("public", "values", "list"),
    "public": ("values", "list"),
    "values": ("list",),
}


def observed(label: str, game: configs.Game, defense: TrainedDefense[Any]) -> str:
    """Return the observer of a game, whom the claim must cover.

    Raises:
        ConfigError: the claim does not cover the observer, or the defense shows the observer
            nothing that the attack reads.
    """
    claim: Claim | None = defense.claim()
    observe = observer_of(game, label, defense.observers())
    if claim and observe not in {claim.observer, *_COVERS.get(claim.observer, ()), *claim.also}:
        raise ConfigError(
            f"[[game]] {game.label!r}: model {label!r} claims nothing for observer {observe!r}, "
            f"only for {claim.observer!r}: use observe = {claim.observer!r}"
        )
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
