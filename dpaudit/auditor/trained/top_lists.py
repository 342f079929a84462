"""Precision and recall of top-k lists."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.errors import InputError

Indices = NDArray[np.int32]
Numbers = NDArray[np.float64]


def precision_and_recall(
    lists: Indices, users: Indices, liked_by: Indices, liked: Indices
) -> tuple[Numbers, Numbers]:
    """Compute precision@k and recall@k in each trial, averaged over users with items to find.

        precision = hits/k,    recall = hits/(number of the user's items to find)

    A list shorter than k counts as one of length k.

    Args:
        lists: the items of each list `(W, n, k)`; −1 in empty places.
        users: the user of each list, each once `(n,)`.
        liked_by: the user of each item to find `(m,)`.
        liked: the items to find `(m,)`; each pair of user and item once.

    Returns:
        Both `(W,)`, in [0, 1].

    Raises:
        InputError: there are no items to find, a user with items to find has no list, or a user
            has two lists.
    """
    if not len(liked):
        raise InputError("there is no item to find: hold out, or keep private, at least one")
    if len(np.unique(users)) < len(users):
        raise InputError("a user has two lists: give each user once")
    missing = np.setdiff1d(liked_by, users)
    if len(missing):
        raise InputError(f"{len(missing)} users have items to find but no list: add their lists")
    n_items = int(max(lists.max(initial=0), liked.max())) + 1
    wanted = np.unique(liked_by.astype(np.int64) * n_items + liked)
    counts = np.bincount(wanted // n_items, minlength=int(users.max()) + 1)[users]
    pairs = users.astype(np.int64)[:, None] * n_items + lists
    hits = (np.isin(pairs, wanted) & (lists >= 0)).sum(2)[:, counts > 0]
    return hits.mean(1) / lists.shape[2], (hits / counts[counts > 0]).mean(1)
