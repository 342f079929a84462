"""How much of what users are known to like their top-k lists hold."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.errors import InputError

Indices = NDArray[np.int32]
Numbers = NDArray[np.float64]


def precision_and_recall(
    lists: Indices, users: Indices, liked_by: Indices, liked: Indices
) -> tuple[Numbers, Numbers]:
    """precision@k and recall@k of lists in each world, means over users who like anything.

        precision = hits/k,    recall = hits/(how many she likes)

    A list that is shorter than k counts as k long.

    Args:
        lists: the items of each list `(W, n, k)`; −1 where there is none.
        users: whose lists they are, each user once `(n,)`.
        liked_by: the user of each item that must be found `(m,)`.
        liked: the item; each pair once.

    Returns:
        Both `(W,)`, in [0, 1].

    Raises:
        InputError: nobody likes anything, somebody who does has no list, or a user has two.
    """
    if not len(liked):
        raise InputError("nobody has an item to be found: hold out, or keep private, at least one")
    if len(np.unique(users)) < len(users):
        raise InputError("a user has two lists: give each user once")
    missing = np.setdiff1d(liked_by, users)
    if len(missing):
        raise InputError(
            f"{len(missing)} users have items to be found and no list: add their lists"
        )
    n_items = int(max(lists.max(initial=0), liked.max())) + 1
    wanted = np.unique(liked_by.astype(np.int64) * n_items + liked)
    counts = np.bincount(wanted // n_items, minlength=int(users.max()) + 1)[users]
    pairs = users.astype(np.int64)[:, None] * n_items + lists
    hits = (np.isin(pairs, wanted) & (lists >= 0)).sum(2)[:, counts > 0]
    return hits.mean(1) / lists.shape[2], (hits / counts[counts > 0]).mean(1)
