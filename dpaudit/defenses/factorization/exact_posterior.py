"""Exact draws from the posterior of a small matrix factorisation, without a Markov chain."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NoReturn

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.errors import ConfigError, NoModelError
from dpaudit.core.streams import Streams
from dpaudit.defenses.factors import FactorRows
from dpaudit.kernels import noise
from dpaudit.kernels.normal_equations import inverses

Exact = NDArray[np.float64]

# Trials at a time; a trial's attempts in each of its first steps; a trial's most attempts in all.
_BLOCK, _FIRST, _MOST = 512, (4, 16, 64, 256, 1024, noise.TILE), 200_000


@dataclass(frozen=True, eq=False)
class ExactFactors:
    """The target law of the chain of `SampledFactors`, of which the items' side V is released.

    With every entry of U and V from N(0, s²) and `ℓ_u = k_u Σ_i (r_ui − r̂_ui)²`, the density of
    (U, V) is proportional to

        Π N(·; 0, s²) · exp(−Σ_u ℓ_u) · 1[the tested predictions are in range].

    With `cut`, r̂ is clipped to the range in ℓ instead, and nothing is tested. Draws are by
    rejection from the prior. The density of V integrates every user's side out:

        p(V) ∝ Π N(V; 0, s²) · Π_u g_u(V),   g_u(V) = E_{u ~ N(0, s² I)}[e^{−ℓ_u} 1[in range]].

    g_u has a closed form if nothing is clipped or tested. It also has one if only one number of the
    user matters: with one factor and no biases, or if only one item is tested or rated.

    Attributes:
        rows: the ratings, and `b_0`.
        weights: `k_u` of each user `(N,)`.
        deviation: s.
        dimensions: d.
        biases: whether the model has biases; else the last of the d + 1 coordinates is 0.
        bounds: the range of predictions.
        form: which predictions are tested: `all`, the `rated` ones or none (`any`); or `cut`.
        name: the defense's name, for messages.
    """

    rows: FactorRows
    weights: Exact
    deviation: float
    dimensions: int
    biases: bool
    bounds: tuple[float, float]
    form: Literal["all", "rated", "any", "cut"]
    name: str

    @property
    def _size(self) -> int:
        return self.dimensions + self.biases

    def draw(self, streams: Streams) -> Exact:
        """Draw V of each trial, its biases last, `(W, M, d + 1)`.

        Raises:
            NoModelError: a trial's attempts were all rejected.
        """
        return self.draw_both(streams)[1]

    def draw_both(self, streams: Streams) -> tuple[Exact, Exact]:
        """Draw U `(W, N, d + 1)` and V `(W, M, d + 1)` of each trial.

        Raises:
            NoModelError: a trial's attempts were all rejected.
        """
        sides = np.zeros((len(streams), self.rows.n_users + self.rows.n_items, self.dimensions + 1))
        for start, part in enumerate(streams.blocks(_BLOCK)):
            block = sides[start * _BLOCK : (start + 1) * _BLOCK]
            # Without biases the last coordinate stays 0.
            block[:, :, : self._size] = self._draw_block(part)
        return sides[:, : self.rows.n_users], sides[:, self.rows.n_users :]

    def _draw_block(self, streams: Streams) -> Exact:
        """Draw both sides of up to `_BLOCK` trials `(W, N + M, D)`."""
        rows, users = self.rows, self.rows.n_users
        shape = users + rows.n_items, self._size
        width = shape[0] * shape[1]
        draws = np.empty((len(streams), *shape))
        left, tried = np.arange(len(streams)), 0
        for step in range(0, 2 * _MOST, 2):
            # A trial's draws depend only on its index and the step.
            attempts = max(1, min(noise.TILE // width, _FIRST[min(step // 2, len(_FIRST) - 1)]))
            trials = streams.trials[left]
            normal = np.empty((len(left), attempts * width), np.float32)
            noise.normal(normal, trials, step, streams.key)
            coin = np.empty((len(left), attempts), np.float32)
            noise.uniform(coin, trials, step + 1, streams.key)
            both = self.deviation * normal.astype(np.float64).reshape(-1, *shape)
            # Accept with probability e^{−Σℓ}, up to the 2^-24 of a coin of 2^23 values.
            loss = self._loss(both[:, :users], both[:, users:])
            good = np.log(coin.astype(np.float64)) < -loss.reshape(coin.shape)
            hit = good.any(1)
            place = np.flatnonzero(hit) * attempts + good.argmax(1)[hit]
            draws[left[hit]] = both[place]
            left, tried = left[~hit], tried + attempts
            if not len(left):
                return draws
            if tried >= _MOST:
                self._refuse(len(left), len(streams), tried)
        raise AssertionError("the loop ends by itself")

    def _refuse(self, short: int, trials: int, tried: int) -> NoReturn:
        raise NoModelError(
            f"{self.name}: {short} of {trials} trials had no draw accepted in {tried} attempts: "
            "lower epsilon, raise params.margin, or use less data"
        )

    def _loss(self, users: Exact, items: Exact) -> Exact:
        """Return Σ_u ℓ_u of each draw `(A,)`, infinite out of range.

        Args:
            users: U of each draw `(A, N, D)`.
            items: V of each draw `(A, M, D)`.
        """
        rows, (low, high) = self.rows, self.bounds
        inside = self.in_range(users, items) if self.form == "all" else np.ones(len(users), bool)
        shown = self._predict(users[:, rows.users], items[:, rows.items])
        if self.form == "rated":
            inside &= ((shown >= low) & (shown <= high)).all(1)
        elif self.form == "cut":
            shown = np.clip(shown, low, high)
        loss: Exact = (self.weights[rows.users] * (rows.values - shown) ** 2).sum(1)
        return np.where(inside, loss, np.inf)

    def in_range(self, users: Exact, items: Exact) -> NDArray[np.bool_]:
        """Return whether all predictions of each draw are in range `(A,)`."""
        shown = self._predict(users[:, :, None], items[:, None])
        low, high = self.bounds
        inside = ((shown >= low) & (shown <= high)).reshape(len(shown), -1)
        return np.logical_and.reduce(inside, axis=1)

    def _predict(self, left: Exact, right: Exact) -> Exact:
        """Return r̂ of both sides' vectors `(..., D)`."""
        d = self.dimensions
        shown = self.rows.mean + (left[..., :d] * right[..., :d]).sum(-1)
        return shown + left[..., d] + right[..., d] if self.biases else shown

    def log_density(self, draws: Exact) -> Exact:
        """Return `ln p(V)` of each draw `(W, M, d + 1)`, up to a constant of this law, `(W,)`.

        Raises:
            ConfigError: g_u has no closed form.
        """
        densities = np.empty(len(draws))
        for start in range(0, len(draws), _BLOCK):
            part = draws[start : start + _BLOCK]
            total = -(part[:, :, : self._size] ** 2).sum((1, 2)) / (2 * self.deviation**2)
            for user in range(self.rows.n_users):
                total += self._log_g(user, part)
            densities[start : start + _BLOCK] = total
        return densities

    def _log_g(self, user: int, items: Exact) -> Exact:
        """Return `ln g_u(V)` of each V `(W, M, d + 1)`."""
        rows = slice(int(self.rows.start[user]), int(self.rows.start[user + 1]))
        rated, ratings = self.rows.items[rows], self.rows.values[rows].astype(np.float64)
        tested = np.arange(self.rows.n_items) if self.form == "all" else rated
        # r̂ = o + x·t with o = b_0 + b_i
        offset, slope = self.rows.mean + items[:, :, -1], items[:, :, : self._size].copy()
        if self.biases:
            slope[:, :, -1] = 1.0
        k = float(self.weights[user])
        if self.form == "any":
            return self._log_gaussian(k, ratings - offset[:, rated], slope[:, rated])
        line = slope[:, tested, 0]
        if slope.shape[2] > 1:
            if len(tested) > 1:
                raise ConfigError(
                    f"params.dimensions = {self.dimensions} with {len(tested)} items to keep in "
                    "range has no closed-form density: use dimensions = 1 and biases = False, or "
                    "one item"
                )
            # x·t ~ N(0, s² ‖x‖²) is the one number that matters.
            line = np.sqrt((slope[:, tested] ** 2).sum(2))
        if self.form == "cut":
            return self._log_cut(k, ratings, offset[:, tested], line)
        position = np.searchsorted(tested, rated)
        return self._log_tested(k, ratings, offset[:, tested], line, position)

    def _log_gaussian(self, k: float, rest: Exact, slope: Exact) -> Exact:
        """Return `ln E e^{−k ‖y − X t‖²}`, y `(W, m)`, X `(W, m, D)`, t of any dimension."""
        # X t ~ N(0, s² X Xᵀ), so it is −½ ln det A − k yᵀ A⁻¹ y with A = I + 2k s² X Xᵀ.
        a = 2 * k * self.deviation**2 * np.einsum("wid,wjd->wij", slope, slope)
        inverse, log_determinant = inverses(a + np.eye(rest.shape[1]))
        return -log_determinant / 2 - k * np.einsum("wi,wij,wj->w", rest, inverse, rest)

    def _log_tested(
        self, k: float, ratings: Exact, offset: Exact, slope: Exact, rated: NDArray[np.intp]
    ) -> Exact:
        """Return `ln ∫_J N(t; 0, s²) e^{−k Σ(r − o − x t)²} dt`; on J all o + x t are in range."""
        if not slope.shape[1]:
            return np.zeros(len(slope))
        with np.errstate(divide="ignore", invalid="ignore"):
            ends = np.stack([(bound - offset) / slope for bound in self.bounds])
        x, rest = slope[:, rated], ratings - offset[:, rated]
        sums = (x**2).sum(1), (x * rest).sum(1), (rest**2).sum(1)
        return self._log_piece(k, *sums, ends.min(0).max(1), ends.max(0).min(1))

    def _log_cut(self, k: float, ratings: Exact, offset: Exact, slope: Exact) -> Exact:
        """Return `ln ∫ N(t; 0, s²) e^{−k Σ(r − cut(o + x t))²} dt`.

        The integral is a sum over the intervals between the points where an r̂ reaches a bound.
        """
        if not len(ratings):
            return np.zeros(len(slope))
        low, high = self.bounds
        with np.errstate(divide="ignore", invalid="ignore"):
            ends = np.stack([(bound - offset) / slope for bound in (low, high)], 2)
        breaks = np.sort(ends.reshape(len(slope), -1), 1)
        total = np.full(len(slope), -np.inf)
        edge = np.full((len(slope), 1), np.inf)
        for left, right in pairwise(np.concatenate((-edge, breaks, edge), 1).T):
            middle = _between(left, right)
            shown = offset + slope * middle[:, None]
            inside = (shown > low) & (shown < high)
            x = np.where(inside, slope, 0.0)
            rest = ratings - np.where(inside, offset, np.clip(shown, low, high))
            sums = (x**2).sum(1), (x * rest).sum(1), (rest**2).sum(1)
            total = np.logaddexp(total, self._log_piece(k, *sums, left, right))
        return total

    def _log_piece(
        self, k: float, squares: Exact, products: Exact, rest: Exact, left: Exact, right: Exact
    ) -> Exact:
        """Return `ln ∫_left^right N(t; 0, s²) e^{−k (rest − 2 t products + t² squares)} dt`."""
        # N(t; m, 1/2P) with P = 1/2s² + k Σx², m = k Σxr / P
        precision = 1 / (2 * self.deviation**2) + k * squares
        centre = k * products / precision
        outer = k * products * centre - k * rest - np.log(2 * self.deviation**2 * precision) / 2
        root = np.sqrt(2 * precision)
        return outer + _log_normal((left - centre) * root, (right - centre) * root)


def _between(left: Exact, right: Exact) -> Exact:
    """Return a point inside each interval, whose ends may be infinite."""
    low = np.where(np.isinf(left), np.where(np.isinf(right), 0.0, right - 1), left)
    high = np.where(np.isinf(right), low + 2, right)
    return (low + high) / 2


def _log_normal(left: Exact, right: Exact) -> Exact:
    """Return `ln (Φ(right) − Φ(left))`, −∞ for an empty interval."""
    from scipy.special import log_ndtr

    # Mirror intervals of positive midpoint into the lower tail, where ln Φ is accurate.
    flip = left + right > 0
    a, b = np.where(flip, -right, left), np.where(flip, -left, right)
    low, high = log_ndtr(a), log_ndtr(b)
    empty = (a >= b) | np.isneginf(high)
    with np.errstate(all="ignore"):
        logs = high + np.log1p(-np.exp(low - high))
    return np.where(empty, -math.inf, logs)
