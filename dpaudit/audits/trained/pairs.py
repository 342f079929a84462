"""The neighbouring data sets and target users of games on trained models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, get_args

from dpaudit.audits.trained.game_targets import target_pair
from dpaudit.audits.trained.observers import check_observed, observed
from dpaudit.audits.trained.trained_game import DataPair
from dpaudit.config.model import Model
from dpaudit.config.tables import Game
from dpaudit.core.claim import Adjacency, Claim, covered_adjacencies
from dpaudit.core.errors import ConfigError, DataError
from dpaudit.core.releases import TargetUser
from dpaudit.data.ratings import Ratings
from dpaudit.defenses.base import TrainedDefense

# The observer of games with many canary ratings.
MANY = "iterates"


@dataclass(frozen=True)
class Pairs:
    """The search for a game's pair in the data.

    Attributes:
        ratings: the ratings that models learn from.
    """

    ratings: Ratings

    def of(
        self, label: str, game: Game, defense: TrainedDefense[Any]
    ) -> tuple[Adjacency, str, DataPair, TargetUser]:
        """Return a game's adjacency, observer, neighbouring data sets and target user.

        Raises:
            ConfigError: the model's claim does not cover the game, or its observer sees too little.
            DataError: there is no possible target.
        """
        purchases = not self.ratings.scale.width
        adjacency = game_adjacency(label, game, defense.claim(), purchases)
        observe = observed(label, game, defense)
        return adjacency, observe, *self._targets(defense, adjacency, observe)

    def check(self, model: Model, games: Sequence[Game]) -> None:
        """Refuse games for which the data contain no pair, before anything is trained.

        Raises:
            ConfigError: names the model, the game and the remedy.
        """
        for game in games:
            if game.pair == "many":
                continue
            for epsilon in model.epsilon:
                # The grid search has not run yet, so one possible combination is enough.
                defenses = model.combinations("model", epsilon)
                tried = [self._refused(model.label, game, defense) for defense in defenses]
                if all(tried):
                    where = f"[[game]] {game.label!r} on model {model.label!r}"
                    raise ConfigError(f"{where}: {tried[0]}") from tried[0]

    def _refused(
        self, label: str, game: Game, defense: TrainedDefense[Any]
    ) -> ConfigError | DataError | None:
        try:
            self.of(label, game, defense)
        except (ConfigError, DataError) as error:
            return error
        return None

    def _targets(
        self, defense: TrainedDefense[Any], adjacency: Adjacency, observe: str
    ) -> tuple[DataPair, TargetUser]:
        targets = defense.targets(self.ratings, observe)
        return target_pair(self.ratings, adjacency, defense.least_ratings(), targets)


def check_games(model: Model, games: Sequence[Game]) -> None:
    """Refuse games that the model's claim does not cover, before anything is trained.

    Raises:
        ConfigError: names the game and the remedy.
    """
    for defense in model.defenses("model"):
        for game in games:
            if game.pair == "many":
                _check_many(model.label, defense)
                continue
            game_adjacency(model.label, game, defense.claim())
            observed(model.label, game, defense)


def game_adjacency(
    label: str, game: Game, claim: Claim | None, purchases: bool = False
) -> Adjacency:
    """Return the adjacency of a game, which the claim must cover.

    Args:
        label: the model's label.
        game: the game.
        claim: the model's claim, if any.
        purchases: whether the data are purchases, whose values cannot be replaced.

    Raises:
        ConfigError: the claim does not cover it.
    """
    one: Adjacency = "rating-add-remove" if purchases else "rating-replace"
    if game.pair == "data":
        return claim.adjacency if claim else one
    if claim is None:
        return one if game.pair == "rating" else "user-replace"
    covered = covered_adjacencies(claim)
    kinds: tuple[Adjacency, ...] = get_args(Adjacency)
    reached = [kind for kind in kinds if kind.startswith(game.pair) and kind in covered]
    if not reached:
        raise ConfigError(
            f"[[game]] pair = {game.pair!r}: model {label!r} claims nothing for it, only for "
            f"{claim.adjacency}: use pair = 'data'"
        )
    return one if one in reached else reached[0]


def _check_many(label: str, defense: TrainedDefense[Any]) -> None:
    """Refuse games with many canary ratings if the steps do not show each rating separately.

    Raises:
        ConfigError: the steps do not show each rating separately.
    """
    if not defense.separates_ratings():
        raise ConfigError(
            f"[[game]] pair = 'many': the steps of model {label!r} do not show each rating "
            "separately: use pair = 'data', or the published 'dpsgd-mf'"
        )
    check_observed(label, defense, MANY)
