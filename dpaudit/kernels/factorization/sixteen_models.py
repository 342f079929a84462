"""Matrix factorisation with biases, sixteen models trained at once on the same rows.

Factors are flat float32 arrays `(users or items, d + 1, 16)`: row `d` of each is the bias, lane `w`
is the model of trial `w`. The prediction for user u and item i is `b_0 + b_u + b_i + u·v`.

Rows are visited in the given order, the same in every trial. The order is a public part of the
mechanism; it is not random.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpaudit.kernels.exact_noise import Reals, release
from dpaudit.kernels.factorization.subsets import Subsets, restore, save, subset_laplace
from dpaudit.kernels.jit import exact_kernel
from dpaudit.kernels.lane_noise import (
    LANE_TILE,
    Source,
    exact_laplace_lanes,
    exact_normal_lanes,
    normal_lanes,
)
from dpaudit.kernels.lanes import (
    LANES,
    add_product,
    dot,
    every,
    fma,
    greatest,
    least,
    load,
    nearest,
    root,
    select,
    store,
    where_within,
)

F32 = np.float32

Flat = NDArray[np.float32]
Rows = NDArray[np.int32]

# Coordinates of noise that the sampler draws at a time, unless one row needs more.
_NOISE = 4 * LANE_TILE


class Visits(NamedTuple):
    """Ratings in the order in which a training visits them.

    Attributes:
        users: the user of each row `(R,)`.
        items: its item.
        values: its rating.
    """

    users: Rows
    items: Rows
    values: Flat


class Models(NamedTuple):
    """Sixteen models in training, changed in place.

    Attributes:
        left: the users' factors and biases `(N, size + 1, 16)`, flat.
        right: the items'.
        size: `d`.
        mean: `b_0`.
    """

    left: Flat
    right: Flat
    size: int
    mean: np.float32


class Descent(NamedTuple):
    """What steps of gradient descent are, and their noise.

    Attributes:
        rate: η.
        decay: λ.
        scale: the scale of the Laplace noise of each row; 0 for none.
        grid: the step of the grid of noised errors, a power of two.
        bound: the largest error.
    """

    rate: np.float32
    decay: np.float32
    scale: float
    grid: float
    bound: np.float32


class Langevin(NamedTuple):
    """What steps of Langevin dynamics are, and their noise.

    Attributes:
        gains: the gain of each user's errors, step size included, `(N,)`.
        user_drift: the share by which a prior of precision 1 shrinks a user's factors at each of
            their rows, in single precision `(N,)`.
        item_drift: the same for items `(M,)`.
        bounds: the range of r̂ outside which the likelihood is flat.
        variance: the variance of the noise that every coordinate gets at every step.
    """

    gains: Flat
    user_drift: Flat
    item_drift: Flat
    bounds: tuple[np.float32, np.float32]
    variance: float


class Pending(NamedTuple):
    """The variance of the noise that is still to be added, changed in place.

    Attributes:
        users: that of each user's factors `(N,)`.
        items: that of each item's factors `(M,)`.
    """

    users: NDArray[np.float64]
    items: NDArray[np.float64]


@exact_kernel
def descend(
    visits: Visits,
    models: Models,
    descent: Descent,
    source: Source,
    observed: Rows,
    seen: Flat,
    subsets: Subsets | None = None,
) -> None:
    """One epoch of stochastic gradient descent whose errors are noised, then clamped.

        e = r − r̂ + Lap(scale), rounded to a grid, clamped to ±bound
        u ← (1 − η λ) u + η e v,    v ← (1 − η λ) v + η e u       (both from the old values)

    and the same for the biases (Berlioz et al. 2015, doi:10.1145/2792838.2800173).

    Args:
        visits: the rows.
        models: the models.
        descent: the steps.
        source: the noise source, at a step for each epoch.
        observed: rows whose errors are returned, increasing `(C,)`.
        seen: result: their errors before and after noise and clamping `(C, 2, 16)`, flat.
        subsets: the rows and the `b_0` of each model; all have all rows, and `mean`, if None.
    """
    users, items, values = visits
    left, right, size, mean = models
    rate, decay, scale, grid, bound = descent
    full = size + 1
    keep, gain = every(F32(F32(1) - rate * decay)), every(rate)
    low, high, coarse = every(F32(-bound)), every(bound), every(F32(grid))
    fine = every(F32(1 / grid) if scale > 0 else F32(0))
    noise = np.empty(LANE_TILE * LANES, np.float32)
    draws = np.empty(LANE_TILE * LANES, np.float64)
    words = np.empty((2, LANE_TILE * LANES), np.uint32)
    means, next_observed, next_partial, had = every(mean), 0, 0, np.zeros(LANES, np.int64)
    user_before, item_before = np.empty((2, full * LANES), np.float32)
    if subsets is not None:
        means = load(subsets.means, 0)
    for first in range(0, len(users), LANE_TILE):
        last = min(first + LANE_TILE, len(users))
        if scale > 0:
            if subsets is not None:
                subset_laplace(noise, had, first, last, next_partial, subsets, scale, source)
            else:
                exact_laplace_lanes(draws, words, first, source.step, source.trials, source.key)
                for i in range(len(noise)):
                    noise[i] = F32(scale * draws[i])
        for k in range(first, last):
            u, v = users[k] * full * LANES, items[k] * full * LANES
            partial = False
            if subsets is not None:
                partial = next_partial < len(subsets.rows) and subsets.rows[next_partial] == k
                if partial:
                    save(user_before, left, u)
                    save(item_before, right, v)
            a, b = load(left, u + size * LANES), load(right, v + size * LANES)
            product = dot(left, u, right, v, size)
            exact = every(values[k]) - means - a - b - product
            error = exact
            if scale > 0:
                error = nearest((error + load(noise, (k - first) * LANES)) * fine) * coarse
            error = greatest(least(error, high), low)
            if next_observed < len(observed) and observed[next_observed] == k:
                store(seen, 2 * LANES * next_observed, exact)
                store(seen, 2 * LANES * next_observed + LANES, error)
                next_observed += 1
            g = gain * error
            store(left, u + size * LANES, fma(a, keep, g))
            store(right, v + size * LANES, fma(b, keep, g))
            for f in range(0, size * LANES, LANES):
                x, y = load(left, u + f), load(right, v + f)
                store(left, u + f, fma(g, y, x * keep))
                store(right, v + f, fma(g, x, y * keep))
            if subsets is not None and partial:
                restore(left, u, user_before, subsets.included, next_partial)
                restore(right, v, item_before, subsets.included, next_partial)
                next_partial += 1


@exact_kernel
def sum_clipped(
    start: NDArray[np.int64],
    visits: Visits,
    models: Models,
    rate: np.float32,
    decay: np.float32,
    clip: np.float32,
    taken: Flat,
    gradient: Flat | Reals,
    errors: Flat,
    subsets: Subsets | None = None,
) -> None:
    """Update every user's factors from the items', then sum the users' clipped gradients.

    First, on each user's own rows, with the items' factors fixed, so that a user's factors depend
    only on their ratings and on released factors,

        u ← (u + η e v/(1 + η (‖v‖² + 1)))/(1 + η λ)

    an implicit step (Bertsekas 2011, doi:10.1007/s10107-011-0472-0), which never overshoots: it
    does not move the factors of two users with the same rows apart. So, whatever η and v are, u
    grows by at most `½ √η |r|` at a row, r less b_0 and the item's bias, and stays finite.

    Then the gradient of `½ Σ_i e_i²` by the items' factors and biases has the entries
    `−e_i (u, 1)`; as one vector its norm is `√(Σ_i e_i²) · √(‖u‖² + 1)`, and it is clipped to the
    norm `clip`.

    Args:
        start: the rows of user u are `start[u] … start[u + 1]`, `(N + 1,)`.
        visits: the rows; a user must have no item twice, or the norm is wrong.
        models: the models, of which the users' side is changed.
        rate: η of a user's own factors.
        decay: λ of a user's own factors.
        clip: the largest norm of a user's gradient.
        taken: 1 where a user participates, else 0, `(N, 16)`, flat.
        gradient: result, shape of the items' side: the negative gradient is added to it. In double
            precision its sums are almost exact.
        errors: scratch, 16 for each row of the user with the most rows.
        subsets: the rows of each model; all have all rows if None. Their means are not read.
    """
    items, values = visits.items, visits.values
    left, right, size, mean = models
    full = size + 1
    bias, most, one = size * LANES, every(clip), every(F32(1))
    keep, gain = one / every(F32(F32(1) + rate * decay)), every(rate)
    gains = np.empty(len(right) // full, np.float32)
    for i in range(0, len(gains), LANES):
        length = dot(right, i * full, right, i * full, size) + one
        store(gains, i, gain * keep / (one + gain * length))
    before, next_partial, partial = np.empty(full * LANES, np.float32), 0, False
    for n in range(len(start) - 1):
        u, first, last = n * full * LANES, start[n], start[n + 1]
        place = next_partial
        for k in range(first, last):
            v = items[k] * full * LANES
            if subsets is not None:
                partial = place < len(subsets.rows) and subsets.rows[place] == k
                if partial:
                    save(before, left, u)
            a = load(left, u + bias)
            product = dot(left, u, right, v, size)
            error = every(F32(values[k] - mean)) - a - load(right, v + bias) - product
            g = load(gains, items[k] * LANES) * error
            store(left, u + bias, fma(a, keep, g))
            for f in range(0, bias, LANES):
                store(left, u + f, fma(g, load(right, v + f), load(left, u + f) * keep))
            if subsets is not None and partial:
                restore(left, u, before, subsets.included, place)
                place += 1
        a, square = load(left, u + bias), every(F32(0))
        for k in range(first, last):
            v = items[k] * full * LANES
            product = dot(left, u, right, v, size)
            error = every(F32(values[k] - mean)) - a - load(right, v + bias) - product
            if subsets is not None:
                partial = next_partial < len(subsets.rows) and subsets.rows[next_partial] == k
                if partial:
                    mask = load(subsets.included, next_partial * LANES)
                    error = select(mask, error, every(F32(0)))
                    next_partial += 1
            square = fma(error, error, square)
            store(errors, (k - first) * LANES, error)
        square_norm = dot(left, u, left, u, size) + one
        part = load(taken, n * LANES) * most / greatest(root(square * square_norm), most)
        for k in range(first, last):
            v = items[k] * full * LANES
            g = part * load(errors, (k - first) * LANES)
            add_product(gradient, v + bias, g, one)
            for f in range(0, bias, LANES):
                add_product(gradient, v + f, g, load(left, u + f))


@exact_kernel
def take_step(
    right: Flat,
    gradient: Reals,
    rate: np.float32,
    decay: np.float32,
    deviation: float,
    grid: float,
    source: Source,
) -> None:
    """`v ← (1 − η λ) v + η (gradient + deviation · N(0, 1))` in place, every coordinate noised.

    The noised gradient is what a round releases, so it is rounded; the rest is post-processing.

    Args:
        right: the items' factors, flat, 16 trials per coordinate.
        gradient: from `sum_clipped`.
        rate: η.
        decay: λ.
        deviation: the standard deviation of the noise; 0 for none.
        grid: the step of the grid of noised gradients; 0 without noise.
        source: the noise source, at a step for each round.
    """
    step, trials, key = source
    keep, gain = every(F32(F32(1) - rate * decay)), every(rate)
    shown = np.empty(LANE_TILE * LANES, np.float32)
    noise = np.empty(LANE_TILE * LANES, np.float64)
    words = np.empty((2, LANE_TILE * LANES), np.uint32)
    for start in range(0, len(right), LANE_TILE * LANES):
        count = min(LANE_TILE * LANES, len(right) - start)
        part = gradient[start : start + count]
        if deviation > 0:
            exact_normal_lanes(noise, words, start // LANES, step, trials, key)
        release(shown, part, noise, deviation, grid)
        for p in range(0, count, LANES):
            store(right, start + p, fma(gain, load(shown, p), load(right, start + p) * keep))


@exact_kernel
def sample(
    visits: Visits,
    models: Models,
    langevin: Langevin,
    pending: Pending,
    source: Source,
    biases: bool = True,
    precisions: tuple[Flat, Flat] | None = None,
) -> None:
    """One epoch of stochastic gradient Langevin dynamics, with one rating per step.

    Every coordinate gets noise of the same variance at every step. The noise of
    the steps since a coordinate was last read is drawn at once, with the summed variance, when it
    is next read; the distribution is the same (Liu, Wang, Smola 2015, section 3).

        e = r − r̂, 0 where r̂ lies outside the bounds
        u ← (1 − drift_u) u + gain_u e v,    v ← (1 − drift_i) v + gain_u e u

    A drift is that of its row, times the coordinate's precision if given, at most 1.

    Args:
        visits: the rows; an epoch has 2^47 noise coordinates, and a row uses at most
            `4 (size + 1)` of them.
        models: the models.
        langevin: the steps of this epoch; a drift of each lane, `(N, 16)` and `(M, 16)`, flat.
        pending: the noise that is still to be added.
        source: the noise source, at a step for each epoch.
        biases: whether biases are trained; if not, they must be 0 and stay so.
        precisions: prior precision of each coordinate of users and of items `(size + 1, 16)`, flat,
            times which a drift is at most 1; None for 1.
    """
    users, items, values = visits
    left, right, size, mean = models
    gains, user_drift, item_drift, bounds, variance = langevin
    user_pending, item_pending = pending
    step, trials, key = source
    full, bias = size + 1, size * LANES
    moving = (size + biases) * LANES
    low, high, zero = every(bounds[0]), every(bounds[1]), every(F32(0))
    whole = every(F32(-1))
    room = max(_NOISE, (2 * full + LANE_TILE - 1) // LANE_TILE * LANE_TILE)
    noise = np.empty(room * LANES, np.float32)
    words = np.empty(LANE_TILE * LANES, np.uint32)
    drawn, left_over = 0, 0
    for k in range(len(users)):
        if left_over < 2 * full:
            for t in range(0, room, LANE_TILE):
                part = noise[t * LANES : (t + LANE_TILE) * LANES]
                normal_lanes(part, words, drawn, step, trials, key)
                drawn += LANE_TILE
            left_over = room
        n, i = users[k], items[k]
        u, v = n * full * LANES, i * full * LANES
        z = (room - left_over) * LANES
        left_over -= 2 * full
        # `pending` is −η k for a coordinate that was read at step k of this epoch.
        s = every(F32(np.sqrt(max(0.0, user_pending[n] + variance * k))))
        t = every(F32(np.sqrt(max(0.0, item_pending[i] + variance * k))))
        user_pending[n] = item_pending[i] = -variance * k
        for f in range(0, moving, LANES):
            store(left, u + f, fma(s, load(noise, z + f), load(left, u + f)))
            store(right, v + f, fma(t, load(noise, z + full * LANES + f), load(right, v + f)))
        a, b = load(left, u + bias), load(right, v + bias)
        shown = every(mean) + a + b + dot(left, u, right, v, size)
        error = where_within(every(values[k]) - shown, shown, low, high)
        g = every(gains[n]) * error
        # The drift at one row may be below 3e-8, where 1 − drift rounds to 1. So the whole change
        # is formed first: its error term dithers the rounding, which is then right on average.
        pull_u = zero - load(user_drift, n * LANES)
        pull_v = zero - load(item_drift, i * LANES)
        drift_u, drift_v = pull_u, pull_v
        if biases:
            if precisions is not None:
                drift_u = greatest(pull_u * load(precisions[0], bias), whole)
                drift_v = greatest(pull_v * load(precisions[1], bias), whole)
            store(left, u + bias, a + fma(a, drift_u, g))
            store(right, v + bias, b + fma(b, drift_v, g))
        for f in range(0, bias, LANES):
            if precisions is not None:
                drift_u = greatest(pull_u * load(precisions[0], f), whole)
                drift_v = greatest(pull_v * load(precisions[1], f), whole)
            x, y = load(left, u + f), load(right, v + f)
            store(left, u + f, x + fma(g, y, x * drift_u))
            store(right, v + f, y + fma(g, x, y * drift_v))
    for n in range(len(user_pending)):
        user_pending[n] += variance * len(users)
    for i in range(len(item_pending)):
        item_pending[i] += variance * len(users)


@exact_kernel
def settle(factors: Flat, size: int, pending: NDArray[np.float64], source: Source) -> None:
    """Add all noise that is still pending, as the release must contain it.

    Args:
        factors: `(n, size + 1, 16)`, flat; changed in place.
        size: `d`.
        pending: the noise variance still to be added to each of the n rows; set to 0.
        source: the noise source, at a step that is used nowhere else.
    """
    step, trials, key = source
    noise = np.empty(LANE_TILE * LANES, np.float32)
    words = np.empty(LANE_TILE * LANES, np.uint32)
    count = len(factors) // LANES
    for first in range(0, count, LANE_TILE):
        normal_lanes(noise, words, first, step, trials, key)
        for c in range(first, min(first + LANE_TILE, count)):
            s = every(F32(np.sqrt(max(0.0, pending[c // (size + 1)]))))
            place = c * LANES
            z = load(noise, place - first * LANES)
            store(factors, place, fma(s, z, load(factors, place)))
    pending[:] = 0
