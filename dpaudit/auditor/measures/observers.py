"""The observers of games on models that are trained: what each sees, and which claims cover it."""

from __future__ import annotations

from typing import Any

from dpaudit.config import schema as configs
from dpaudit.config.compatibility import READ_STEPS
from dpaudit.core.claim import Claim, ObserverName
from dpaudit.core.errors import ConfigError
from dpaudit.defenses.factorization.sgd import SgdFactors
from dpaudit.defenses.factorization.single_model import check_small
from dpaudit.defenses.training import watchers

# Observers whose view a claim about another observer covers.
_COVERS: dict[str, tuple[str, ...]] = {
    "recommender": ("recommender", "iterates", "public", "values", "list"),
    "iterates": ("iterates", "public", "values", "list"),
    "public": ("public", "values", "list"),
    "values": ("values", "list"),
    "list": ("list",),
}
# What observers see of steps.
STEPS: dict[ObserverName, str] = {
    "iterates": "iterates", "recommender": "submissions", "friend": "messages",
}  # fmt: skip


def observed(label: str, game: configs.Game, defense: Any) -> ObserverName:
    """The observer of a game, of whom the claim must speak.

    Raises:
        ConfigError: it does not, or the defense shows the observer nothing.
    """
    claim: Claim | None = defense.claim()
    watching = watchers(defense)
    observe: ObserverName = game.observe or "public"
    if game.observe is None and game.attack in READ_STEPS:
        observe = next(iter(watching), "iterates")
    if claim and observe not in {*_COVERS.get(claim.observer, ()), *claim.also}:
        raise ConfigError(
            f"[[game]] {game.label!r}: model {label!r} claims nothing for observer {observe!r}, "
            f"but for {claim.observer!r}: use observe = {claim.observer!r}"
        )
    if observe in STEPS and observe not in watching:
        raise ConfigError(
            f"[[game]] {game.label!r}: model {label!r} ({defense.name}) shows no {STEPS[observe]} "
            "of a known law: use observe = 'public', or 'values' where no model is published"
        )
    if observe in STEPS:
        check_watched(label, defense)
    return observe


def check_watched(label: str, defense: Any) -> None:
    """Refuse to watch every step of a model that is trained alone, or of no normal law.

    Raises:
        ConfigError: it is.
    """
    if isinstance(defense, SgdFactors):
        check_small(defense.dimensions, f"games that see each step of model {label!r} play")
    if hasattr(defense, "check_watched"):
        try:
            defense.check_watched()
        except ConfigError as error:
            raise ConfigError(f"[[game]] on model {label!r}: {error}") from error
