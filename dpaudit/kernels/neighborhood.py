"""Item-item similarities: learned rows, in sixteen trials at once, and computed dense matrices.

**Learned.** Row `i` predicts the ratings of item i alone, so it is trained alone: with
`x_j = r_uj − r̄_j` and sums over the items j ≠ i that u rated,

    r̂_ui − r̄_i = y = Σ s_j x_j / Σ |s_j|
    e = y − (r_ui − r̄_i),   ∂(½ e²)/∂s_j = e (x_j − sign(s_j) y) / Σ |s_j|

(Wang & Tang 2017, eqs (2), (5), including the derivative of |s_j|). Work is proportional to the
number of pairs of ratings by the same user, not to users times items. A row is a flat float32 array
`(M, 16)`; lane `w` is trial `w`.

**Computed.** `similarities` fills a matrix. `predict` accepts any matrix, including a learned one
with negative entries.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dpaudit.kernels.exact_noise import Reals, release
from dpaudit.kernels.jit import exact_kernel, inline
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


Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Floats = NDArray[np.float32]
Sums = NDArray[np.float64]
Rows = tuple[Longs, Ints, Floats]


@inline
def _pearson(sums: Sums, flat: float) -> float:
    n, a, b, aa, bb, ab = sums[0], sums[1], sums[2], sums[3], sums[4], sums[5]
    # Each is n² times a variance; where all ratings are equal, rounding leaves at most flat · n².
    spread_a, spread_b = n * aa - a * a, n * bb - b * b
    least = flat * n * n
    if spread_a <= least or spread_b <= least:
        return 0.0
    # (n Σab − Σa Σb) / sqrt((n Σa² − (Σa)²) (n Σb² − (Σb)²))
    value = (n * ab - a * b) / math.sqrt(spread_a * spread_b)
    return min(max(value, -1.0), 1.0)


@exact_kernel
def similarities(
    by_item: Rows, by_user: Rows, middle: float, centred: bool, flat: float, shrinkage: float
) -> Floats:
    """Similarities of all item pairs with a common rater, `(M, M)`, 0 elsewhere.

    With sums over the n users who rated both items, with ratings a and b,

        centred      (n Σab − Σa Σb) / sqrt((n Σa² − (Σa)²) (n Σb² − (Σb)²))     (Pearson)
        otherwise    Σab / sqrt(Σ' a² Σ' b²), Σ' over all raters of the item     (cosine)

    each times `n / (n + shrinkage)`. If one of the items has no variance, Pearson's is 0.

    Args:
        by_item: start `(M + 1,)`, user and rating `(R,)`, rows grouped by item.
        by_user: start `(N + 1,)`, item (increasing) and rating `(R,)`, rows grouped by user.
        middle: subtracted from all ratings to reduce rounding errors; does not change Pearson
            coefficients.
        centred: whether to compute Pearson's coefficient instead of the cosine.
        flat: variances up to this count as 0, since they may be rounding errors.
        shrinkage: the weight of a prior similarity of 0, as a number of co-raters.
    """
    item_start, item_user, item_value = by_item
    user_start, user_item, user_value = by_user
    n_items = len(item_start) - 1
    result = np.zeros((n_items, n_items), np.float32)
    sums = np.zeros((n_items, 6), np.float64)
    squares = np.zeros(n_items, np.float64)
    # Items are visited in increasing order, so a user's items below j are those before `seen`.
    seen = user_start[:-1].copy()
    for j in range(n_items):
        for t in range(item_start[j], item_start[j + 1]):
            i = item_user[t]
            a = np.float64(item_value[t]) - middle
            squares[j] += a * a
            for p in range(user_start[i], seen[i]):
                q = np.uint64(p)
                b = np.float64(user_value[q]) - middle
                k = np.uint32(user_item[q])
                sums[k, 0] += 1.0
                sums[k, 1] += a
                sums[k, 2] += b
                sums[k, 3] += a * a
                sums[k, 4] += b * b
                sums[k, 5] += a * b
            seen[i] += 1
        for other in range(j):
            n = sums[other, 0]
            if n > 0:
                if centred:
                    value = _pearson(sums[other], flat)
                else:
                    product = squares[j] * squares[other]
                    value = sums[other, 5] / math.sqrt(product) if product > 0 else 0.0
                result[j, other] = result[other, j] = np.float32(value * (n / (n + shrinkage)))
        sums[:j] = 0.0
    return result


@exact_kernel
def _keep_largest(weights: Floats, limit: int) -> None:
    """Set all but the `limit` largest |weights| to 0; among ties the first are kept."""
    sizes = np.abs(weights)
    least = np.partition(sizes, len(sizes) - limit)[len(sizes) - limit]
    ties = limit
    for p in range(len(weights)):
        # `not <=` counts a NaN as larger, so that it shows in the prediction.
        ties -= not sizes[p] <= least
    for p in range(len(weights)):
        if sizes[p] < least:
            weights[p] = 0
        elif sizes[p] == least:
            if ties <= 0:
                weights[p] = 0
            ties -= 1


@exact_kernel
def predict(
    users: Ints,
    items: Ints,
    by_user: Rows,
    similarity: Floats,
    means: Floats,
    centred: bool,
    neighbors: int,
    low: float,
    high: float,
) -> Floats:
    """Predicted ratings of (user, item) pairs, `(n,)`.

        centred      r̂_ui = r̄_i + Σ_{j ∈ N} s_ij (r_uj − r̄_j) / Σ_{j ∈ N} |s_ij|
        otherwise    r̂_ui = Σ_{j ∈ N} s_ij r_uj / Σ_{j ∈ N} |s_ij|

    N are the `neighbors` items j ≠ i with largest |s_ij| that u rated, ties broken by the lowest
    index. The prediction is `r̄_i` if the denominator is 0, and is clipped to [low, high] (Wang &
    Tang 2017, eq. (2)).

    Args:
        users: the users `(n,)`; grouping the pairs by user is faster.
        items: the items `(n,)`.
        by_user: start `(N + 1,)`, item and rating `(R,)`, rows grouped by user.
        similarity: `s_ij` in row i, `(M, M)`; need not be symmetric; its diagonal is not read.
        means: `r̄` of every item `(M,)`.
        centred: whether to use the first formula.
        neighbors: the maximal number of neighbours, at least 1.
        low: the lowest rating.
        high: the highest rating.
    """
    start, column, value = by_user
    most = 0
    for u in range(len(start) - 1):
        most = max(most, start[u + 1] - start[u])
    deviations, weights = np.empty(most, np.float64), np.empty(most, np.float32)
    result = np.empty(len(users), np.float32)
    last_user = -1
    for q in range(len(users)):
        u, i = users[q], items[q]
        first, count = start[u], start[u + 1] - start[u]
        if u != last_user:
            for p in range(count):
                middle = np.float64(means[column[first + p]]) if centred else 0.0
                deviations[p] = np.float64(value[first + p]) - middle
            last_user = u
        for p in range(count):
            j = np.uint32(column[first + p])
            weights[p] = similarity[i, j] if j != i else 0
        if count > neighbors:
            _keep_largest(weights[:count], neighbors)
        top, bottom = 0.0, 0.0
        for p in range(count):
            top += weights[p] * deviations[p]
            bottom += abs(weights[p])
        rating = float(means[i])
        if bottom != 0:
            rating = (rating if centred else 0.0) + top / bottom
        # Comparisons instead of min and max, so that a NaN is kept.
        rating = low if rating < low else rating
        result[q] = high if rating > high else rating
    return result
