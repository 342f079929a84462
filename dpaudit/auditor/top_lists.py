"""Top-k lists without a model, and how well lists show the items to find."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.errors import InputError
from dpaudit.core.releases import discounts
from dpaudit.data.ratings import Ratings

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
    hits, counts = _hits(lists, users, liked_by, liked)
    hit_counts = hits.sum(2)
    return hit_counts.mean(1) / lists.shape[2], (hit_counts / counts).mean(1)


def hit_rate_and_mrr(
    lists: Indices, users: Indices, liked_by: Indices, liked: Indices
) -> tuple[Numbers, Numbers]:
    """Compute the share of users whose list hits, and the mean reciprocal rank of its first hit.

    A list without a hit has the reciprocal rank 0. Both are over users with items to find.
    Arguments, results and errors as in `precision_and_recall`.
    """
    hits, _ = _hits(lists, users, liked_by, liked)
    some = hits.any(2)
    return some.mean(1), (some / (1 + hits.argmax(2))).mean(1)


def ndcg(lists: Indices, users: Indices, liked_by: Indices, liked: Indices) -> Numbers:
    """Compute nDCG@k in each trial, averaged over users with items to find `(W,)`, in [0, 1].

    The gain of a hit at place p = 0, 1, … is 1/log2(2 + p), and their sum is divided by that of
    the best list (Järvelin & Kekäläinen 2002, doi:10.1145/582415.582418). Arguments and errors as
    in `precision_and_recall`.
    """
    hits, counts = _hits(lists, users, liked_by, liked)
    gains = discounts(lists.shape[2])
    best = np.cumsum(gains)[np.minimum(counts, len(gains)) - 1]
    values: Numbers = ((hits * gains).sum(2) / best).mean(1)
    return values


def _hits(
    lists: Indices, users: Indices, liked_by: Indices, liked: Indices
) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Return which places hit `(W, n, k)`, and the numbers of items to find, if there are any."""
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
    hits = np.isin(pairs, wanted) & (lists >= 0)
    return hits[:, counts > 0], counts[counts > 0]


def most_popular(ratings: Ratings, users: Indices, k: int) -> Indices:
    """Return the items rated most often that each user has not rated `(n, k)`, best first.

    Ties are broken by the lower item index; −1 fills what is left of a short list.
    """
    counts = np.bincount(ratings.item, minlength=ratings.n_items)
    popular = np.argsort(-counts, kind="stable").astype(np.int32)
    start, items, _ = ratings.by_user
    lists = np.full((len(users), k), -1, np.int32)
    for row, user in zip(lists, users, strict=True):
        others = np.ones(ratings.n_items, np.bool_)
        others[items[start[user] : start[user + 1]]] = False
        best = popular[others[popular]][:k]
        row[: len(best)] = best
    return lists
