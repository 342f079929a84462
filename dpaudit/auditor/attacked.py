"""What a campaign needs of a defense."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from dpaudit.data.neighbors import RatingChange
from dpaudit.data.ratings import Profile, Ratings, Scale
from dpaudit.defenses.item_model import ExactScores, ItemModel, PairCounts, Vector
from dpaudit.errors import ConfigError
from dpaudit.releases import ItemList, Predictions, Streams


@runtime_checkable
class Similar(Protocol):
    """What shows a rating through similarities; `ItemItem` is one."""

    def candidates(self, scale: Scale) -> NDArray[np.float32]:
        """The values a hidden rating may have, increasing `(C,)`."""

    def pair_floor(self) -> int:
        """Pairs with at most this many common users have similarity 0."""

    def pair_similarity(self, pairs: PairCounts) -> Vector:
        """`s_jk` of each pair `(P,)`."""


@runtime_checkable
class Completes(Protocol):
    """A defense that shows lists of a completed matrix."""

    @property
    def completion(self) -> Similar:
        """The recommender that completes it."""


class Attacked(Protocol):
    """What a campaign needs of a defense; it also is `Similar` or `Completes` a matrix."""

    @property
    def epsilon(self) -> float:
        """The ε that the noise is scaled to."""

    @property
    def min_ratings(self) -> int:
        """`T`, only accounts with at least so many ratings are served."""

    @property
    def top_k(self) -> int:
        """The length of a list."""

    def prepare(self, ratings: Ratings) -> ItemModel:
        """The exact statistics."""

    def exact(self, model: ItemModel, profile: Profile) -> ExactScores:
        """The noiseless predictions of a user with these ratings."""

    def exact_after(self, model: ItemModel, change: RatingChange, target: int) -> ExactScores:
        """The noiseless predictions of user `target` once one rating has changed."""

    def release_list(self, exact: ExactScores, streams: Streams) -> ItemList:
        """The list shown in each world."""


@runtime_checkable
class ShowsValues(Protocol):
    """A defense that shows predictions, not only lists."""

    def release_items(
        self, exact: ExactScores, streams: Streams, items: NDArray[np.int32]
    ) -> Predictions:
        """The noised predictions of `items` `(W, k)`."""


def similar(defense: Attacked) -> Similar:
    """The similarities behind a defense's predictions.

    Raises:
        ConfigError: it has none.
    """
    found = defense.completion if isinstance(defense, Completes) else defense
    if not isinstance(found, Similar):
        raise ConfigError(
            "the attack 'campaign' works through item similarities, which this defense does not "
            "have: use an item-item recommender or top-k"
        )
    return found
