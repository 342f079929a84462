"""Similarity of the ratings of friends."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpaudit.data.ratings import Friends, Ratings
from dpaudit.kernels.social.cosines import cosines


def friends_similarity(ratings: Ratings, friends: Friends) -> NDArray[np.float64]:
    """Cosine similarity of the two users of each link over the items that both rated `(L,)`.

        S_if = Σ_j r_ij r_fj / √(Σ_j r_ij² Σ_j r_fj²),    j over the items that both rated,

    0 if there is none (Ma, Zhou, Liu, Lyu, King 2011, doi:10.1145/1935826.1935877, eq. (12)).

    Args:
        ratings: the ratings to use, such as the non-sensitive ones.
        friends: the links.
    """
    similarities = np.empty(len(friends))
    start, items, values = ratings.by_user
    cosines(start, items, values, friends.users, friends.friend, similarities)
    return similarities
