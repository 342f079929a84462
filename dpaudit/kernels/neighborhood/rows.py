"""Rows of an item-item similarity matrix learned from ratings, in sixteen trials at once.

Row `i` predicts the ratings of item i alone, so it is trained alone: with `x_j = r_uj − r̄_j` and
sums over the items j ≠ i that u rated,

    r̂_ui − r̄_i = y = Σ s_j x_j / Σ |s_j|
    e = y − (r_ui − r̄_i),   ∂(½ e²)/∂s_j = e (x_j − sign(s_j) y) / Σ |s_j|

(Wang & Tang 2017, eqs (2), (5), including the derivative of |s_j|). Work is proportional to the
number of pairs of ratings by the same user, not to users times items.

A row is a flat float32 array `(M, 16)`; lane `w` is trial `w`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpaudit.kernels.exact_noise import Reals, release
from dpaudit.kernels.jit import exact_kernel
from dpaudit.kernels.lane_noise import LANE_TILE, exact_laplace_lanes, normal_lanes
from dpaudit.kernels.lanes import (
    LANES,
    add_product,
    every,
    fma,
    greatest,
    least,
    load,
    magnitude,
    store,
    total,
    where_within,
    with_sign,
)

F32 = np.float32

Flat = NDArray[np.float32]
Words = NDArray[np.uint32]

# The lower bound of a denominator: if every weight is 0, so is the numerator.
_LEAST = F32(1e-30)
# Halvings of [0, largest] until two values are neighbours in single precision.
_HALVINGS = 40


@exact_kernel
def _select(
    kth: Flat,
    row: Flat,
    item: int,
    columns: NDArray[np.int32],
    first: int,
    last: int,
    neighbors: int,
) -> None:
    """Set `kth` `(16,)` to a threshold that keeps the `neighbors` largest |s_j| of each trial.

    There must be more than `neighbors` entries. Bisection: at least `neighbors` entries are >=
    `low`, fewer are >= `high`. It ends when the count is exact in every trial or, with ties, when
    the bounds are neighbours in single precision.
    """
    wanted, half, one = every(F32(neighbors)), every(F32(0.5)), every(F32(1))
    none, most = every(F32(0)), every(F32(np.inf))
    fewer, low, high = every(F32(neighbors - 0.5)), most, none
    for q in range(first, last):
        if columns[q] != item:
            size = magnitude(load(row, columns[q] * LANES))
            low, high = least(size, low), greatest(size, high)
    if total(high - low) == 0:  # all entries tie in every trial, as before the first step
        store(kth, 0, low)
        return
    # Make the upper bound strictly larger than every entry.
    high = high * every(F32(1.000001))
    for _ in range(_HALVINGS):
        middle = (low + high) * half
        count = none
        for q in range(first, last):
            if columns[q] != item:
                size = magnitude(load(row, columns[q] * LANES))
                count = count + where_within(one, size, middle, most)
        if total(magnitude(count - wanted)) == 0:
            low = middle
            break
        enough = where_within(one, count, fewer, most)
        low = fma(enough, middle - low, low)
        high = fma(enough, high - middle, middle)
    store(kth, 0, low)


@exact_kernel
def gradient(
    out: Flat | Reals,
    row: Flat,
    item: int,
    starts: NDArray[np.int64],
    stops: NDArray[np.int64],
    targets: Flat,
    columns: NDArray[np.int32],
    centred: Flat,
    taken: Flat,
    bound: np.float32,
    flat_from: np.float32,
    flat_to: np.float32,
    clips: Flat,
    neighbors: int,
    weights: Flat,
) -> None:
    """Sum the raters' weighted gradients of `½ e²` by the row, with clamped errors.

    Args:
        out: result `(M, 16)`, flat; in double precision its sums are almost exact.
        row: the similarities `(M, 16)`, flat; the item's own entry is not read.
        item: i.
        starts: where each rater's ratings begin in `columns`, `(n,)`.
        stops: where they end.
        targets: `r_ui − r̄_i` of each rater.
        columns: the items of all users' ratings `(R,)`.
        centred: `x` of all users' ratings.
        taken: how often a rater's rating is in the mini-batch, `(n, 16)`, flat; if empty, once.
        bound: the largest |e|.
        flat_from: the likelihood is flat, and the gradient 0, for y below this.
        flat_to: the same for y above this.
        clips: the largest L1 norm of each rater's gradient `(n,)`; if empty, no clipping.
        neighbors: N_k: only a rater's N_k items of largest |s_j| count, with all that tie with the
            last of them.
        weights: result: the smallest `Σ |s_j|` over the raters, `(16,)`.
    """
    nothing = every(F32(0))
    out[:] = 0
    smallest = every(F32(np.inf))
    high, low = every(bound), every(F32(-bound))
    bottom, top = every(flat_from), every(flat_to)
    kth = np.zeros(LANES, np.float32)
    for k in range(len(starts)):
        first, last = starts[k], stops[k]
        limited = last - first - 1 > neighbors
        if limited:
            _select(kth, row, item, columns, first, last, neighbors)
        least_size, most_size = load(kth, 0), every(F32(np.inf))
        top_sum, weight = nothing, nothing
        for q in range(first, last):
            if columns[q] != item:
                s = load(row, columns[q] * LANES)
                if limited:
                    s = where_within(s, magnitude(s), least_size, most_size)
                top_sum = fma(s, every(centred[q]), top_sum)
                weight = weight + magnitude(s)
        smallest = least(smallest, weight)
        inverse = every(F32(1)) / greatest(weight, every(_LEAST))
        y = top_sum * inverse
        e = where_within(y - every(targets[k]), y, bottom, top)
        scaled = greatest(least(e, high), low) * inverse
        if len(clips) > 0:
            norm = nothing
            for q in range(first, last):
                if columns[q] != item:
                    s = load(row, columns[q] * LANES)
                    d = every(centred[q]) - with_sign(y, s * y)
                    if limited:
                        d = where_within(d, magnitude(s), least_size, most_size)
                    norm = norm + magnitude(d)
            norm = norm * magnitude(scaled)
            most = every(clips[k])
            scaled = scaled * most / greatest(norm, most)
        if len(taken) > 0:
            scaled = scaled * load(taken, k * LANES)
        for q in range(first, last):
            if columns[q] != item:
                place = columns[q] * LANES
                s = load(row, place)
                d = every(centred[q]) - with_sign(y, s * y)
                if limited:
                    d = where_within(d, magnitude(s), least_size, most_size)
                add_product(out, place, scaled, d)
    store(weights, 0, smallest)


@exact_kernel
def langevin_step(
    row: Flat,
    slope: Flat,
    gain: np.float32,
    pull: np.float32,
    deviation: np.float32,
    first: int,
    number: int,
    trials: Words,
    key: Words,
) -> None:
    """`s ← s − pull · s − gain · slope + deviation · N(0, 1)` in place, every coordinate noised.

    The change is summed first, because `1 − pull` rounds to 1 for a small pull.

    Args:
        row: the similarities `(M, 16)`, flat.
        slope: from `gradient`.
        gain: the step size, including all factors of the gradient.
        pull: the fraction by which the prior shrinks the row.
        deviation: the standard deviation of the noise; 0 for none.
        first: the noise source's coordinate of the row's first entry, a multiple of LANE_TILE.
        number: the noise source's step.
        trials: from `trial_words`.
        key: the noise source's key.
    """
    pulled, stepped, scale = every(F32(-pull)), every(F32(-gain)), every(deviation)
    noise = np.zeros(LANE_TILE * LANES, np.float32)
    words = np.empty(LANE_TILE * LANES, np.uint32)
    for start in range(0, len(row), LANE_TILE * LANES):
        if deviation > 0:
            normal_lanes(noise, words, first + start // LANES, number, trials, key)
        for p in range(start, min(start + LANE_TILE * LANES, len(row)), LANES):
            s = load(row, p)
            moved = fma(stepped, load(slope, p), s * pulled)
            store(row, p, s + fma(scale, load(noise, p - start), moved))


@exact_kernel
def descend(
    row: Flat,
    slope: Flat | Reals,
    gain: np.float32,
    pull: np.float32,
    scale: float,
    grid: float,
    first: int,
    number: int,
    trials: Words,
    key: Words,
) -> None:
    """`s ← s − pull · s − gain · (slope + Lap(scale))` in place, the bracket rounded to a grid.

    The noised gradient is what a step releases, so it is rounded; the rest is post-processing.

    Args:
        row: the similarities `(M, 16)`, flat.
        slope: from `gradient`.
        gain: the step size, including all factors of the gradient.
        pull: the fraction by which the prior shrinks the row.
        scale: the scale of the noise on every coordinate; 0 for none.
        grid: the step of the grid; 0 for none.
        first: the noise source's coordinate of the row's first entry, a multiple of LANE_TILE.
        number: the noise source's step.
        trials: from `trial_words`.
        key: the noise source's key.
    """
    pulled, stepped = every(F32(-pull)), every(F32(-gain))
    shown = np.empty(LANE_TILE * LANES, np.float32)
    noise = np.zeros(LANE_TILE * LANES, np.float64)
    words = np.empty((2, LANE_TILE * LANES), np.uint32)
    for start in range(0, len(row), LANE_TILE * LANES):
        count = min(LANE_TILE * LANES, len(row) - start)
        part = slope[start : start + count]
        if scale > 0:
            exact_laplace_lanes(noise, words, first + start // LANES, number, trials, key)
        release(shown, part, noise, scale, grid)
        for p in range(0, count, LANES):
            s = load(row, start + p)
            store(row, start + p, s + fma(stepped, load(shown, p), s * pulled))


@exact_kernel
def scores(
    out: Flat,
    row: Flat,
    item: int,
    starts: NDArray[np.int64],
    stops: NDArray[np.int64],
    columns: NDArray[np.int32],
    centred: Flat,
    neighbors: int,
) -> None:
    """`y = r̂_ui − r̄_i` of n users, `(n, 16)`, flat; arguments as in `gradient`."""
    kth = np.zeros(LANES, np.float32)
    nothing = every(F32(0))
    for k in range(len(starts)):
        first, last = starts[k], stops[k]
        kth[:] = F32(0)
        if last - first > neighbors:
            _select(kth, row, item, columns, first, last, neighbors)
        least_size, most_size = load(kth, 0), every(F32(np.inf))
        top_sum, weight = nothing, nothing
        for q in range(first, last):
            if columns[q] != item:
                s = load(row, columns[q] * LANES)
                s = where_within(s, magnitude(s), least_size, most_size)
                top_sum = fma(s, every(centred[q]), top_sum)
                weight = weight + magnitude(s)
        store(out, k * LANES, top_sum / greatest(weight, every(_LEAST)))
