"""Features of an interaction: what its presence may change for each observer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from dpaudit.attacks.membership.known import Indices, Known, Numbers, Shown, exposure
from dpaudit.kernels.normal_equations import ridged, solved

# λ of the fit of a user's factors to the published factors of what the user has, as a share of the
# mean squared length of an item's factors.
_RIDGE = 1.0
# The most items of a history that the fit uses; they are its first, so that the choice is fixed.
_MOST = 64


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
    finite = scores[np.isfinite(scores)]
    low, high = (finite.min(), finite.max()) if len(finite) else (0.0, 0.0)
    scores = np.where(np.isnan(scores), low - (high - low) - 1, scores)
    if not rated:
        return scores[:, None]
    return np.stack((scores, -np.abs(of.values - scores)), axis=1)


def of_own_list(shown: Shown, known: Known, of: Pairs, rated: bool) -> Numbers:
    """Return the item's discount in its user's list, and the list's similarity to it `(n, 2)`.

    A list that leaves out what its user has seen never holds an item that is present.
    """
    seen = exposure(shown.lists, known.history.shape[1])[known.list_of(of.users)]
    discount = np.asarray(seen[np.arange(len(of.users)), of.items]).reshape(-1)
    near = _similar(known, of.items, seen)
    return np.stack((discount, near), axis=1)


def of_others_lists(shown: Shown, known: Known, of: Pairs, rated: bool) -> Numbers:
    """Return the item's discount in others' lists: mean, and weighted by similarity `(n, 2)`."""
    seen = exposure(shown.lists[known.observed], known.history.shape[1])
    places = np.asarray(seen[:, of.items].toarray()).T
    return known.by_others(places, of.users)


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
    here = places < sizes[:, None]
    at = np.where(here, start[users][:, None] + places, 0)
    items = known.history.indices[at] if known.history.nnz else np.zeros_like(at)
    return np.where(here, items, 0).astype(np.int32), here.astype(np.float64)


Features = Callable[[Shown, Known, Pairs, bool], Numbers]
FEATURES: Mapping[str, Features] = {
    "scores": of_scores,
    "own-list": of_own_list,
    "others-lists": of_others_lists,
    "factors": of_factors,
}


def _similar(known: Known, items: Indices, seen: csr_array) -> Numbers:
    """Return the mean cosine of each item with the items that its list shows `(n,)`."""
    row = np.repeat(np.arange(len(items)), np.diff(seen.indptr))
    alike = known.cosines(items, row, seen.indices)
    total = np.bincount(row, seen.data, len(items))
    means: Numbers = np.bincount(row, seen.data * alike, len(items)) / np.maximum(total, 1e-12)
    return means
