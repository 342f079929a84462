"""Features of interactions and users: what their presence may change, and their best direction."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array

from dpaudit.core.releases import discounts
from dpaudit.kernels.normal_equations import ridged, solved

Indices = NDArray[np.int32]
Numbers = NDArray[np.float64]

# The number of items after a target whose scores with and without it are asked.
STEPS = 2


class Shown(NamedTuple):
    """What one trained model shows.

    Attributes:
        scores: scores of the asked pairs `(n,)`.
        lists: the lists of the listed users `(l, k)`; -1 pads.
        items: factors of the items `(M, d)`; `(M, 0)` if none are published.
        before: the scores before a deletion `(n,)`; None if they were not asked.
        after: the scores after the histories that were sent, without and with each target in each
            of `STEPS` `(2 STEPS n, 2 + r)`: of the target, of the next item and of r others; None
            if none were sent.
        further: the scores that `low_rank.Questions` asks `(a,)`; None if they were not asked.
    """

    scores: NDArray[np.float32]
    lists: Indices
    items: NDArray[np.float32]
    before: NDArray[np.float32] | None = None
    after: NDArray[np.float32] | None = None
    further: NDArray[np.float32] | None = None

    @property
    def change(self) -> Numbers:
        """The scores after a deletion minus those before it `(n,)`.

        A user or item that the model does not know, whose score is NaN, has a score below all
        others, the same before and after.

        Raises:
            TypeError: the scores before it were not asked.
        """
        if self.before is None:
            raise TypeError("the scores before a deletion were not asked")
        scores = np.stack((self.scores, self.before)).astype(np.float64)
        after, before = np.where(np.isnan(scores), below_all(scores), scores)
        return after - before

    @property
    def following(self) -> Numbers:
        """What a model of sequences says of the target, and how it changes what follows `(n, 2)`.

        The first number is the score of the target after what comes before it. The second is how
        much the target before them adds to the scores of the next `STEPS` items, in sum. Scores are
        beside those of other items, since they may be shifted from one history to the next:

            s_i - ln sum_j exp s_j

        An item that the model does not know scores below all others.

        Raises:
            TypeError: no histories were sent.
        """
        if self.after is None:
            raise TypeError("no histories were sent")
        from scipy.special import logsumexp

        scores = self.after.astype(np.float64)
        scores = np.where(np.isnan(scores), below_all(scores), scores)
        logs = scores[:, :2] - logsumexp(scores[:, 2:], axis=1, keepdims=True)
        without, given = np.moveaxis(logs.reshape(-1, STEPS, 2, 2), 2, 0)
        gain = (given[:, :, 1] - without[:, :, 1]).sum(1)
        return np.stack((without[:, 0, 0], gain), axis=1)


@dataclass(frozen=True, eq=False)
class Known:
    """What the attacker knows of the data, and whose lists are observed.

    Attributes:
        history: users × items, 1 for what a user has beyond the targets' interactions `(N, M)`; of
            a target user what they would have if present.
        listed: the users whose lists are asked, increasing `(l,)`.
        observed: the users among them whose lists an observer of others' lists sees, as indices
            into `listed` `(w,)`.
    """

    history: csr_array
    listed: Indices
    observed: Indices

    @cached_property
    def by_item(self) -> csr_array:
        """Cosine-normalised columns, transposed: items × users."""
        sizes = np.bincount(self.history.indices, minlength=self.history.shape[1])
        return csr_array((self.history @ diags_array(_inverse_root(sizes))).T)

    @cached_property
    def by_user(self) -> csr_array:
        """Cosine-normalised rows: users × items."""
        return csr_array(diags_array(_inverse_root(np.diff(self.history.indptr))) @ self.history)

    def similar_items(self, items: Indices) -> csr_array:
        """Return cosines of items with every item, by who has them `(n, M)`."""
        return csr_array(self.by_item[items] @ self.by_item.T)

    def cosines(self, items: Indices, which: NDArray[np.int64], others: Indices) -> Numbers:
        """Return cosines of `items[which]` with others, pair by pair `(n,)`.

        The cosines of the last `items` are cached, since every training asks for the same ones.
        """
        distinct, inverse = np.unique(items, return_inverse=True)
        places, cosines = self._cached(
            "cosines", distinct, lambda: _flat(self.similar_items(distinct))
        )
        wanted = inverse[which] * self.history.shape[1] + others
        at = np.searchsorted(places, wanted)
        return np.where(places[at] == wanted, cosines[at], 0.0)

    def near_histories(self, users: Indices) -> csr_array:
        """Return the sum of each item's cosines with the history of each user `(n, M)`.

        The sums of the last `users` are cached.
        """
        return self._cached(
            "near", users, lambda: csr_array(self.history[users] @ self.by_item @ self.by_item.T)
        )

    @cached_property
    def _last(self) -> dict[str, tuple[bytes, Any]]:
        return {}

    def _cached(self, what: str, asked: Indices, compute: Callable[[], Any]) -> Any:
        """Return what was computed of the same users or items the last time, or compute it."""
        key, last = asked.tobytes(), self._last.get(what)
        if last is None or last[0] != key:
            last = self._last[what] = key, compute()
        return last[1]

    def similar_observed(self, users: Indices) -> Numbers:
        """Return cosines of users with observed users, by what they have `(n, w)`; 0 with self."""
        observed = self.listed[self.observed]
        cosines: Numbers = (self.by_user[users] @ self.by_user[observed].T).toarray()
        cosines[users[:, None] == observed] = 0
        return cosines

    def by_others(self, places: Numbers, users: Indices) -> Numbers:
        """Return means of what observed lists show users, without their own list `(n, 2)`.

        Args:
            places: a number of each user in each observed list `(n, w)`.
            users: the users `(n,)`.

        Returns:
            The plain mean, and the mean by the likeness of the list's user.
        """
        places[users[:, None] == self.listed[self.observed]] = 0
        alike = self.similar_observed(users)
        weight = np.maximum(alike.sum(1), 1e-12)
        return np.stack((places.mean(1), (places * alike).sum(1) / weight), axis=1)

    def list_of(self, users: Indices) -> Indices:
        """Return each user's row in the lists `(n,)`; all must be listed."""
        return np.searchsorted(self.listed, users).astype(np.int32)


