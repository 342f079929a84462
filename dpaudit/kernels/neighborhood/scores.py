"""Item-item similarities as a dense matrix, and ratings predicted from one.

The predictions accept any similarity matrix, including a learned one with negative entries.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dpaudit.kernels.jit import exact_kernel, inline

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
