"""Sensitive purchases recovered from a released ranking model and what users share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from pydantic.dataclasses import dataclass as parameters

from dpaudit.data.ratings import Ratings
from dpaudit.errors import InputError, RunError
from dpaudit.kernels.lanes import LANES, aligned
from dpaudit.kernels.ranking import best
from dpaudit.parts import STRICT, Part
from dpaudit.releases import ItemFactors

Indices = NDArray[np.int32]
Numbers = NDArray[np.float64]

# Newton's method needs some ten steps; a step that is halved so often moves nothing.
_STEPS, _HALVINGS = 100, 50


@parameters(frozen=True, config=STRICT)
class RankingReconstruction(Part):
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
        found = []
        for world in release.factors:
            factors = world.astype(np.float64)
            own = self._fitted(factors, shared, known, users)
            found.append(_ranked(own, factors, shared, users, k))
        return np.stack(found)

    def _fitted(self, factors: Numbers, shared: Ratings, known: Ratings, users: Indices) -> Numbers:
        """The fitted factors of these users `(n, d)`."""
        centre = np.zeros(factors.shape[1] - 1)
        if self.average:
            sharing = np.flatnonzero(np.diff(shared.by_user.start))
            each = [self._fit(factors, shared, known, int(user), centre) for user in sharing]
            centre = np.mean(each, axis=0) if each else centre
        return np.stack([self._fit(factors, shared, known, int(user), centre) for user in users])

    def _fit(
        self, factors: Numbers, shared: Ratings, known: Ratings, user: int, centre: Numbers
    ) -> Numbers:
        liked = shared.profile(user).items
        others = self._negatives(known, user)
        if not len(liked) or not len(others):
            return centre
        return _Preferences(factors[liked], factors[others], self.ridge, centre).solved()

    def _negatives(self, known: Ratings, user: int) -> Indices:
        rest = np.ones(known.n_items, np.bool_)
        rest[known.profile(user).items] = False
        others = np.flatnonzero(rest).astype(np.int32)
        if len(others) <= self.most:
            return others
        own = np.random.SeedSequence([self.draw, *b"negatives"], spawn_key=(user,))
        return np.sort(np.random.default_rng(own).choice(others, self.most, replace=False))


@dataclass(frozen=True, eq=False)
class _Preferences:
    """What one user prefers to what.

    Attributes:
        liked: factors and bias of what she likes `(p, d + 1)`.
        others: those of her negatives `(q, d + 1)`.
        ridge: λ.
        centre: ū `(d,)`.
    """

    liked: Numbers
    others: Numbers
    ridge: float
    centre: Numbers

    def solved(self) -> Numbers:
        """The u of the least loss `(d,)`.

        Raises:
            RunError: Newton's method did not converge.
        """
        u = self.centre.copy()
        loss, psi = self._loss(u)
        for _ in range(_STEPS):
            slope, curvature = self._derivatives(u, psi)
            step = np.linalg.solve(curvature, slope)
            gain = float(slope @ step)
            # Half the gain is what is left to win, up to higher orders.
            if gain <= 1e-12 * (1 + loss):
                return u
            size = 1.0
            moved = self._loss(u - step)
            while moved[0] > loss - 0.25 * size * gain:
                size /= 2
                if size < 0.5**_HALVINGS:
                    return u  # as well as numbers can tell
                moved = self._loss(u - size * step)
            u = u - size * step
            loss, psi = moved
        raise RunError(
            f"a user's factors did not converge in {_STEPS} steps of Newton's method: raise "
            "params.ridge"
        )

    def _loss(self, u: Numbers) -> tuple[float, Numbers]:
        """The loss, and ψ of each pair `(p, q)`."""
        upper, lower = (part[:, :-1] @ u + part[:, -1] for part in (self.liked, self.others))
        margins = upper[:, None] - lower
        # −ln φ(x) = ln(1 + e^−|x|) + max(−x, 0), and ψ = φ(−x) from the same power.
        power = np.exp(-abs(margins))
        wrong = np.log1p(power).sum() - np.minimum(margins, 0).sum()
        psi = np.where(margins > 0, power, 1) / (1 + power)
        away = u - self.centre
        return float(wrong / len(self.others) + self.ridge / 2 * (away @ away)), psi

    def _derivatives(self, u: Numbers, psi: Numbers) -> tuple[Numbers, Numbers]:
        """The loss's slope `(d,)` and its curvature `(d, d)`."""
        above, below = self.liked[:, :-1], self.others[:, :-1]
        # −Σ ψ (v_j − v_k) and Σ ψ (1 − ψ) (v_j − v_k)(v_j − v_k)ᵀ over j and the mean of k.
        slope = (psi.sum(0) @ below - psi.sum(1) @ above) / len(below)
        bent = psi * (1 - psi) / len(below)
        across = above.T @ bent @ below
        curvature = (above.T * bent.sum(1)) @ above + (below.T * bent.sum(0)) @ below
        curvature -= across + across.T
        away = u - self.centre
        return slope + self.ridge * away, curvature + self.ridge * np.eye(len(u))


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
