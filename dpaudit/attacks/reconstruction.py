"""Reconstruct sensitive ratings and purchases from released models and what users share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from pydantic.dataclasses import dataclass as parameters

from dpaudit.attacks.base import ListReconstruction, RatingReconstruction, SubmissionReconstruction
from dpaudit.core.errors import ConfigError, InputError, RunError
from dpaudit.core.memory import check_memory
from dpaudit.core.plugin import STRICT
from dpaudit.core.releases import ItemFactors, Submissions
from dpaudit.core.streams import generator
from dpaudit.data.ratings import Ratings
from dpaudit.kernels.lanes import LANES, aligned
from dpaudit.kernels.normal_equations import add_squares, inverses, solved
from dpaudit.kernels.social.preference_fits import fit
from dpaudit.kernels.top_k import best

Indices = NDArray[np.int32]
Numbers = NDArray[np.float64]

_MENG = (
    "Meng, Wang, Shu, Li, Chen, Liu, Zhang, Towards privacy preserving social recommendation "
    "under personalized privacy settings, 2018, doi:10.1007/s11280-018-0620-z"
)

# The largest number of factor products, or of derivatives, in memory at a time.
_AT_ONCE = 2**22


@parameters(frozen=True, config=STRICT)
class Reconstruction(RatingReconstruction):
    """Fit each user to their shared ratings, then predict their private ones.

    Equation (21) of Meng et al. 2018, solved exactly for each user by ridge regression on the
    released V instead of by gradient descent:

        ũ_i = argmin_u Σ_j (r_ij − b_j − u · v_j)² + λ ‖u − ū‖²,    j over the shared ratings,

    with ū the mean of the users' fits with ū = 0, so that a user who shares little is close to an
    average one. Private ratings are predicted by `b_j + ũ_i · v_j`, clipped to the scale.

    Attributes:
        ridge: λ; near 0 it is the paper's attack.
        average: whether users are shrunk towards ū instead of 0.
    """

    ridge: Annotated[float, Field(ge=1e-6, le=1e6)] = 1.0
    average: bool = True

    name: ClassVar[str] = "reconstruction"
    title: ClassVar[str] = "Sensitive ratings from a released model and shared ratings"
    source: ClassVar[str] = f"{_MENG}, equation (21)"

    def reconstruct(
        self, release: ItemFactors, shared: Ratings, users: Indices, items: Indices
    ) -> Numbers:
        """Recover the ratings of (user, item) pairs `(W, n)`.

        Args:
            release: the items' side of the models.
            shared: the ratings that are not sensitive.
            users: the user of each pair `(n,)`.
            items: the item of each pair `(n,)`.
        """
        recovered = []
        for trial in release.factors:
            factors, bias = _parts(trial, release.mean)
            fitted = self._fitted(factors, bias, shared)
            recovered.append(bias[items] + np.einsum("nf,nf->n", fitted[users], factors[items]))
        scale = shared.scale
        return np.clip(np.stack(recovered), scale.minimum, scale.maximum)

    def left_out(self, release: ItemFactors, shared: Ratings) -> float:
        """Return the leave-one-out mean squared error of shared ratings in the first trial.

        With the fit's residual `e` of a rating and `h = v' (Σ v v' + λ)⁻¹ v`, the residual of the
        fit without this rating is `e/(1 − h)`; ū is held fixed.

        Args:
            release: the items' side of the model.
            shared: the ratings; if there are none, the result is the square of half the scale.
        """
        if not len(shared):
            return (shared.scale.width / 2) ** 2
        factors, bias = _parts(release.factors[0], release.mean)
        fitted = self._fitted(factors, bias, shared)
        squares, _ = _sums(factors, bias, shared)
        inverse, _ = inverses(squares + self.ridge * np.eye(factors.shape[1]))
        total, parts = 0.0, 1 + squares[0].size * len(shared) // _AT_ONCE
        for rows in np.array_split(np.arange(len(shared)), parts):
            users, v = shared.user[rows], factors[shared.item[rows]]
            left = shared.value[rows] - bias[shared.item[rows]] - (fitted[users] * v).sum(1)
            weight = np.einsum("nf,nfg,ng->n", v, inverse[users], v)
            total += float(((left / (1 - weight)) ** 2).sum())
        return total / len(shared)

    def _fitted(self, factors: Numbers, bias: NDArray[np.float32], shared: Ratings) -> Numbers:
        """Return every user's fitted factors `(N, d)`.

        Raises:
            ConfigError: the fits do not fit the memory.
        """
        squares, products = _sums(factors, bias, shared)
        squares += self.ridge * np.eye(factors.shape[1])
        fitted: Numbers = solved(squares, products[:, :, None])[:, :, 0]
        sharing = np.diff(shared.by_user.start) > 0
        if not self.average or not sharing.any():
            return fitted
        products += self.ridge * fitted[sharing].mean(0)
        return solved(squares, products[:, :, None])[:, :, 0]


def _parts(trial: NDArray[np.float32], mean: float) -> tuple[Numbers, NDArray[np.float32]]:
    """Return the items' factors `(M, d)`, and what is added to their products `(M,)`."""
    return trial[:, :-1].astype(np.float64), trial[:, -1] + mean


def _sums(factors: Numbers, bias: NDArray[np.float32], shared: Ratings) -> tuple[Numbers, Numbers]:
    """Return `Σ v vᵀ` `(N, d, d)` and `Σ (r − b) v` `(N, d)` over each user's shared ratings."""
    d, start = factors.shape[1], shared.by_user.start
    check_memory(
        "the fit of every user by the attack 'reconstruction'",
        f"the number of users ({shared.n_users:,}) times the square of the dimensions ({d})",
        # The sums, and a copy while they are solved or inverted.
        8 * 3 * shared.n_users * d * (d + 1),
        "lower the model's params.dimensions, use fewer users",
    )
    squares = np.zeros((shared.n_users, d, d))
    products = np.zeros((shared.n_users, d))
    sharing = np.flatnonzero(np.diff(start))
    for users in np.array_split(sharing, max(1, len(shared) * d * d // _AT_ONCE)):
        if not len(users):
            continue
        first, last = start[users[0]], start[users[-1] + 1]
        v = factors[shared.item[first:last]]
        rest = shared.value[first:last] - bias[shared.item[first:last]].astype(np.float64)
        begins = start[users] - first
        squares[users] = np.add.reduceat(v[:, :, None] * v[:, None], begins)
        products[users] = np.add.reduceat(v * rest[:, None], begins)
    return squares, products


# The smallest assumed noise, about the rounding error of single precision.
_LEAST = 1e-4
# Levenberg-Marquardt: most steps, relative tolerance, initial damping.
_STEPS, _ENOUGH, _DAMPING = 40, 1e-9, 1e-3


@parameters(frozen=True, config=STRICT)
class FromSubmissions(SubmissionReconstruction):
    """Model each user's local updates, and fit their private ratings to all their submissions.

    The recommender knows each round's V, who rated what, how users learn and the shared ratings.
    Unknown are the user's initial factors and private ratings, θ = (u_0, r_kept). The update

        u_{t+1} = (1 − 2γλ) u_t − 2γ Σ_j (u_t · v_j − r_j) v_j    with the V of round t + 1

    makes `u_t = a_t + B_t θ` affine in θ (linearised at the current θ if u is clipped to a ball).
    Without clipping the user submits `x_tj = 2 (u_t · v_j − r_j) u_t` plus normal noise with a
    known standard deviation σ_tj. The estimate is the most probable θ,

        argmin_θ Σ_tj ‖x_tj − 2 (u_t · v_j − r_j) u_t‖²/σ_tj² + ‖u_0 − m‖²/s² + ‖r_kept − r̃‖²/τ²,

    found by the Levenberg-Marquardt method, started at u_0 = m and r̃. The shared ratings determine
    u_t; a private rating affects its own submissions and the path of u_t. Over T rounds with fresh
    noise, errors fall like 1/√T. r̃ is the result of `reconstruction` on the final model, and τ² is
    its leave-one-out mean squared error on shared ratings. So the estimate is r̃ with much noise,
    and the true ratings without noise; but if submissions are clipped it may stop in a local
    minimum.

    The recommender does not see the messages from friends that also change u. They are ignored, so
    with a large weight of friends the error is larger than necessary.

    **Differences** of consecutive rounds cancel noise that is drawn once (Meng et al. 2018, section
    5.3). With fresh noise in each round they are a function of the submissions that drops their
    mean, so they are never more informative, and less so where the mean is informative.

    Attributes:
        knows: `h` takes σ given the recommender's random draws, `scale` its usual value.
        rounds: whether to read all submissions, or differences of consecutive ones.
        users: the number of attacked users, chosen at random among those with private ratings.
        ridge: λ of `reconstruction`.
    """

    knows: Literal["h", "scale"] = "h"
    rounds: Literal["all", "difference"] = "all"
    users: Annotated[int, Field(ge=1, le=1_000_000)] = 30
    ridge: Annotated[float, Field(ge=1e-6, le=1e6)] = 1.0

    name: ClassVar[str] = "submissions"
    title: ClassVar[str] = "Sensitive ratings from users' submissions over the rounds"
    source: ClassVar[str] = (
        f"{_MENG}, section 5.3; "
        "Levenberg 1944, doi:10.1090/qam/10666; Marquardt 1963, doi:10.1137/0111030"
    )

    def check_rounds(self, rounds: int) -> None:
        """Check that there are two rounds if differences are read.

        Raises:
            ConfigError: there is only one round.
        """
        if self.rounds == "difference" and rounds < 2:
            raise ConfigError(
                "params.rounds = 'difference' compares consecutive rounds, and a training of one "
                "round has none: set rounds = 'all', or raise the model's params.rounds"
            )

    def read(self, seen: Submissions, release: ItemFactors, shared: Ratings) -> Numbers:
        """Recover the users' private ratings, in the order of the submissions.

        Args:
            seen: the users' submissions.
            release: the items' side of the final model, one trial.
            shared: the ratings of all users that are not sensitive.

        Returns:
            The estimate from the model alone, then the one with submissions `(2, kept)`.

        Raises:
            ConfigError: differences are read, and there is only one round.
        """
        self.check_rounds(len(seen.shown))
        users, items = seen.users[seen.kept], seen.items[seen.kept]
        before = Reconstruction(ridge=self.ridge)
        guess = before.reconstruct(release, shared, users, items)[0]
        doubt = before.left_out(release, shared) ** 0.5
        recovered = np.concatenate(
            [
                self._one(seen.of_users(np.array([user])), guess[users == user], doubt)
                for user in np.unique(users)
            ]
            or [guess]
        )
        return np.stack([guess, np.clip(recovered, shared.scale.minimum, shared.scale.maximum)])

    def _one(self, seen: Submissions, guess: Numbers, doubt: float) -> Numbers:
        """Return the estimate with submissions for one user `(kept,)`."""
        given = seen.deviations
        if self.knows == "scale":
            given = np.broadcast_to(seen.usual[:, None].astype(np.float32), given.shape)
        variances = np.maximum(given.astype(np.float64), _LEAST) ** 2
        shown = seen.shown.astype(np.float64)
        apart = self.rounds == "difference"
        if apart:
            shown = np.diff(shown, axis=0)
            fresh = variances[1:] + variances[:-1]
            variances = fresh if seen.learning.fresh else np.full(shown.shape, _LEAST**2)
        learning, d = seen.learning, shown.shape[2]
        mean = np.concatenate([np.full(d, learning.start), guess - learning.offset])
        spread = np.full(len(mean), max(doubt, _LEAST))
        spread[:d] = max(learning.spread, _LEAST)
        fit = _Fit(_Path(seen), shown, 1 / variances, mean, 1 / spread**2, apart)
        return fit.best()[d:] + learning.offset


class _Path:
    """The path of one user's factors, as a function of θ."""

    def __init__(self, seen: Submissions) -> None:
        self.learning = seen.learning
        self.items = seen.factors[:, seen.items].astype(np.float64)
        self.kept = np.flatnonzero(seen.kept)
        self.known = np.where(seen.kept, 0.0, seen.shared - seen.learning.offset)
        self.size = self.items.shape[2]
        # d r_j/dθ
        self.picks = np.zeros((self.items.shape[1], self.size + len(self.kept)))
        self.picks[self.kept, self.size + np.arange(len(self.kept))] = 1.0

    def at(self, theta: Numbers) -> tuple[Numbers, Numbers]:
        """Return `u_t` `(T, d)`, and its derivatives by θ `(T, d, p)`."""
        if np.isfinite(self.learning.ball):
            return self._moved(theta)
        shift, slopes = self._affine
        return shift + np.einsum("tdp,p->td", slopes, theta), slopes

    def errors(self, users: Numbers, theta: Numbers) -> Numbers:
        """Return `e_tj = u_t · v_j − r_j` `(T, n)`."""
        return np.einsum("tjd,td->tj", self.items, users) - self._ratings(theta)

    def cuts(self, users: Numbers, errors: Numbers) -> Numbers:
        """Return the clipping factor of each round's submissions `(T,)`."""
        norms = 2 * np.linalg.norm(users, axis=1) * np.linalg.norm(errors, axis=1)
        # c/max(‖s‖, c)
        return 1 / np.maximum(norms / self.learning.clip, 1.0)

    @cached_property
    def _affine(self) -> tuple[Numbers, Numbers]:
        return self._moved(np.zeros(self.picks.shape[1]))

    def _ratings(self, theta: Numbers) -> Numbers:
        ratings: Numbers = self.known.copy()
        ratings[self.kept] = theta[self.size :]
        return ratings

    @cached_property
    def _kept(self) -> Numbers:
        """The linear part of each round's update: `(1 − 2γλ) I − 2γ Σ_j v_j v_jᵀ` `(T, d, d)`."""
        rate, decay = self.learning.rate, self.learning.decay
        squares = np.einsum("tjd,tje->tde", self.items, self.items)
        return (1 - 2 * rate * decay) * np.eye(self.size) - 2 * rate * squares

    def _moved(self, theta: Numbers) -> tuple[Numbers, Numbers]:
        """Compute `u_t` and its derivatives by θ, round by round."""
        twice, ball, new = 2 * self.learning.rate, self.learning.ball, self.items[1:]
        # Column 0 is u, the others its derivatives; initialised with what each round adds.
        path = np.zeros((len(self.items), self.size, 1 + len(theta)))
        path[0, :, 0], path[0, :, 1 : 1 + self.size] = theta[: self.size], np.eye(self.size)
        path[1:, :, 0] = twice * np.einsum("tjd,j->td", new, self._ratings(theta))
        path[1:, :, 1 + self.size :] = twice * np.swapaxes(new[:, self.kept], 1, 2)
        for t in range(len(path)):
            now = path[t]
            if t:
                now += np.einsum("de,ep->dp", self._kept[t], path[t - 1])
            norm = float(np.sqrt((now[:, 0] ** 2).sum()))
            if norm > ball:
                # d(u/‖u‖) = (I − ûû') du/‖u‖
                along = now[:, 0] / norm
                now[:, 1:] -= np.outer(along, np.einsum("d,dp->p", along, now[:, 1:]))
                now *= ball / norm
        return path[:, :, 0], path[:, :, 1:]


@dataclass(frozen=True, eq=False)
class _Fit:
    """The least-squares problem of one user.

    Attributes:
        path: the path of the user's factors.
        shown: the submissions, or their differences `(T, n, d)`.
        weights: the inverse variances of the noise in them.
        mean: the prior mean of θ `(p,)`.
        precision: the prior precision of θ `(p,)`.
        apart: whether differences of consecutive rounds are fitted.
    """

    path: _Path
    shown: Numbers
    weights: Numbers
    mean: Numbers
    precision: Numbers
    apart: bool

    def best(self) -> Numbers:
        """Return the most probable θ, or the local minimum reached from the prior mean."""
        theta, damping = self.mean, _DAMPING
        cost = self._cost(theta)
        for _ in range(_STEPS):
            normal, slope = self._slopes(theta)
            while True:
                damped = normal + damping * np.diag(np.diag(normal))
                step = solved(damped[None], slope[None, :, None])[0, :, 0]
                tried = self._cost(theta + step)
                if tried <= cost or damping > 1e12:
                    break
                damping *= 10
            if not tried <= cost:
                break
            gain, theta, cost, damping = cost - tried, theta + step, tried, damping / 10
            if gain <= _ENOUGH * cost:
                break
        return theta

    def _cost(self, theta: Numbers) -> float:
        users, _ = self.path.at(theta)
        away = self.shown - self._exact(users, self.path.errors(users, theta))
        prior = (self.precision * (theta - self.mean) ** 2).sum()
        return float((self.weights * away**2).sum() + prior)

    def _exact(self, users: Numbers, errors: Numbers) -> Numbers:
        """Return the noiseless submissions, or their differences."""
        cuts = self.path.cuts(users, errors)
        exact = 2 * (cuts[:, None] * errors)[:, :, None] * users[:, None]
        return np.diff(exact, axis=0) if self.apart else exact

    def _slopes(self, theta: Numbers) -> tuple[Numbers, Numbers]:
        """Return the normal equations: matrix `(p, p)`, upper triangle only, right side `(p,)`."""
        users, slopes = self.path.at(theta)
        errors = self.path.errors(users, theta)
        away = self.shown - self._exact(users, errors)
        normal = np.diag(self.precision)
        right = self.precision * (self.mean - theta)
        count, p = len(self.shown), len(theta)
        size = max(1, _AT_ONCE // max(1, self.shown[0].size * p))
        for first in range(0, count, size):
            # Differences need one more round.
            part = slice(first, min(first + size, count) + self.apart)
            by = self._derivatives(part, users[part], slopes[part], errors[part])
            rows = (np.diff(by, axis=0) if self.apart else by).reshape(-1, p)
            held = slice(first, first + size)
            weights = self.weights[held].reshape(-1)
            add_squares(rows[None], weights[None], normal[None])
            right = right + np.einsum("r,rp->p", weights * away[held].reshape(-1), rows)
        return normal, right

    def _derivatives(
        self, part: slice, users: Numbers, slopes: Numbers, errors: Numbers
    ) -> Numbers:
        """Return `dx/dθ` of some rounds `(t, n, d, p)`."""
        cuts = self.path.cuts(users, errors)
        # de_j = v_j' B − dr_j
        moved = np.einsum("tjd,tdp->tjp", self.path.items[part], slopes) - self.path.picks
        # d(e_j u) = u ⊗ de_j + e_j B
        by = users[:, None, :, None] * moved[:, :, None]
        by += errors[:, :, None, None] * slopes[:, None]
        for t in np.flatnonzero(cuts < 1):
            u, e = users[t], errors[t]
            # With a clipping factor κ: d ln κ = −(u · du/‖u‖² + e · de/‖e‖²)
            lost = np.einsum("d,dp->p", u, slopes[t]) / (u * u).sum()
            lost += np.einsum("j,jp->p", e, moved[t]) / (e * e).sum()
            by[t] -= np.einsum("j,d,p->jdp", e, u, lost)
        by *= 2 * cuts[:, None, None, None]
        return by


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
    source: ClassVar[str] = f"{_MENG}, equation (22)"

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
            lists.append(_ranked(fits(factors), factors, shared, users, k))
        return np.stack(lists)

    def _fits(
        self, shared: Ratings, known: Ratings, users: Indices
    ) -> Callable[[Numbers], Numbers]:
        """Return what fits `users` to factors of every item `(M, d + 1)`, the bias last.

        For the mean ū all other users who share are fitted, too.
        """
        counts = np.diff(shared.by_user.start)
        # Users who are needed only for the mean come last.
        more = np.setdiff1d(np.flatnonzero(counts), users) if self.average else np.empty(0)
        fitted = np.concatenate([users, more]).astype(np.int32)
        averaged = (counts > 0)[fitted] & self.average
        negatives, (start, items, _) = self._negatives(known, fitted), shared.by_user

        def solve(factors: Numbers, centre: Numbers, vectors: Numbers) -> None:
            """Move the vectors `(m, d)` of the first m users to the minimum of their loss."""
            first = fitted[: len(vectors)]
            if fit(first, start, items, *negatives, factors, self.ridge, centre, vectors):
                raise RunError(
                    "a user's factors did not converge by Newton's method: raise params.ridge"
                )

        def wanted(factors: Numbers) -> Numbers:
            centre = np.zeros(factors.shape[1] - 1)
            vectors = np.zeros((len(fitted), len(centre)))
            solve(factors, centre, vectors)
            if averaged.any():
                # Start from the first fits, which affects only the time.
                solve(factors, vectors[averaged].mean(axis=0), vectors[: len(users)])
            return vectors[: len(users)]

        return wanted

    def _negatives(self, known: Ratings, users: Indices) -> tuple[NDArray[np.int64], Indices]:
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
