"""The neighbouring data sets of games on models that are trained, and who is in doubt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dpaudit.auditor.games.targets import suspect_pair
from dpaudit.auditor.games.trained import DataPair
from dpaudit.auditor.measures.observers import STEPS, observed
from dpaudit.config import schema as configs
from dpaudit.core.claim import Adjacency, Claim, ObserverName
from dpaudit.core.errors import ConfigError, DataError
from dpaudit.core.releases import Suspect
from dpaudit.data.ratings import Ratings
from dpaudit.defenses.social.privsr import PrivSR
from dpaudit.defenses.social.ranking import PrivSRRanking

# Neighbours that a claim about other neighbours covers: one user's change holds one rating's.
_REACHES: dict[Adjacency, tuple[Adjacency, ...]] = {
    "rating-replace": ("rating-replace",),
    "rating-add-remove": ("rating-add-remove",),
    "user-replace": ("user-replace", "rating-replace", "rating-add-remove"),
    "user-add-remove": ("user-add-remove",),
}
_FRIENDS = "all who may be in doubt have friends, whose messages the observer does not see"
# What to do where none can be suspected whose factors an observer can follow.
_ALONE: dict[ObserverName, str] = {
    "recommender": f"{_FRIENDS}; set params.social = 0",
    "iterates": f"{_FRIENDS}; set params.social = 0",
    "friend": "nobody without friends of her own is somebody's friend who reads anything of her; "
    "use observe = 'recommender' and params.social = 0",
}


@dataclass(frozen=True)
class Pairs:
    """Finds the pair of a game in the data.

    Attributes:
        ratings: what models learn from.
    """

    ratings: Ratings

    def of(
        self, label: str, game: configs.Game, defense: Any
    ) -> tuple[Adjacency, ObserverName, DataPair, Suspect]:
        """What neighbours a game is of, who observes, the two data sets, who is in doubt.

        Raises:
            ConfigError: the model's claim does not cover the game, or its observer sees too little.
            DataError: nobody can be in doubt.
        """
        purchases = not self.ratings.scale.width
        adjacency = adjacency_of(label, game, defense.claim(), purchases)
        observe = observed(label, game, defense)
        return adjacency, observe, *self._suspects(defense, adjacency, observe)

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
        self, label: str, game: configs.Game, defense: Any
    ) -> ConfigError | DataError | None:
        try:
            self.of(label, game, defense)
        except (ConfigError, DataError) as error:
            return error
        return None

    def _suspects(
        self, defense: Any, adjacency: Adjacency, observe: ObserverName
    ) -> tuple[DataPair, Suspect]:
        if isinstance(defense, PrivSR) and observe in STEPS:
            # The more submit, the smaller the share of the noise that a recommender sees on each.
            return suspect_pair(
                self.ratings, adjacency, 0,
                allowed=defense.watchable(self.ratings, observe)[self.ratings.user],
                remedy=_ALONE[observe], crowded=observe == "recommender",
            )  # fmt: skip
        allowed = None
        if isinstance(defense, PrivSRRanking):
            allowed = defense.telling(self.ratings)
        return suspect_pair(
            self.ratings, adjacency, getattr(defense, "more_than", 0), allowed=allowed
        )


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
