"""Matrix factorisation with biases: one large model, sixteen coordinates at a time.

Factors are flat float32 arrays `(users or items, size)`, `size` a multiple of 16; biases are
separate arrays. Each row makes the same update as in `sixteen_models`.

Rows are visited in the given order, which decides the speed: a user's factors stay in the L1 cache
while the user's rows are consecutive, an item's in the L2 cache while its rows are close together.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpaudit.kernels.exact_noise import laplace_row
from dpaudit.kernels.factorization.sixteen_models import Descent, Langevin, Pending, Visits
from dpaudit.kernels.jit import exact_kernel
from dpaudit.kernels.lanes import LANES, dot, every, fma, load, store, total
from dpaudit.kernels.noise import TILE, normal_row

F32 = np.float32

Flat = NDArray[np.float32]
Words = NDArray[np.uint32]


class Model(NamedTuple):
    """One model in training, changed in place.

    Attributes:
        left: the users' factors `(N, size)`, flat.
        right: the items'.
        user_bias: the users' biases `(N,)`.
        item_bias: the items'.
        size: `d`, a multiple of 16.
        mean: `b_0`.
    """

    left: Flat
    right: Flat
    user_bias: Flat
    item_bias: Flat
    size: int
    mean: np.float32


@exact_kernel
def descend(
    visits: Visits, model: Model, descent: Descent, step: int, trial: int, key: Words
) -> None:
    """One epoch of stochastic gradient descent whose errors are noised, then clamped.

        e = r − r̂ + Lap(scale), rounded to a grid, clamped to ±bound
        u ← (1 − η λ) u + η e v,    v ← (1 − η λ) v + η e u       (both from the old values)

    and the same for the biases (Berlioz et al. 2015, doi:10.1145/2792838.2800173).

    Args:
        visits: the rows.
        model: the model.
        descent: the steps.
        step: the noise source's step, one per epoch.
        trial: the trial; its noise coordinate k is the noise of row k.
        key: the noise source's key.
    """
    users, items, values = visits
    left, right, user_bias, item_bias, size, mean = model
    rate, decay, scale, grid, bound = descent
    shrink = F32(F32(1) - rate * decay)
    keep, vectors = every(shrink), size // LANES
    noise = np.empty(TILE, np.float64)
    words = np.empty((2, TILE), np.uint32)
    product, ready = F32(0), False
    for first in range(0, len(users), TILE):
        last = min(first + TILE, len(users))
        if scale > 0:
            laplace_row(noise[: last - first], words, first, step, trial, key)
        for k in range(first, last):
            n, i = users[k], items[k]
            u, v = n * size, i * size
            if not ready:
                product = total(dot(left, u, right, v, vectors))
            e = F32(values[k] - mean - user_bias[n] - item_bias[i] - product)
            if scale > 0:
                e = F32(F32(e + F32(scale * noise[k - first])) * F32(1 / grid))
                e = F32(F32(np.rint(e)) * F32(grid))
            # A NaN stays one.
            e = bound if e > bound else (-bound if e < -bound else e)
            g = F32(rate * e)
            user_bias[n] = F32(user_bias[n] * shrink + g)
            item_bias[i] = F32(item_bias[i] * shrink + g)
            gain = every(g)
            ready = k + 1 < len(users) and users[k + 1] == n and items[k + 1] != i
            if ready:
                # Compute the product of the user's next row in the same loop, in `dot`'s order.
                following = items[k + 1] * size
                even = odd = every(F32(0))
                for f in range(0, size, LANES):
                    x, y = load(left, u + f), load(right, v + f)
                    moved = fma(gain, y, x * keep)
                    store(left, u + f, moved)
                    store(right, v + f, fma(gain, x, y * keep))
                    even, odd = odd, fma(moved, load(right, following + f), even)
                product = total(even + odd)
            else:
                for f in range(0, size, LANES):
                    x, y = load(left, u + f), load(right, v + f)
                    store(left, u + f, fma(gain, y, x * keep))
                    store(right, v + f, fma(gain, x, y * keep))


@exact_kernel
def sample(
    visits: Visits,
    model: Model,
    langevin: Langevin,
    pending: Pending,
    step: int,
    trial: int,
    key: Words,
    biases: bool = True,
) -> None:
    """One epoch of stochastic gradient Langevin dynamics, with one rating per step.

    The noise of the steps since a coordinate was last read is drawn at once, with the summed
    variance, when it is next read (Liu, Wang, Smola 2015, section 3).

        e = r − r̂, 0 where r̂ lies outside the bounds
        u ← (1 − drift_u) u + gain_u e v,    v ← (1 − drift_i) v + gain_u e u

    Args:
        visits: the rows; `R · noise_of_row(size)` is below 2^47.
        model: the model.
        langevin: the steps of this epoch.
        pending: the noise that is still to be added.
        step: the noise source's step, one per epoch.
        trial: the trial.
        key: the noise source's key.
        biases: whether biases are trained; if not, they must be 0 and stay so.
    """
    users, items, values = visits
    left, right, user_bias, item_bias, size, mean = model
    gains, user_drift, item_drift, bounds, variance = langevin
    user_pending, item_pending = pending
    vectors, room = size // LANES, noise_of_row(size)
    # Noise z … held − 1 is drawn but not yet used; row k uses the coordinates from k · room on.
    noise = np.empty(room + 2 * TILE, np.float32)
    words = np.empty(TILE, np.uint32)
    low, high = bounds
    drawn = z = held = 0
    for k in range(len(users)):
        if held - z < room:
            for c in range(z, held):
                noise[c - z] = noise[c]
            z, held = 0, held - z
            while held + TILE <= len(noise):
                normal_row(noise[held : held + TILE], words, drawn, step, trial, key)
                drawn, held = drawn + TILE, held + TILE
        n, i = users[k], items[k]
        u, v = n * size, i * size
        # `pending` is −η k for a coordinate that was read at step k of this epoch.
        s = F32(math.sqrt(max(0.0, user_pending[n] + variance * k)))
        t_ = F32(math.sqrt(max(0.0, item_pending[i] + variance * k)))
        user_pending[n] = item_pending[i] = -variance * k
        a, b = user_bias[n], item_bias[i]
        if biases:
            a, b = F32(a + s * noise[z]), F32(b + t_ * noise[z + 1])
        z += LANES
        wide_s, wide_t = every(s), every(t_)
        for f in range(0, size, LANES):
            store(left, u + f, fma(wide_s, load(noise, z + f), load(left, u + f)))
            store(right, v + f, fma(wide_t, load(noise, z + size + f), load(right, v + f)))
        z += 2 * size
        shown = F32(mean + a + b + total(dot(left, u, right, v, vectors)))
        g = F32(0) if shown < low or shown > high else F32(gains[n] * F32(values[k] - shown))
        pull_u, pull_v = F32(-user_drift[n]), F32(-item_drift[i])
        if biases:
            user_bias[n], item_bias[i] = F32(a + (a * pull_u + g)), F32(b + (b * pull_v + g))
        gain, wide_u, wide_v = every(g), every(pull_u), every(pull_v)
        for f in range(0, size, LANES):
            x, y = load(left, u + f), load(right, v + f)
            store(left, u + f, x + fma(gain, y, x * wide_u))
            store(right, v + f, y + fma(gain, x, y * wide_v))
    for n in range(len(user_pending)):
        user_pending[n] += variance * len(users)
    for i in range(len(item_pending)):
        item_pending[i] += variance * len(users)


@exact_kernel
def noise_of_row(size: int) -> int:
    """Number of noise coordinates that `sample` uses per row: 16 for two biases, then factors."""
    return 2 * size + LANES
