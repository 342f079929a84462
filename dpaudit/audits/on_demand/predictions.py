"""Games on recommenders that serve on demand, set up from a pair of neighbouring data sets."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpaudit.attacks.base import Distinguisher
from dpaudit.auditor.games.game import DistinguishingGame
from dpaudit.core.errors import DataError
from dpaudit.core.releases import PreparedPair
from dpaudit.data.neighbors import check
from dpaudit.defenses.base import EntryPair, ListDefense, PredictionDefense, PredictionPair
from dpaudit.defenses.item_model import ExactScores, ItemModel


def prediction_game(
    defense: PredictionDefense,
    model: ItemModel,
    pair: PredictionPair,
    attack: Distinguisher,
    observer: str = "values",
) -> DistinguishingGame[ExactScores]:
    """Set up the game on what the target user is shown: predictions of `pair.items`, or the list.

    Raises:
        DataError: the pair's change has no effect, so that D and D' are the same data set.
    """
    check(pair.ratings, pair.change)
    prepared = PreparedPair(
        before=defense.exact(model, pair.ratings.profile(pair.target)),
        after=defense.exact_after(model, pair.change, pair.target),
        items=np.array(pair.items, np.int32),
    )
    return DistinguishingGame(defense.observers()[observer], prepared, attack)


def shifts(pair: PreparedPair[ExactScores]) -> NDArray[np.float64]:
    """Compute the noiseless difference of each shown prediction between D and D' `(k,)`."""
    before, after = (
        exact.scores[pair.items].astype(np.float64) for exact in (pair.before, pair.after)
    )
    return abs(after - before)


def entry_game(
    defense: ListDefense, pair: EntryPair, attack: Distinguisher
) -> DistinguishingGame[ExactScores]:
    """Set up the game on the list drawn from a row of the completed matrix.

    Raises:
        DataError: no entry differs, so that D and D' are the same.
    """
    if np.array_equal(pair.before.scores, pair.after.scores):
        raise DataError(f"no entry of the two rows differs ({pair.summary}): change one")
    return DistinguishingGame(
        defense.observers()["list"], PreparedPair(pair.before, pair.after), attack
    )