def below_all(scores: Numbers) -> float:
    """Return a number below all finite scores, for what a model does not know."""
    finite = scores[np.isfinite(scores)]
    low, high = (finite.min(), finite.max()) if len(finite) else (0.0, 0.0)
    return float(low - (high - low) - 1)


def exposure(lists: Indices, items: int) -> csr_array:
    """Return the discount at which each list shows each item `(l, M)`."""
    listed = lists >= 0
    places = np.broadcast_to(discounts(lists.shape[1]), lists.shape)
    start = np.concatenate(([0], np.cumsum(listed.sum(1))))
    return csr_array((places[listed], lists[listed], start), shape=(len(lists), items))


def _flat(matrix: csr_array) -> tuple[NDArray[np.int64], Numbers]:
    """Return the places of stored numbers in the flat matrix, increasing, and the numbers.

    The last place is beyond the matrix.
    """
    matrix.sort_indices()
    row = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    places = np.append(row * matrix.shape[1] + matrix.indices, matrix.shape[0] * matrix.shape[1])
    return places, np.append(matrix.data, 0.0)


def _inverse_root(sizes: NDArray[np.integer]) -> Numbers:
    return 1 / np.sqrt(np.maximum(sizes, 1))


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
    unit = of_length_one(factors.astype(np.float64)).astype(np.float32)
    size = max(1, _TOGETHER // len(factors))
    blocks = [_most_alike(unit, distinct[at : at + size]) for at in range(0, len(distinct), size)]
    return exposure(np.concatenate(blocks), len(factors)), row


def of_length_one(vectors: Numbers) -> Numbers:
    """Return vectors of length 1 in the same directions; 0 stays 0 `(n, d)`."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: Numbers = vectors / np.where(lengths > 0, lengths, 1)
    return unit


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


def of_histories(shown: Shown, known: Known, of: Pairs, rated: bool) -> Numbers:
    """Return what is said of the target and of what follows it `(n, 2)`; see `Shown.following`."""
    return shown.following[: len(of.users)]


OF_INTERACTIONS: Mapping[str, Callable[[Shown, Known, Pairs, bool], Numbers]] = {
    "scores": of_scores,
    "own-list": of_own_list,
    "others-lists": of_others_lists,
    "nearest-items": of_nearest_items,
    "factors": of_factors,
    "asked-histories": of_histories,
    "before-and-after": of_change,
}


def _similar(known: Known, items: Indices, seen: csr_array) -> Numbers:
    """Return the mean cosine of each item with the items that its list shows `(n,)`."""
    row = np.repeat(np.arange(len(items)), np.diff(seen.indptr))
    alike = known.cosines(items, row, seen.indices)
    total = np.bincount(row, seen.data, len(items))
    return np.bincount(row, seen.data * alike, len(items)) / np.maximum(total, 1e-12)


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


def user_scores(shown: Shown, known: Known, of: Users) -> Numbers:
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


def user_own_list(shown: Shown, known: Known, of: Users) -> Numbers:
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


def user_others_lists(shown: Shown, known: Known, of: Users) -> Numbers:
    """Return the history's discount in others' lists: mean, and weighted by similarity `(n, 2)`."""
    seen = exposure(shown.lists[known.observed], known.history.shape[1])
    history = known.history[of.users]
    places = (history @ seen.T).toarray() / np.maximum(np.diff(history.indptr), 1)[:, None]
    return known.by_others(places, of.users)


def user_factors(shown: Shown, known: Known, of: Users) -> Numbers:
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


def user_nearest_items(shown: Shown, known: Known, of: Users) -> Numbers:
    """Return how high the items nearest to those of the history show the history `(n, 1)`.

    It is the mean over the history's items of the discounts of its other items.
    """
    history, weights = histories(known, of.users)
    seen, row = nearest(shown.items, history.ravel())
    near = seen[row].multiply(csr_array(known.history[np.repeat(of.users, history.shape[1])]))
    discounts = np.asarray(near.sum(1)).reshape(history.shape)
    return ((discounts * weights).sum(1) / np.maximum(weights.sum(1), 1))[:, None]


def user_change(shown: Shown, known: Known, of: Users) -> Numbers:
    """Return the mean change of the scores of what the user has, and of other items `(n, 2)`."""
    size = 2 * of.held.size
    return shown.change[of.first : of.first + size].reshape(2, *of.held.shape).mean(2).T


def user_histories(shown: Shown, known: Known, of: Users) -> Numbers:
    """Return the means of `Shown.following` over items of each user's history `(n, 2)`."""
    asked = shown.following[of.first : of.first + of.held.size]
    return asked.reshape(*of.held.shape, -1).mean(1)


OF_USERS: Mapping[str, Callable[[Shown, Known, Users], Numbers]] = {
    "scores": user_scores,
    "own-list": user_own_list,
    "others-lists": user_others_lists,
    "nearest-items": user_nearest_items,
    "factors": user_factors,
    "asked-histories": user_histories,
    "before-and-after": user_change,
}


# Added to the covariance, as a share of each feature's variance, so that it is never singular.
_DIAGONAL = 1e-6
# A feature with a smaller spread, relative to its size, differs by rounding alone.
_ROUNDING = 1e-12


def direction(features: Numbers, present: NDArray[np.bool_]) -> Numbers:
    """Return Fisher's linear discriminant of present against absent targets `(F,)`.

    Σ⁻¹ g, for the change g of the features by the coin and the covariance Σ within both classes,
    pooled over all targets and trainings (Fisher 1936, doi:10.1111/j.1469-1809.1936.tb02137.x).
    Targets differ, as by how popular their items are. In the difference of the classes' means this
    may drown what one interaction changes, and turn even its sign. So a part θ of each target's
    means, of the feature and of the coin, is taken off before g is estimated by least squares,

        θ = 1 − √(s² / (R S²)),

    for the variance s² within targets and that S² of the means of R trainings: the estimate of g
    with random effects of targets (Swamy & Arora 1972, doi:10.2307/1909405). It compares targets
    with each other as far as they are alike, and each with itself as far as they differ. In one
    training all are compared, θ = 0. A feature that never changes, but for rounding, gets 0.

    Args:
        features: features in the attacker's trainings `(R, m, F)`.
        present: whether each target is in the data of each of these `(R, m)`.
    """
    if present.all() or not present.any():
        return np.zeros(features.shape[2])
    gap = _change(features, present)
    within, without = features[present], features[~present]
    away = np.concatenate((within - within.mean(0), without - without.mean(0)))
    spread = away.std(0)
    least = _ROUNDING * np.abs(features).max((0, 1))
    # A feature without any spread that differs between the classes decides alone: give it some.
    spread = np.where(spread > least, spread, np.abs(gap))
    able = spread > least
    scaled = away[:, able] / spread[able]
    covariance = np.einsum("ni,nj->ij", scaled, scaled) / len(scaled)
    covariance += _DIAGONAL * np.eye(len(covariance))
    weights = np.zeros(features.shape[2])
    right = (gap[able] / spread[able])[None, :, None]
    weights[able] = solved(covariance[None], right)[0, :, 0] / spread[able]
    return weights


def _change(features: Numbers, present: NDArray[np.bool_]) -> Numbers:
    """Return how much of each feature the coin changes `(F,)`."""
    share = _share(features)
    coins = present[:, :, None] - share * present.mean(0)[None, :, None]
    moved = features - share * features.mean(0)
    coins -= coins.mean((0, 1))
    moved -= moved.mean((0, 1))
    products, squares = (coins * moved).sum((0, 1)), (coins**2).sum((0, 1))
    # Without any coin that changes, what differs between targets tells nothing.
    return np.divide(products, squares, out=np.zeros_like(squares), where=squares > 0)


def _share(features: Numbers) -> Numbers:
    """Return the part θ of a target's mean that is taken off each feature `(F,)`."""
    trainings = len(features)
    if trainings == 1:
        return np.zeros(features.shape[2])
    within = features.var(0, ddof=1).mean(0)
    between = trainings * features.mean(0).var(0)
    ratio = np.divide(within, between, out=np.ones_like(within), where=between > 0)
    return 1 - np.sqrt(np.minimum(ratio, 1.0))
