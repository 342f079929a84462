"""Reconstruct sensitive purchases from a released ranking model and users' shared purchases."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from pydantic.dataclasses import dataclass as parameters

from dpaudit.attacks.base import ListReconstruction
from dpaudit.core.errors import InputError, RunError
from dpaudit.core.memory import check_memory
from dpaudit.core.plugin import STRICT
from dpaudit.core.releases import ItemFactors
from dpaudit.core.streams import generator
from dpaudit.data.ratings import Ratings
from dpaudit.kernels.lanes import LANES, aligned
from dpaudit.kernels.social.preference_fits import fit
from dpaudit.kernels.top_k.ranking import best

Indices = NDArray[np.int32]
Numbers = NDArray[np.float64]
Starts = NDArray[np.int64]


@parameters(frozen=True, config=STRICT)
class RankingReconstruction(ListReconstruction):
    """Fit each user to their shared purchases, then list their best other items.

    Equation (22) of Meng et al. 2018 with a ridge, solved for each user to convergence by Newton's
    method on the released V:

        ũ_i = argmax_u Σ_j mean_k ln φ(u · v_j − u · v_k) − (λ/2) ‖u − ū‖²,    φ(x) = 1/(1 + e^−x),

    with j over the user's shared items, k over their negatives, and ū the mean of the users' fits
    with ū = 0, so that a user who shares little is close to an average one. (The paper sums over k
    and has no ridge; its problem has no solution if a hyperplane separates the shared items from
    the negatives.) The list has the best `ũ_i · v_j` among the items that the user does not share.

    The paper's negatives are all items that the user does not share (`others`). They include the
    private ones, whose scores the fit lowers a little; an attacker who does not know them cannot
    avoid this. `not-held` takes only items that the user does not hold, which uses the secret
    itself: private items are then the only ones in the list whose scores the fit does not lower, so
    they rank high even for an uninformative V. Compare with the same attack on such a V; only the
    difference is a leak.

    Attributes:
        ridge: λ.
        average: whether users are shrunk towards ū instead of 0.
        negatives: the items taken as less liked: all not shared, or only those not held.
        most: the largest number of negatives per user; more are sampled down to it.
        seed: the seed of this sampling.
    """

    ridge: Annotated[float, Field(ge=1e-6, le=1e6)] = 0.1
    average: bool = True
    negatives: Literal["others", "not-held"] = "others"
    most: Annotated[int, Field(ge=1, le=10_000_000)] = 2000
    seed: Annotated[int, Field(ge=0, lt=2**64)] = 0

    name: ClassVar[str] = "ranking-reconstruction"
    title: ClassVar[str] = "Sensitive purchases from a released ranking and shared purchases"
    source: ClassVar[str] = (
        "Meng, Wang, Shu, Li, Chen, Liu, Zhang, Towards privacy preserving social recommendation "
        "under personalized privacy settings, 2018, doi:10.1007/s11280-018-0620-z, equation (22)"
    )

    def lists(
        self,
        release: ItemFactors,
        shared: Ratings,
        users: Indices,
        k: int,
        held: Ratings | None = None,
    ) -> Indices:
        """Return the k items that each user most likely keeps private.

        Args:
            release: the items' side of the models.
            shared: the purchases that are not sensitive.
            users: the users to list items for `(n,)`.
            k: the length of a list.
            held: all purchases, used by `not-held` only.

        Returns:
            `(W, n, k)`, best first; −1 where there are no more items.

        Raises:
            InputError: `not-held` is set and `held` is None.
            ConfigError: the negatives do not fit the memory.
            RunError: a fit did not converge.
        """
        if self.negatives == "not-held" and held is None:
            raise InputError("negatives = 'not-held' needs all purchases: give held")
        known = shared if self.negatives == "others" or held is None else held
        fits, lists = self._fits(shared, known, users), []
        for trial in release.factors:
            factors = trial.astype(np.float64)
            lists.append(_ranked(fits.wanted(factors), factors, shared, users, k))
        return np.stack(lists)

    def _fits(self, shared: Ratings, known: Ratings, users: Indices) -> _Fits:
        """Set up the fits of `users` and, for the mean ū, of all other users who share."""
        counts = np.diff(shared.by_user.start)
        # Users who are needed only for the mean come last.
        more = np.setdiff1d(np.flatnonzero(counts), users) if self.average else np.empty(0)
        fitted = np.concatenate([users, more]).astype(np.int32)
        averaged = (counts > 0)[fitted] if self.average else np.zeros(len(fitted), np.bool_)
        return _Fits(
            len(users), fitted, averaged, shared, *self._negatives(known, fitted), self.ridge
        )

    def _negatives(self, known: Ratings, users: Indices) -> tuple[Starts, Indices]:
        """Return the users' negatives, concatenated, and the offset of each user's part."""
        most = min(self.most, known.n_items)
        check_memory(
            "the negatives of every user in the attack 'ranking-reconstruction'",
            f"the number of fitted users ({len(users):,}) times the most negatives of one "
            f"({most:,})",
            2 * 4 * len(users) * most,
            "lower params.most or set params.average = false",
        )
        negatives = [self._drawn(known, int(user)) for user in users]
        start = np.concatenate([[0], np.cumsum([len(items) for items in negatives])]).astype(
            np.int64
        )
        return start, np.concatenate([np.empty(0, np.int32), *negatives])

    def _drawn(self, known: Ratings, user: int) -> Indices:
        rest = np.ones(known.n_items, np.bool_)
        rest[known.profile(user).items] = False
        others = np.flatnonzero(rest).astype(np.int32)
        if len(others) <= self.most:
            return others
        stream = generator(self.seed, "negatives", child=user)
        return np.sort(stream.choice(others, self.most, replace=False))


@dataclass(frozen=True, eq=False)
class _Fits:
    """The data that users are fitted to.

    Attributes:
        count: the number of users whose fits are returned; they come first.
        users: the fitted users `(n,)`.
        averaged: mask of the users whose mean is ū `(n,)`; if empty, ū is 0.
        shared: the shared purchases.
        start: the negatives of the r-th user are `others[start[r]:start[r + 1]]`, `(n + 1,)`.
        others: the negatives of all users.
        ridge: λ.
    """

    count: int
    users: Indices
    averaged: NDArray[np.bool_]
    shared: Ratings
    start: Starts
    others: Indices
    ridge: float

    def wanted(self, factors: Numbers) -> Numbers:
        """Return the fitted factors of the first `count` users `(count, d)`.

        Args:
            factors: factors of every item, the bias in the last column `(M, d + 1)`.

        Raises:
            RunError: Newton's method did not converge.
        """
        centre = np.zeros(factors.shape[1] - 1)
        fitted = np.zeros((len(self.users), len(centre)))
        self._solve(factors, centre, fitted)
        if self.averaged.any():
            centre = fitted[self.averaged].mean(axis=0)
            # Start from the first fits, which affects only the time.
            self._solve(factors, centre, fitted[: self.count])
        return fitted[: self.count]

    def _solve(self, factors: Numbers, centre: Numbers, fitted: Numbers) -> None:
        """Move the factors `fitted` `(m, d)` of the first m users to the minimum of their loss."""
        start, items, _ = self.shared.by_user
        users = self.users[: len(fitted)]
        if fit(
            users, start, items, self.start, self.others, factors, self.ridge, centre, fitted
        ):  # fmt: skip
            raise RunError(
                "a user's factors did not converge by Newton's method: raise params.ridge"
            )


def _ranked(fitted: Numbers, factors: Numbers, shared: Ratings, users: Indices, k: int) -> Indices:
    """The k best items by `u · v_j + b_j` that each user does not share `(n, k)`."""
    count = factors.shape[1]
    size = -(-count // LANES) * LANES
    left, right = aligned(shared.n_users, size), aligned(len(factors), size)
    left[users, : count - 1], left[users, count - 1] = fitted, 1
    right[:, :count] = factors
    lists, scores = np.empty((len(users), k), np.int32), np.empty((len(users), k), np.float32)
    start, items, _ = shared.by_user
    best(users, left.reshape(-1), right.reshape(-1), size, start, items, lists, scores)
    return lists
