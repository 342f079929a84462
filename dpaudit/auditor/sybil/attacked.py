"""What a campaign needs of a defense."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.errors import ConfigError
from dpaudit.core.releases import Predictions
from dpaudit.core.streams import Streams
from dpaudit.data.ratings import Scale
from dpaudit.defenses.base import Defense
from dpaudit.defenses.item_model import ExactScores, PairCounts, Vector


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


@runtime_checkable
class ShowsValues(Protocol):
    """A defense that shows predictions, not only lists."""

    def release_items(
        self, exact: ExactScores, streams: Streams, items: NDArray[np.int32]
    ) -> Predictions:
        """The noised predictions of `items` `(W, k)`."""


def similar(defense: Defense) -> Similar:
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
