"""How alike the ratings of friends are."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit.data.ratings import Friends, Ratings

# Ratings that are gathered at a time.
_AT_ONCE = 2**22


def friends_similarity(ratings: Ratings, friends: Friends) -> NDArray[np.float64]:
    """The cosine of what a user and her friend gave the items that both rated, of each link `(L,)`.

        S_if = Σ_j r_ij r_fj / √(Σ_j r_ij² Σ_j r_fj²),    j over the items that both rated,

    0 where there is none (Ma, Zhou, Liu, Lyu, King 2011, doi:10.1145/1935826.1935877, eq. (12)).

    Args:
        ratings: what may be looked at, such as what nobody keeps to herself.
        friends: the links.
    """
    from scipy.sparse import csr_array

    values = csr_array(
        (ratings.value.astype(np.float64), ratings.item, ratings.by_user.start),
        shape=(ratings.n_users, ratings.n_items),
    )
    rated = csr_array((np.ones(len(ratings)), values.indices, values.indptr), shape=values.shape)
    found = np.zeros(len(friends))
    per_link = np.diff(ratings.by_user.start)[friends.users] + 1
    block = np.cumsum(per_link) // _AT_ONCE
    for part in np.split(np.arange(len(friends)), np.flatnonzero(np.diff(block)) + 1):
        left, right = friends.users[part], friends.friend[part]

        def common(x: Any, y: Any, left: Any = left, right: Any = right) -> NDArray[np.float64]:
            return np.asarray((x[left] * y[right]).sum(1))

        squares = common(values**2, rated) * common(rated, values**2)
        found[part] = common(values, values) / np.sqrt(np.where(squares > 0, squares, 1.0))
    return found
