"""Sensitive purchases recovered from a released ranking model and what users share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from pydantic.dataclasses import dataclass as parameters

from dpaudit.attacks.base import ListReconstruction
from dpaudit.core.errors import InputError, RunError
from dpaudit.core.plugin import STRICT
from dpaudit.core.releases import ItemFactors
from dpaudit.data.ratings import Ratings
from dpaudit.kernels.lanes import LANES, aligned
from dpaudit.kernels.social.preference_fits import fit
from dpaudit.kernels.top_k.ranking import best

Indices = NDArray[np.int32]
Numbers = NDArray[np.float64]
Starts = NDArray[np.int64]


@parameters(frozen=True, config=STRICT)
class RankingReconstruction(ListReconstruction):
    """Fit each user to the purchases that she shares, then list what else ranks high.

    Equation (22) of Meng et al. 2018 with a ridge, solved for each user to convergence by Newton's
    method on the released V:

        ũ_i = argmax_u Σ_j mean_k ln φ(u · v_j − u · v_k) − (λ/2) ‖u − ū‖²,    φ(x) = 1/(1 + e^−x),

    j over what she shares, k over her negatives, ū the mean of what users are fitted at ū = 0, so
    that one who shares little is taken for an average one. (The paper sums over k and has no ridge;
    where what she shares can be told from all negatives by a plane, that has no solution.) The list
    is that of the best `ũ_i · v_j` among all that she does not share.

    What the paper takes for negatives is all that she does not share (`others`): what she keeps is
    pushed down, by little as it is little of it, which is all that one can do who does not know it.
    `not-held` leaves it out. That reads what it is to recover: what alone is never pushed down
    comes up by itself, even from a V that knows nothing, so compare it with the same attack on such
    a V, and take the difference alone for a leak.

    Attributes:
        ridge: λ.
        average: whether users are drawn to ū, or to 0.
        negatives: what is taken for less liked: all that is not shared, or what is not held.
        most: how many negatives a user has at most; of more, so many are drawn.
        draw: decides which.
    """

    ridge: Annotated[float, Field(ge=1e-6, le=1e6)] = 0.1
    average: bool = True
    negatives: Literal["others", "not-held"] = "others"
    most: Annotated[int, Field(ge=1, le=10_000_000)] = 2000
    draw: Annotated[int, Field(ge=0, lt=2**64)] = 0

    name: ClassVar[str] = "ranking-reconstruction"
    title: ClassVar[str] = "Sensitive purchases from a released ranking and what users share"
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
        """The k items that each user most likely keeps to herself.

        Args:
            release: the items' side of the models.
            shared: the purchases that are not sensitive.
            users: whose lists are wanted `(n,)`.
            k: the length of a list.
            held: all purchases, which `not-held` alone looks at.

        Returns:
            `(W, n, k)`, best first; −1 where there are no more.

        Raises:
            InputError: `not-held` is not told what is held.
            RunError: a fit did not converge.
        """
        if self.negatives == "not-held" and held is None:
            raise InputError("negatives = 'not-held' leave out what is held: give held")
        known = shared if self.negatives == "others" or held is None else held
        fits, found = self._fits(shared, known, users), []
        for world in release.factors:
            factors = world.astype(np.float64)
            found.append(_ranked(fits.wanted(factors), factors, shared, users, k))
        return np.stack(found)

    def _fits(self, shared: Ratings, known: Ratings, users: Indices) -> _Fits:
        """Who is fitted, and to what."""
        counts = np.diff(shared.by_user.start)
        # Those whom the mean alone needs come last.
        more = np.setdiff1d(np.flatnonzero(counts), users) if self.average else np.empty(0)
        fitted = np.concatenate([users, more]).astype(np.int32)
        averaged = (counts > 0)[fitted] if self.average else np.zeros(len(fitted), np.bool_)
        return _Fits(
            len(users), fitted, averaged, shared, *self._negatives(known, fitted), self.ridge
        )

    def _negatives(self, known: Ratings, users: Indices) -> tuple[Starts, Indices]:
        """What each of some users does not like, one after the other, and where hers starts."""
        each = [self._drawn(known, int(user)) for user in users]
        start = np.concatenate([[0], np.cumsum([len(items) for items in each])]).astype(np.int64)
        return start, np.concatenate([np.empty(0, np.int32), *each])

    def _drawn(self, known: Ratings, user: int) -> Indices:
        rest = np.ones(known.n_items, np.bool_)
        rest[known.profile(user).items] = False
        others = np.flatnonzero(rest).astype(np.int32)
        if len(others) <= self.most:
            return others
        own = np.random.SeedSequence([self.draw, *b"negatives"], spawn_key=(user,))
        return np.sort(np.random.default_rng(own).choice(others, self.most, replace=False))


@dataclass(frozen=True, eq=False)
class _Fits:
    """Users who are fitted to models.

    Attributes:
        count: how many are wanted, the first.
        users: who `(n,)`.
        averaged: of whom ū is the mean `(n,)`; it is 0 if of nobody.
        shared: what they like.
        start: what the r-th does not like is `others[start[r]:start[r + 1]]`, `(n + 1,)`.
        others: these items.
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
        """The fitted factors of those who are wanted `(count, d)`.

        Args:
            factors: of every item, its bias last `(M, d + 1)`.

        Raises:
            RunError: Newton's method did not converge.
        """
        centre = np.zeros(factors.shape[1] - 1)
        found = np.zeros((len(self.users), len(centre)))
        self._solve(factors, centre, found)
        if self.averaged.any():
            centre = found[self.averaged].mean(axis=0)
            # They begin where they are, which changes nothing but the time.
            self._solve(factors, centre, found[: self.count])
        return found[: self.count]

    def _solve(self, factors: Numbers, centre: Numbers, found: Numbers) -> None:
        """Move each of `found` `(m, d)`, the first users', to the u of the least loss."""
        start, items, _ = self.shared.by_user
        users = self.users[: len(found)]
        if fit(
            users, start, items, self.start, self.others, factors, self.ridge, centre, found
        ):  # fmt: skip
            raise RunError(
                "a user's factors did not converge by Newton's method: raise params.ridge"
            )


def guess_popular(shared: Ratings, users: Indices, k: int) -> Indices:
    """What anybody guesses without a model: what most users share, of what each does not `(n, k)`.

    Of equally many the item of the lower index comes first.
    """
    counts = np.bincount(shared.item, minlength=shared.n_items).astype(np.float64)
    zeros = np.zeros((shared.n_items, 1))
    factors = np.concatenate([zeros, counts[:, None]], axis=1)
    return _ranked(np.zeros((len(users), 1)), factors, shared, users, k)


def _ranked(own: Numbers, factors: Numbers, shared: Ratings, users: Indices, k: int) -> Indices:
    """The k best items of each user that she does not share `(n, k)`, by `u · v_j + b_j`."""
    count = factors.shape[1]
    size = -(-count // LANES) * LANES
    left, right = aligned(shared.n_users, size), aligned(len(factors), size)
    left[users, : count - 1], left[users, count - 1] = own, 1
    right[:, :count] = factors
    lists, scores = np.empty((len(users), k), np.int32), np.empty((len(users), k), np.float32)
    start, items, _ = shared.by_user
    best(users, left.reshape(-1), right.reshape(-1), size, start, items, lists, scores)
    return lists
