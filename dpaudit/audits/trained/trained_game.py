"""Games on trained recommenders."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from dpaudit.attacks.base import Distinguisher, LearnedDistinguisher
from dpaudit.auditor.games.game import DistinguishingGame
from dpaudit.core.errors import DataError
from dpaudit.core.releases import PreparedPair, TargetUser
from dpaudit.data.ratings import Ratings
from dpaudit.defenses.base import TrainedDefense

P = TypeVar("P")


@dataclass(frozen=True, eq=False)
class DataPair:
    """Two neighbouring data sets to learn from.

    Attributes:
        before: the ratings of data set D.
        after: the ratings of data set D'.
        public: the data whose statistics count as public for both; None if each data set computes
            its own.
        summary: description of the pair in one sentence that identifies no record.
        details: the same with the exact sizes and values of the target; empty if it would say no
            more than the summary.

    Raises:
        DataError: the two data sets are the same.
    """

    before: Ratings
    after: Ratings
    public: Ratings | None
    summary: str
    details: str = ""

    def __post_init__(self) -> None:
        if self.before.digest == self.after.digest:
            raise DataError(
                f"D and D' are the same data set ({self.summary}): choose a change that changes it"
            )


def trained_game(
    defense: TrainedDefense[P],
    pair: DataPair,
    attack: Distinguisher | LearnedDistinguisher,
    observer: str,
    target: TargetUser | None = None,
) -> DistinguishingGame[P]:
    """Set up the game of one observer of trainings on either data set.

    Args:
        defense: the recommender to train.
        pair: the two data sets.
        attack: the attack.
        observer: name of one of the defense's observers.
        target: the target user, for observers of a released model.
    """
    prepared = PreparedPair(
        before=defense.prepare(pair.before, pair.public),
        after=defense.prepare(pair.after, pair.public),
        items=np.empty(0, np.int32) if target is None else target.items.astype(np.int32),
        target=target,
        unrated=np.empty(0, np.int32) if target is None else _unrated(pair.before, target.observer),
        top_k=attack.list_length if isinstance(attack, LearnedDistinguisher) else 0,
    )
    return DistinguishingGame(defense.observers()[observer], prepared, attack)


def _unrated(ratings: Ratings, observer: int) -> NDArray[np.int32]:
    """Return the items that the observing user's list may hold, increasing; same in D and D'."""
    rated = ratings.profile(observer).items
    return np.setdiff1d(np.arange(ratings.n_items), rated).astype(np.int32)
