"""Features of an interaction: what its presence may change for each observer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from dpaudit.attacks.membership.known import Indices, Known, Numbers, Shown, below_all, exposure
from dpaudit.kernels.normal_equations import ridged, solved

# λ of the fit of a user's factors to the published factors of what the user has, as a share of the
# mean squared length of an item's factors.
_RIDGE = 1.0
# The most items of a history that the fit uses; they are its first, so that the choice is fixed.
_MOST = 64
# The number of items that a search for the nearest ones returns.
_NEAREST = 20
# The number of cosines that are computed at a time.
_TOGETHER = 2**24


class Pairs(NamedTuple):
    """Pairs that are the targets or the population.

    Attributes:
        users: their users `(n,)`.
        items: their items `(n,)`.
        values: their ratings `(n,)`.
    """

    users: Indices
    items: Indices
    values: NDArray[np.float32]


def of_scores(shown: Shown, known: Known, of: Pairs, rated: bool) -> Numbers:
    """Return the score, and for predicted ratings the negative error too `(n, 1 or 2)`.

    A user or item that the model does not know, whose score is NaN, has a score below all others.
    """
    scores = shown.scores[: len(of.users)].astype(np.float64)
    scores = np.where(np.isnan(scores), below_all(scores), scores)
    if not rated:
        return scores[:, None]
    return np.stack((scores, -np.abs(of.values - scores)), axis=1)


def of_own_list(shown: Shown, known: Known, of: Pairs, rated: bool) -> Numbers:
    """Return the item's discount in its user's list, and the list's similarity to it `(n, 2)`.

    A list that leaves out what its user has seen never holds an item that is present.
    """
    seen = exposure(shown.lists, known.history.shape[1])[known.list_of(of.users)]
    discount = np.asarray(seen[np.arange(len(of.users)), of.items]).reshape(-1)
    return np.stack((discount, _similar(known, of.items, seen)), axis=1)


def of_others_lists(shown: Shown, known: Known, of: Pairs, rated: bool) -> Numbers:
    """Return the item's discount in others' lists: mean, and weighted by similarity `(n, 2)`."""
    seen = exposure(shown.lists[known.observed], known.history.shape[1])
    return known.by_others(np.asarray(seen[:, of.items].toarray()).T, of.users)


def of_factors(shown: Shown, known: Known, of: Pairs, rated: bool) -> Numbers:
    """Return the item's score by a user fitted to the published items, and its length `(n, 3)`.

    The user's vector is the ridge fit to 1 on what else the user has. The third number is the mean
    inner product with these items.
    """
    items = shown.items.astype(np.float64)
    size = length_of(items)
    users, inverse = np.unique(of.users, return_inverse=True)
    history, weights = histories(known, users)
    x = items[history] * weights[:, :, None]
    total = x.sum(1)
    fitted = solved(ridged(x / size, _RIDGE), total[:, :, None] / size)[inverse, :, 0]
    target = items[of.items]
    center = (total / np.maximum(weights.sum(1), 1)[:, None])[inverse]
    return np.stack(
        (
            np.einsum("nd,nd->n", fitted, target / size),
            np.sqrt(np.einsum("nd,nd->n", target, target)),
            np.einsum("nd,nd->n", center, target),
        ),
        axis=1,
    )


def length_of(items: Numbers) -> float:
    """Return the root mean square of the items' lengths; 1 if all are 0."""
    return float(np.sqrt(np.mean(np.einsum("nd,nd->n", items, items)))) or 1.0


def histories(known: Known, users: Indices) -> tuple[Indices, Numbers]:
    """Return the first items of each user's history, padded, and 1 where there is one `(n, h)`."""
    start = known.history.indptr
    sizes = np.minimum(np.diff(start)[users], _MOST)
    places = np.arange(max(1, int(sizes.max(initial=0))))
    filled = places < sizes[:, None]
    at = np.where(filled, start[users][:, None] + places, 0)
    items = known.history.indices[at] if known.history.nnz else np.zeros_like(at)
    return np.where(filled, items, 0).astype(np.int32), filled.astype(np.float64)


def of_nearest_items(shown: Shown, known: Known, of: Pairs, rated: bool) -> Numbers:
    """Return the item's discount among the items nearest to its user's, and theirs to it `(n, 2)`.

    Both are means over the first items of what else the user has.
    """
    users, inverse = np.unique(of.users, return_inverse=True)
    history, weights = histories(known, users)
    history, weights = history[inverse], weights[inverse]
    seen, row = nearest(shown.items, np.concatenate((of.items, history.ravel())))
    target, others = row[: len(of.items)], row[len(of.items) :].reshape(history.shape)
    size = np.maximum(weights.sum(1), 1)
    shown_by = np.asarray(seen[others, of.items[:, None]].todense()).reshape(history.shape)
    shows = np.asarray(seen[target[:, None], history].todense()).reshape(history.shape)
    return np.stack([(at * weights).sum(1) / size for at in (shown_by, shows)], axis=1)


def nearest(factors: NDArray[np.float32], items: Indices) -> tuple[csr_array, NDArray[np.int64]]:
    """Return the discounts at which a search shows the items nearest to others.

    It returns 20 items, those with the largest cosines of factors, without the item itself.

    Args:
        factors: factors of all items `(M, d)`.
        items: the items that are asked about `(n,)`.

    Returns:
        The discounts of all items `(distinct, M)`, and the row of each asked item `(n,)`.
    """
    distinct, row = np.unique(items, return_inverse=True)
    vectors = factors.astype(np.float64)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit = (vectors / np.where(lengths > 0, lengths, 1)).astype(np.float32)
    size = max(1, _TOGETHER // len(factors))
    blocks = [_most_alike(unit, distinct[at : at + size]) for at in range(0, len(distinct), size)]
    return exposure(np.concatenate(blocks), len(factors)), row


def _most_alike(unit: NDArray[np.float32], items: Indices) -> Indices:
    """Return the items with the largest inner products with each of some, without itself."""
    away = -(unit[items] @ unit.T)
    away[np.arange(len(items)), items] = np.inf
    k = min(_NEAREST, len(unit) - 1)
    best = np.argpartition(away, k - 1, axis=1)[:, :k]
    order = np.argsort(np.take_along_axis(away, best, 1), axis=1, kind="stable")
    return np.take_along_axis(best, order, 1).astype(np.int32)


def of_change(shown: Shown, known: Known, of: Pairs, rated: bool) -> Numbers:
    """Return the change of the score by a deletion `(n, 1)`."""
    return shown.change[: len(of.users), None]


Features = Callable[[Shown, Known, Pairs, bool], Numbers]
FEATURES: Mapping[str, Features] = {
    "scores": of_scores,
    "own-list": of_own_list,
    "others-lists": of_others_lists,
    "nearest-items": of_nearest_items,
    "factors": of_factors,
    "before-and-after": of_change,
}


def _similar(known: Known, items: Indices, seen: csr_array) -> Numbers:
    """Return the mean cosine of each item with the items that its list shows `(n,)`."""
    row = np.repeat(np.arange(len(items)), np.diff(seen.indptr))
    alike = known.cosines(items, row, seen.indices)
    total = np.bincount(row, seen.data, len(items))
    return np.bincount(row, seen.data * alike, len(items)) / np.maximum(total, 1e-12)
