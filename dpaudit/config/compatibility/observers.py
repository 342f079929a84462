"""Which observer a game has on a model, and which attack reads what it sees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dpaudit.attacks import base as roles
from dpaudit.config.model import Model
from dpaudit.config.tables import Game, attacks_of, has_role
from dpaudit.core import registry
from dpaudit.core.claim import Claim, covered_observers
from dpaudit.core.errors import ConfigError
from dpaudit.core.releases import Observer


def with_attack(given: Any, models: Sequence[Model]) -> Any:
    """Add a default attack to a `[[game]]` that names none; it reads what the observer sees."""
    if not isinstance(given, dict) or "attack" in given or not models:
        return given
    observers = models[0].observers()
    observe = given.get("observe") or next(iter(observers), None)
    if not isinstance(observe, str) or observe not in observers:
        return given
    return {"attack": _usual(observers[observe]), **given}


def _usual(observer: Observer[Any]) -> str:
    """Return the default attack on an observer: the first that reads what it sees."""
    attacks = list(attacks_of(*roles.GAME_ROLES))
    return next((name for name in attacks if _reads(name, observer)), attacks[0])


def _reads(attack: str, observer: Observer[Any]) -> bool:
    part: type[roles.Reads] = registry.load("attacks", attack)
    return part.can_read(observer.shows)


def observer_of(game: Game, label: str, observers: Mapping[str, Observer[Any]]) -> str:
    """Return the observer of a game on a model: the named one, else the first its attack reads.

    Raises:
        ConfigError: the model has no such observer, or the attack does not read what it sees.
    """
    place = f"[[game]] {game.label!r}"
    readable = [name for name, observer in observers.items() if _reads(game.attack, observer)]
    if game.observe is None and readable:
        return readable[0]
    if game.observe is None:
        raise ConfigError(
            f"{place}: attack {game.attack!r} reads nothing that observers of model {label!r} "
            f"see: use one such as {_usual(next(iter(observers.values())))!r}"
        )
    if game.observe not in observers:
        raise ConfigError(
            f"{place}: observe = {game.observe!r} is not an observer of model {label!r}"
            f"{registry.suggestion(game.observe, observers)}"
        )
    if game.observe not in readable:
        raise ConfigError(
            f"{place}: attack {game.attack!r} does not read what observer {game.observe!r} of "
            f"model {label!r} sees: use one such as {_usual(observers[game.observe])!r}"
        )
    return game.observe


def check_covered(game: Game, label: str, claim: Claim | None, observe: str) -> None:
    """Refuse a game whose observer a model's claim does not cover.

    Raises:
        ConfigError: names the game, the model and the remedy.
    """
    if claim and observe not in covered_observers(claim):
        raise ConfigError(
            f"[[game]] {game.label!r}: model {label!r} claims nothing for observer {observe!r}, "
            f"only for {claim.observer!r}: use observe = {claim.observer!r}"
        )


def check_games(models: Sequence[Model], games: Sequence[Game]) -> None:
    """Refuse games for which a model has no observer; unknown attacks are refused elsewhere.

    Raises:
        ValueError: names the game and the remedy.
    """
    known = [game for game in games if has_role(game.attack, *roles.GAME_ROLES)]
    for model in models if known else ():
        observers = model.observers()
        for game in known if observers else ():
            try:
                observer_of(game, model.label, observers)
            except ConfigError as error:
                raise ValueError(str(error)) from error
