"""Federated matrix factorisation: users' submissions in a round, and their local gradients.

Factors are flat float32 arrays `(users or items, size)`, `size` a power of two of at least 16;
padding beyond the model's coordinates is zero and stays so. A candidate is a pair of a user and an
item for which they may submit; its row has the user's index, the item's index and the rating.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpaudit.kernels.exact_noise import Reals, normal_row
from dpaudit.kernels.jit import exact_kernel
from dpaudit.kernels.lanes import LANES, add_product, dot, every, fma, load, store, total
from dpaudit.kernels.noise import TILE

F32 = np.float32

Flat = NDArray[np.float32]
Rows = NDArray[np.int32]
Words = NDArray[np.uint32]


@exact_kernel
def submit(
    order: Rows,
    users: Rows,
    items: Rows,
    values: Flat,
    weights: Flat,
    left: Flat,
    right: Flat,
    fakes: Flat,
    size: int,
    sigma: float,
    grid: float,
    step: int,
    trial: int,
    key: Words,
    sums: Flat | Reals,
    shown: Flat,
) -> None:
    """Compute the noised submissions of one round, and their sums over users.

        x = F_j + w (g_ij − F_j) + N(0, σ² I),    g_ij = −(r_ij − u_i · v_j) u_i

    `x − F_j` is rounded to a grid if there is noise; F_j is public.

    Args:
        order: the candidates that submit `(n,)`; entry k uses noise coordinates `k · size …`.
        users: the user of each candidate `(P,)`.
        items: its item.
        values: the rating whose gradient is submitted.
        weights: `w`: 1 for a gradient, 0 for a fake, in between for a clipped gradient.
        left: the users' factors `(N, size)`, flat.
        right: the items'.
        fakes: `F`, `(M, size)`, flat.
        size: the length of a row of factors.
        sigma: σ; 0 for none.
        grid: the step of the grid; 0 without noise.
        step: the noise source's step, one per round.
        trial: the trial.
        key: the noise source's key.
        sums: `Σ x` of each item is added to this `(M, size)`, flat. In double precision it is
            almost exact.
        shown: result: every `x`, `(n, size)`, flat; if empty, nothing is written.
    """
    vectors, room = size // LANES, TILE // size
    noise = np.empty(TILE, np.float64)
    words = np.empty((2, TILE), np.uint32)
    hidden = np.empty(size, np.float32)
    keeps = len(shown) > 0
    for first in range(0, len(order), room):
        if sigma > 0:
            normal_row(noise, words, first * size, step, trial, key)
        for k in range(first, min(first + room, len(order))):
            p = order[k]
            u, v, z = users[p] * size, items[p] * size, (k - first) * size
            error = F32(total(dot(left, u, right, v, vectors)) - values[p])
            against, weight = every(error), every(weights[p])
            for f in range(0, size, LANES):
                fake = load(fakes, v + f)
                moved = fma(against, load(left, u + f), every(F32(0)) - fake)
                store(hidden, f, weight * moved)
            if sigma > 0:
                for f in range(size):
                    x_f = hidden[f] + sigma * noise[z + f]
                    hidden[f] = F32(np.rint(x_f / grid) * grid)
            for f in range(0, size, LANES):
                x = load(hidden, f) + load(fakes, v + f)
                add_product(sums, v + f, x, every(F32(1)))
                if keeps:
                    store(shown, k * size + f, x)


@exact_kernel
def submit_signs(
    order: Rows,
    users: Rows,
    items: Rows,
    values: Flat,
    weights: Flat,
    left: Flat,
    right: Flat,
    size: int,
    dimensions: int,
    level: float,
    draws: NDArray[np.float32],
    sums: Flat,
    shown: Flat,
) -> None:
    """Compute two-valued submissions (Shin et al. 2018 after Nguyên et al. 2016), and their sums.

    One coordinate f of d, drawn uniformly, is sent as ± level = d (e^ε + 1)/(e^ε − 1), with

        P(+) = ½ + x_f d / (2 level),    x the gradient with each coordinate clipped to [−1, 1]

    which is `(x_f (e^ε − 1) + e^ε + 1)/(2 (e^ε + 1))`; for a fake x is 0.

    Args:
        order: the candidates that submit `(n,)`.
        users: the user of each candidate `(P,)`.
        items: its item.
        values: the rating whose gradient is submitted.
        weights: 1 for a gradient, 0 for a fake.
        left: the users' factors `(N, size)`, flat.
        right: the items'.
        size: the length of a row of factors.
        dimensions: d.
        level: the magnitude of the submitted value.
        draws: uniform in (0, 1), for the coordinate and for the sign, `(2, n)`.
        sums: `Σ x` of each item is added to this `(M, size)`, flat.
        shown: result: every submission `(n, size)`, flat; if empty, nothing is written.
    """
    vectors = size // LANES
    for k in range(len(order)):
        p = order[k]
        u, v = users[p] * size, items[p] * size
        f = min(int(draws[0, k] * dimensions), dimensions - 1)
        error = F32(total(dot(left, u, right, v, vectors)) - values[p])
        x = weights[p] * min(max(F32(error * left[u + f]), F32(-1)), F32(1))
        sent = F32(level if draws[1, k] < 0.5 + x * dimensions / (2 * level) else -level)
        sums[v + f] += sent
        if len(shown) > 0:
            shown[k * size : (k + 1) * size] = 0
            shown[k * size + f] = sent


@exact_kernel
def gradients(
    order: Rows,
    users: Rows,
    items: Rows,
    values: Flat,
    left: Flat,
    right: Flat,
    size: int,
    out: Flat,
) -> None:
    """`g_ij = −(r_ij − u_i · v_j) u_i` of each candidate in `order`, `(n, size)`, flat."""
    vectors = size // LANES
    for k in range(len(order)):
        p = order[k]
        u, v = users[p] * size, items[p] * size
        against = every(F32(total(dot(left, u, right, v, vectors)) - values[p]))
        for f in range(0, size, LANES):
            store(out, k * size + f, against * load(left, u + f))


@exact_kernel
def deviations(
    order: Rows,
    users: Rows,
    items: Rows,
    values: Flat,
    weights: Flat,
    left: Flat,
    right: Flat,
    fakes: Flat,
    size: int,
    squares: NDArray[np.float64],
) -> None:
    """`Σ_j w² ‖g_ij − F_j‖²` of each user over the candidates in `order`, added to `(N,)`."""
    vectors = size // LANES
    for k in range(len(order)):
        p = order[k]
        if weights[p] == 0:
            continue
        u, v = users[p] * size, items[p] * size
        against = every(F32(total(dot(left, u, right, v, vectors)) - values[p]))
        square = every(F32(0))
        for f in range(0, size, LANES):
            moved = fma(against, load(left, u + f), every(F32(0)) - load(fakes, v + f))
            square = fma(moved, moved, square)
        squares[users[p]] += float(weights[p]) ** 2 * total(square)


@exact_kernel
def moments(
    order: Rows,
    users: Rows,
    items: Rows,
    values: Flat,
    left: Flat,
    right: Flat,
    size: int,
    sums: NDArray[np.float64],
    squares: NDArray[np.float64],
) -> None:
    """`Σ_i g_ij` `(M, size)`, flat, and `Σ_i ‖g_ij‖²` `(M,)` over the candidates in `order`."""
    vectors = size // LANES
    for k in range(len(order)):
        p = order[k]
        u, v = users[p] * size, items[p] * size
        error = F32(total(dot(left, u, right, v, vectors)) - values[p])
        for f in range(size):
            g = float(error * left[u + f])
            sums[v + f] += g
            squares[items[p]] += g * g


@exact_kernel
def learn(
    start: NDArray[np.int64],
    items: Rows,
    values: Flat,
    left: Flat,
    right: Flat,
    size: int,
    slopes: Flat,
) -> None:
    """Each user's local mean gradient `−mean_j (r_ij − u_i · v_j) v_j`.

    Args:
        start: the rows of user i are `start[i] … start[i + 1]`, `(N + 1,)`.
        items: the item of each row.
        values: its rating.
        left: the users' factors `(N, size)`, flat.
        right: the items'.
        size: the length of a row of factors.
        slopes: result `(N, size)`, flat; zeros for a user without rows.
    """
    vectors = size // LANES
    for i in range(len(start) - 1):
        u, count = i * size, start[i + 1] - start[i]
        for f in range(0, size, LANES):
            store(slopes, u + f, every(F32(0)))
        for k in range(start[i], start[i + 1]):
            v = items[k] * size
            error = F32(total(dot(left, u, right, v, vectors)) - values[k])
            share = every(F32(error / F32(count)))
            for f in range(0, size, LANES):
                store(slopes, u + f, fma(share, load(right, v + f), load(slopes, u + f)))


@exact_kernel
def choose(
    start: NDArray[np.int64],
    counts: NDArray[np.int64],
    draws: NDArray[np.float32],
    mixed: Rows,
    chosen: Rows,
) -> None:
    """Choose some of each user's candidates uniformly, without replacement.

    These are the first steps of a shuffle (Durstenfeld 1964, doi:10.1145/364520.364540); the choice
    is uniform for any initial order.

    Args:
        start: the candidates of user i are `start[i] … start[i + 1]`, `(N + 1,)`.
        counts: how many each user chooses `(N,)`, at most as many as they have.
        draws: uniform in (0, 1), `(Σ counts,)`.
        mixed: each user's candidates in some order `(P,)`; changed in place.
        chosen: result: the chosen candidates of all users `(Σ counts,)`.
    """
    place = 0
    for i in range(len(counts)):
        last = start[i + 1]
        for b in range(counts[i]):
            first = start[i] + b
            other = min(first + int(draws[place] * (last - first)), last - 1)
            mixed[first], mixed[other] = mixed[other], mixed[first]
            chosen[place] = mixed[first]
            place += 1
