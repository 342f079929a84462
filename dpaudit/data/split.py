"""Split users into those the recommender is built from and those who are attacked."""

from __future__ import annotations

import numpy as np

from dpaudit.core.errors import DataError
from dpaudit.core.streams import generator
from dpaudit.core.user_profile import Profile
from dpaudit.data.ratings import Ratings


def split_users(ratings: Ratings, share: float, seed: int) -> tuple[Ratings, list[Profile]]:
    """Return the ratings without a random share of the users, and the profiles of that share.

    Users keep their indices; the removed ones have no ratings left.

    Raises:
        DataError: there are fewer than two users, so one side would be empty.
    """
    if ratings.n_users < 2:
        raise DataError(f"{ratings.n_users} user cannot be split into two groups: use more data")
    order = generator(seed, "split").permutation(ratings.n_users)
    count = min(max(1, round(share * ratings.n_users)), ratings.n_users - 1)
    taken = np.zeros(ratings.n_users, bool)
    taken[order[:count]] = True
    train = ratings.only(~taken[ratings.user])
    return train, [ratings.profile(int(user)) for user in np.flatnonzero(taken)]
