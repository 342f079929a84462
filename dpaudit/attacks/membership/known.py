"""What the attacker knows of the data, and what an observer is shown of a trained model."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array

from dpaudit.core.releases import discounts

Indices = NDArray[np.int32]
Numbers = NDArray[np.float64]


class Shown(NamedTuple):
    """What one trained model shows.

    Attributes:
        scores: scores of the asked pairs `(n,)`.
        lists: the lists of the listed users `(l, k)`; -1 pads.
        items: factors of the items `(M, d)`; `(M, 0)` if none are published.
        before: the scores before a deletion `(n,)`; None if they were not asked.
    """

    scores: NDArray[np.float32]
    lists: Indices
    items: NDArray[np.float32]
    before: NDArray[np.float32] | None = None

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
        asked = distinct.tobytes()
        entry = self._cosines.get(asked)
        if entry is None:
            entry = _flat(self.similar_items(distinct))
            self._cosines.clear()
            self._cosines[asked] = entry
        places, cosines = entry
        wanted = inverse[which] * self.history.shape[1] + others
        at = np.searchsorted(places, wanted)
        return np.where(places[at] == wanted, cosines[at], 0.0)

    @cached_property
    def _cosines(self) -> dict[bytes, tuple[NDArray[np.int64], Numbers]]:
        return {}

    def near_histories(self, users: Indices) -> csr_array:
        """Return the sum of each item's cosines with the history of each user `(n, M)`.

        The sums of the last `users` are cached.
        """
        asked = users.tobytes()
        sums = self._near.get(asked)
        if sums is None:
            sums = csr_array(self.history[users] @ self.by_item @ self.by_item.T)
            self._near.clear()
            self._near[asked] = sums
        return sums

    @cached_property
    def _near(self) -> dict[bytes, csr_array]:
        return {}

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
