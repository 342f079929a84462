"""Sizes of a first audit of private recommenders, which fit the data and take about a minute."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from dpaudit.core.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpaudit.core.user_profile import Profile
    from dpaudit.data.ratings import Ratings

# The seed of the config, and the share of attacked users.
SEED, SHARE = 7, 0.2
# Time and memory grow with the square of the number of items.
_ITEMS = 4000
# The fewest ratings of an attacked user, and the fewest such users.
_RATINGS, _USERS = 3, 5


class DefenseSizes(NamedTuple):
    """Parameters of private recommenders that fit the data; the defaults fit the generated data.

    Attributes:
        min_ratings: the least number of ratings of a served user; half of the users have more.
        min_co_ratings: the threshold of common raters; usual pairs of items have more.
        top_k: the length of the list.
        accuracy: a share of recovered ratings that is above that of the most frequent rating.
    """

    min_ratings: int = 20
    min_co_ratings: int = 10
    top_k: int = 20
    accuracy: float = 0.35


def least_raters(ratings: Ratings) -> int:
    """Return the least number of raters that leaves few enough items."""
    import numpy as np

    raters = np.sort(np.diff(ratings.by_item.start))[::-1]
    return 1 if len(raters) <= _ITEMS else min(int(raters[_ITEMS]) + 1, int(raters[0]))


def defense_sizes(ratings: Ratings, begin: str) -> DefenseSizes:
    """Return sizes that fit these ratings.

    Args:
        ratings: the data.
        begin: how an error begins.

    Raises:
        DataError: too few users can be attacked.
    """
    import numpy as np

    from dpaudit.data.folds import split_users

    top_k = max(1, min(20, ratings.n_items // 4))
    attacked = split_users(ratings, SHARE, SEED)[1] if ratings.n_users > 1 else []
    most = ratings.n_items - top_k - 1
    able = sorted((profile for profile in attacked if _RATINGS <= len(profile) <= most), key=len)
    if len(able) < _USERS:
        raise DataError(
            f"{begin}of {ratings.n_users} users, {len(able)} can be attacked, with {_RATINGS} or "
            f"more ratings and items that they have not rated, and {_USERS} are needed: give more "
            "data, or audit a recommender of yours by --recommender LIBRARY"
        )
    min_ratings = min(20, len(able[max(len(able) // 2, len(able) - 100)]) - 1)
    raters = np.diff(ratings.by_item.start).astype(float)
    # Raters of the item of a usual rating, and users that two such items share by chance.
    usual = (raters**2).sum() / raters.sum()
    shared = usual**2 / ratings.n_users
    return DefenseSizes(
        min_ratings=min_ratings,
        # Above min_ratings, the corrected noise covers more than the pair 'tight' shows.
        min_co_ratings=max(2, min(10, min_ratings, int(shared / 2))),
        top_k=top_k,
        accuracy=min(0.99, math.ceil(20 * _guessed(able) + 2) / 20),
    )


def _guessed(users: Sequence[Profile]) -> float:
    """Return the share of a random user's ratings that the best constant guess recovers."""
    import numpy as np

    _, value = np.unique(np.concatenate([user.values for user in users]), return_inverse=True)
    weights = np.concatenate([np.full(len(user), 1 / len(user)) for user in users])
    return float(np.bincount(value, weights).max()) / len(users)
