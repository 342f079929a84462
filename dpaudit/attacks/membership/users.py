"""Features of a user with a whole history: what their presence may change for each observer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from dpaudit.attacks.membership.interactions import histories, length_of, nearest
from dpaudit.attacks.membership.known import Indices, Known, Numbers, Shown, below_all, exposure
from dpaudit.kernels.normal_equations import ridged, solved

# λ of the fit, as a share of the mean squared length of an item's factors.
_RIDGE = 1.0


class Users(NamedTuple):
    """Users who are the targets.

    Attributes:
        users: the users `(n,)`.
        held: items of each user's history whose scores are asked `(n, h)`.
        others: items that the user does not have, whose scores are asked `(n, h)`.
        first: the index of their first score among the asked pairs, which are `held` and then
            `others`, row by row.
    """

    users: Indices
    held: Indices
    others: Indices
    first: int


def of_scores(shown: Shown, known: Known, of: Users) -> Numbers:
    """Return the mean score of what the user has, that of other items, and the spread `(n, 3)`.

    Items that the model does not know, whose scores are NaN, are left out. If it knows none of
    them, or not the user, all three are below those of any other user.
    """
    count, width = of.held.shape
    asked = shown.scores[of.first : of.first + 2 * count * width].astype(np.float64)
    held, others = asked.reshape(2, count, width)
    scores = np.hstack((held, others))
    spread = np.sqrt(_mean((scores - _mean(scores)[:, None]) ** 2))
    features = np.stack((_mean(held), _mean(others), spread), axis=1)
    return np.where(np.isfinite(features), features, below_all(features))


def _mean(values: Numbers) -> Numbers:
    """Return the mean of each row's numbers; NaN without any."""
    known = ~np.isnan(values)
    with np.errstate(invalid="ignore"):
        means: Numbers = np.where(known, values, 0).sum(1) / known.sum(1)
    return means


def of_own_list(shown: Shown, known: Known, of: Users) -> Numbers:
    """Return how much of the history the list shows, its distance, and its popularity `(n, 3)`.

    The distance is the mean cosine between items of the list and of the history; members' lists lie
    closer to their history than the popular lists that others get (Zhang et al. 2021,
    arXiv:2109.08045, section 3).
    """
    seen = exposure(shown.lists, known.history.shape[1])[known.list_of(of.users)]
    total = np.maximum(np.asarray(seen.sum(1)).reshape(-1), 1e-12)
    history = known.history[of.users]
    had = np.asarray((seen * history).sum(1)).reshape(-1) / total
    near = (seen * known.near_histories(of.users)).sum(1)
    size = np.maximum(np.diff(history.indptr), 1)
    popular = np.bincount(known.history.indices, minlength=known.history.shape[1])
    return np.stack((had, np.asarray(near).reshape(-1) / total / size, seen @ popular / total), 1)


def of_others_lists(shown: Shown, known: Known, of: Users) -> Numbers:
    """Return the history's discount in others' lists: mean, and weighted by similarity `(n, 2)`."""
    seen = exposure(shown.lists[known.observed], known.history.shape[1])
    history = known.history[of.users]
    places = (history @ seen.T).toarray() / np.maximum(np.diff(history.indptr), 1)[:, None]
    return known.by_others(places, of.users)


def of_factors(shown: Shown, known: Known, of: Users) -> Numbers:
    """Return the fit of the history to the published items, and its coherence `(n, 2)`.

    The first number is the mean squared error of a ridge fit to 1, the second the squared length of
    the mean of the history's factors over the mean squared length.
    """
    items = shown.items.astype(np.float64)
    items /= length_of(items)
    history, weights = histories(known, of.users)
    x = items[history] * weights[:, :, None]
    fitted = solved(ridged(x, _RIDGE), x.sum(1)[:, :, None])[:, :, 0]
    count = np.maximum(weights.sum(1), 1)
    error = (weights * (np.einsum("nhd,nd->nh", x, fitted) - 1) ** 2).sum(1) / count
    mean = x.sum(1) / count[:, None]
    lengths = np.einsum("nhd,nhd->n", x, x) / count
    coherence = np.einsum("nd,nd->n", mean, mean) / np.maximum(lengths, 1e-30)
    return np.stack((-error, coherence), axis=1)


def of_nearest_items(shown: Shown, known: Known, of: Users) -> Numbers:
    """Return how high the items nearest to those of the history show the history `(n, 1)`.

    It is the mean over the history's items of the discounts of its other items.
    """
    history, weights = histories(known, of.users)
    seen, row = nearest(shown.items, history.ravel())
    near = seen[row].multiply(csr_array(known.history[np.repeat(of.users, history.shape[1])]))
    discounts = np.asarray(near.sum(1)).reshape(history.shape)
    return ((discounts * weights).sum(1) / np.maximum(weights.sum(1), 1))[:, None]


def of_change(shown: Shown, known: Known, of: Users) -> Numbers:
    """Return the mean change of the scores of what the user has, and of other items `(n, 2)`."""
    size = 2 * of.held.size
    return shown.change[of.first : of.first + size].reshape(2, *of.held.shape).mean(2).T


Features = Callable[[Shown, Known, Users], Numbers]
FEATURES: Mapping[str, Features] = {
    "scores": of_scores,
    "own-list": of_own_list,
    "others-lists": of_others_lists,
    "nearest-items": of_nearest_items,
    "factors": of_factors,
    "before-and-after": of_change,
}
