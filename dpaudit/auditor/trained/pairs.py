"""The neighbouring data sets of games on models that are trained, and who is in doubt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dpaudit.auditor.games.targets import target_pair
from dpaudit.auditor.games.trained import DataPair
from dpaudit.auditor.trained.observers import check_observed, observed
from dpaudit.config import schema as configs
from dpaudit.core.claim import Adjacency, Claim
from dpaudit.core.errors import ConfigError, DataError
from dpaudit.core.releases import TargetUser
from dpaudit.data.ratings import Ratings
from dpaudit.defenses.base import TrainedDefense

# Who observes where many ratings are in doubt.
MANY = "iterates"
# Neighbours that a claim about other neighbours covers: one user's change holds one rating's.
_REACHES: dict[Adjacency, tuple[Adjacency, ...]] = {
    "rating-replace": ("rating-replace",),
    "rating-add-remove": ("rating-add-remove",),
    "user-replace": ("user-replace", "rating-replace", "rating-add-remove"),
    "user-add-remove": ("user-add-remove",),
}


@dataclass(frozen=True)
class Pairs:
    """Finds the pair of a game in the data.

    Attributes:
        ratings: what models learn from.
    """

    ratings: Ratings

    def of(
        self, label: str, game: configs.Game, defense: TrainedDefense[Any]
    ) -> tuple[Adjacency, str, DataPair, TargetUser]:
        """What neighbours a game is of, who observes, the two data sets, who is in doubt.

        Raises:
            ConfigError: the model's claim does not cover the game, or its observer sees too little.
            DataError: nobody can be in doubt.
        """
        purchases = not self.ratings.scale.width
        adjacency = adjacency_of(label, game, defense.claim(), purchases)
        observe = observed(label, game, defense)
        return adjacency, observe, *self._targets(defense, adjacency, observe)

    def check(self, model: configs.Model, games: Sequence[configs.Game]) -> None:
        """Refuse games for which the data hold no pair, before anything is trained.

        Raises:
            ConfigError: with the model, the game and the remedy.
        """
        for game in games:
            if game.pair == "many":
                continue
            for epsilon in model.epsilon:
                # Of a grid it is not known yet what it will choose.
                each = model.combinations("model", epsilon)
                tried = [self._refused(model.label, game, defense) for defense in each]
                if all(tried):
                    where = f"[[game]] {game.label!r} on model {model.label!r}"
                    raise ConfigError(f"{where}: {tried[0]}") from tried[0]

    def _refused(
        self, label: str, game: configs.Game, defense: TrainedDefense[Any]
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


def check_games(model: configs.Model, games: Sequence[configs.Game]) -> None:
    """Refuse games that the model's claim does not cover, before anything is trained.

    Raises:
        ConfigError: with the game and the remedy.
    """
    for defense in model.defenses("model"):
        for game in games:
            if game.pair == "many":
                _check_many(model.label, defense)
                continue
            adjacency_of(model.label, game, defense.claim())
            observed(model.label, game, defense)


def adjacency_of(
    label: str, game: configs.Game, claim: Claim | None, purchases: bool = False
) -> Adjacency:
    """The neighbours of a game, of which the claim must speak.

    Args:
        label: the model's.
        game: the game.
        claim: the model's, if any.
        purchases: whether the data are purchases, which have no other value to go to.

    Raises:
        ConfigError: the claim does not.
    """
    one: Adjacency = "rating-add-remove" if purchases else "rating-replace"
    if game.pair == "data":
        return claim.adjacency if claim else one
    if claim is None:
        return one if game.pair == "rating" else "user-replace"
    reached = [each for each in _REACHES[claim.adjacency] if each.startswith(game.pair)]
    if not reached:
        raise ConfigError(
            f"[[game]] pair = {game.pair!r}: model {label!r} claims nothing for it, but for "
            f"{claim.adjacency}: use pair = 'data'"
        )
    return one if one in reached else reached[0]


def _check_many(label: str, defense: TrainedDefense[Any]) -> None:
    """Refuse many ratings in doubt where the steps do not show each apart.

    Raises:
        ConfigError: they do not.
    """
    if not defense.separates_ratings():
        raise ConfigError(
            f"[[game]] pair = 'many': the steps of model {label!r} do not show each rating apart: "
            "use pair = 'data', or the published 'dpsgd-mf'"
        )
    check_observed(label, defense, MANY)
