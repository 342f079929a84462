"""Fit users' factors to their pairwise preferences (Meng et al. 2018, equation (22)).

User i likes p items j and does not like q items k. Given the items' factors v and biases b,
Newton's method minimises the strictly convex loss

    L(u) = Σ_j mean_k ln(1 + e^−x_jk) + (λ/2) ‖u − ū‖²,    x_jk = u · (v_j − v_k) + b_j − b_k.
"""

from __future__ import annotations

import numpy as np
from numba import types
from numpy.typing import NDArray

from dpaudit.kernels.jit import exact_kernel, inline
from dpaudit.kernels.noise import _reinterpret
from dpaudit.kernels.normal_equations import eliminate

F64, I64 = np.float64, np.int64

Numbers = NDArray[np.float64]
Starts = NDArray[np.int64]
Indices = NDArray[np.int32]

# Newton's method needs about ten steps; a step halved 50 times is below the rounding error.
_STEPS, _HALVINGS = 100, 50
# A product of 1000 factors of at most 2 does not overflow.
_FACTORS = 1000

_power_of_two = _reinterpret(types.int64, types.float64)


@inline
def _exp(x: np.float64) -> np.float64:
    # e^x for −700 <= x <= 0: 2^n e^r, |r| <= ln 2 / 2, e^r by a Taylor sum with an error of 1e-17.
    n = np.rint(x * 1.4426950408889634)
    r = (x - n * 6.93145751953125e-1) - n * 1.42860682030941723212e-6
    e = 1.6059043836821613e-10
    e = e * r + 2.08767569878681e-09
    e = e * r + 2.505210838544172e-08
    e = e * r + 2.755731922398589e-07
    e = e * r + 2.7557319223985893e-06
    e = e * r + 2.48015873015873e-05
    e = e * r + 1.984126984126984e-04
    e = e * r + 1.388888888888889e-03
    e = e * r + 8.333333333333333e-03
    e = e * r + 4.1666666666666664e-02
    e = e * r + 1.6666666666666666e-01
    e = e * r + 0.5
    e = e * r + 1.0
    e = e * r + 1.0
    return e * _power_of_two((I64(n) + I64(1023)) << I64(52))


@exact_kernel
def powers(x: Numbers, out: Numbers) -> None:
    """Fill `out` with `e^x` of each `−700 <= x <= 0`."""
    for i in range(len(x)):
        out[i] = _exp(x[i])


@exact_kernel
def _chances(
    upper: Numbers, lower: Numbers, psi: Numbers, bent: Numbers, product: Numbers
) -> float:
    """Return Σ ln(1 + e^−x) over the pairs `(p, q)`, `x = upper − lower`.

    Sets `psi = 1/(1 + e^x)` and `bent = psi (1 − psi)`, both `(p, q)`.
    """
    q, wrong = len(lower), 0.0
    product[:] = 1.0
    for j in range(len(upper)):
        score, power, chance = upper[j], bent[j], psi[j]
        # ln(1 + e^−x) = ln(1 + e^−|x|) + max(−x, 0), and ψ comes from the same power. The loops are
        # separate because only loops over two or three arrays vectorise.
        for k in range(q):
            power[k] = _exp(max(-abs(score - lower[k]), -700.0))
        for k in range(q):
            product[k] *= 1.0 + power[k]
        for k in range(q):
            chance[k] = (power[k] if score > lower[k] else 1.0) / (1.0 + power[k])
        for k in range(q):
            power[k] /= (1.0 + power[k]) * (1.0 + power[k])
        for k in range(q):
            wrong += max(lower[k] - score, 0.0)
        if (j + 1) % _FACTORS == 0 or j == len(upper) - 1:
            for k in range(q):
                wrong += np.log(product[k])
                product[k] = 1.0
    return wrong


@exact_kernel
def _add_scores(factors: Numbers, u: Numbers, scores: Numbers) -> None:
    for j in range(len(factors)):
        score = scores[j]
        for f in range(len(u)):
            score += factors[j, f] * u[f]
        scores[j] = score


@exact_kernel
def _turned(liked: Numbers, bent: Numbers, into: Numbers) -> None:
    """Set `into` `(d, q)` to `Σ_j v_j β_j`."""
    (p, d), q = liked.shape, bent.shape[1]
    into[:] = 0.0
    whole = p - p % 4
    # Four items at a time, so that the sums are read and written once for all four.
    for j in range(0, whole, 4):
        x, y, z, t = bent[j], bent[j + 1], bent[j + 2], bent[j + 3]
        for f in range(d):
            a, b, c, e = liked[j, f], liked[j + 1, f], liked[j + 2, f], liked[j + 3, f]
            row = into[f]
            for k in range(q):
                row[k] += (a * x[k] + b * y[k]) + (c * z[k] + e * t[k])
    for j in range(whole, p):
        x = bent[j]
        for f in range(d):
            a, row = liked[j, f], into[f]
            for k in range(q):
                row[k] += a * x[k]


@exact_kernel
def _dot(x: Numbers, y: Numbers, sums: Numbers) -> float:
    """Return `Σ x y`; `sums` is scratch for 64 partial sums, so that the loop vectorises."""
    whole = len(x) - len(x) % len(sums)
    sums[:] = 0.0
    for first in range(0, whole, len(sums)):
        left, right = x[first : first + len(sums)], y[first : first + len(sums)]
        for lane in range(len(sums)):
            sums[lane] += left[lane] * right[lane]
    for k in range(whole, len(x)):
        sums[k - whole] += x[k] * y[k]
    half = len(sums) // 2
    while half:
        for lane in range(half):
            sums[lane] += sums[lane + half]
        half //= 2
    return float(sums[0])


@exact_kernel
def _add_sides(
    liked: Numbers, others: Numbers, psi: Numbers, bent: Numbers, slope: Numbers,
    curvature: Numbers,
) -> None:  # fmt: skip
    """Add `−Σ ψ (v_j − v_k)` to `slope`, and add the curvature to its upper triangle.

    The curvature is `Σ β (v_j − v_k)(v_j − v_k)ᵀ`; `others` has shape `(d, q)`.
    """
    (p, d), q = liked.shape, others.shape[1]
    # `Σ_j ψ`, `Σ_j β` and `Σ_j β v_j` for each k; loops over k vectorise.
    wrong, bend, ones, across = np.zeros(q), np.zeros(q), np.ones(q), np.empty((d, q))
    sums = np.empty(64)
    for j in range(p):
        for k in range(q):
            wrong[k] += psi[j, k]
        for k in range(q):
            bend[k] += bent[j, k]
        left, right = _dot(psi[j], ones, sums), _dot(bent[j], ones, sums)
        for f in range(d):
            slope[f] -= left * liked[j, f]
            for g in range(f, d):
                curvature[f, g] += right * liked[j, f] * liked[j, g]
    _turned(liked, bent, across)
    for f in range(d):
        slope[f] += _dot(wrong, others[f], sums)
        for k in range(q):
            across[f, k] = 0.5 * bend[k] * others[f, k] - across[f, k]
    for f in range(d):
        for g in range(f, d):
            curvature[f, g] += _dot(across[f], others[g], sums)
            curvature[f, g] += _dot(across[g], others[f], sums)


@exact_kernel
def _evaluate(
    liked: Numbers, others: Numbers, biases: tuple[Numbers, Numbers], ridge: float,
    centre: Numbers, u: Numbers, room: tuple[Numbers, Numbers, Numbers], slope: Numbers,
    curvature: Numbers,
) -> float:  # fmt: skip
    """Return the loss; set its `slope` `(d,)` and the upper triangle of `curvature` `(d, d)`.

    `liked` `(p, d)` and `others` `(d, q)` are factors; `room` is scratch: two `(p, q)`, one `(q,)`.
    """
    d, q = others.shape
    psi, bent, product = room
    upper, lower = biases[0].copy(), biases[1].copy()
    _add_scores(liked, u, upper)
    for f in range(d):
        for k in range(q):
            lower[k] += others[f, k] * u[f]
    wrong = _chances(upper, lower, psi, bent, product)
    # −Σ ψ (v_j − v_k) and Σ ψ (1 − ψ) (v_j − v_k)(v_j − v_k)ᵀ, summed over j, averaged over k.
    slope[:], curvature[:] = 0.0, 0.0
    _add_sides(liked, others, psi, bent, slope, curvature)
    norm = 0.0
    for f in range(d):
        away = u[f] - centre[f]
        slope[f] = slope[f] / q + ridge * away
        norm += away * away
        for g in range(f, d):
            curvature[f, g] /= q
        curvature[f, f] += ridge
    return wrong / q + ridge / 2 * norm


@exact_kernel
def _descend(
    liked: Numbers, others: Numbers, biases: tuple[Numbers, Numbers], ridge: float,
    centre: Numbers, u: Numbers,
) -> bool:  # fmt: skip
    """Move `u` to the minimum of the loss; return whether it converged."""
    d = len(u)
    step = np.empty((d, 1))
    slope, moved_slope, moved = np.empty(d), np.empty(d), np.empty(d)
    curvature, moved_curvature = np.empty((d, d)), np.empty((d, d))
    shape = (len(liked), others.shape[1])
    room = np.empty(shape), np.empty(shape), np.empty(shape[1])
    loss = _evaluate(liked, others, biases, ridge, centre, u, room, slope, curvature)
    for _ in range(_STEPS):
        step[:, 0] = slope
        eliminate(curvature.reshape(1, d, d), step.reshape(1, d, 1))
        gain = 0.0
        for f in range(d):
            gain += slope[f] * step[f, 0]
        # To second order, the loss is above its minimum by half of `gain`.
        if gain <= 1e-12 * (1 + loss):
            return True
        size = 1.0
        for halving in range(_HALVINGS + 1):
            if halving == _HALVINGS:
                return True  # no further decrease beyond rounding
            for f in range(d):
                moved[f] = u[f] - size * step[f, 0]
            next_loss = _evaluate(
                liked, others, biases, ridge, centre, moved, room, moved_slope, moved_curvature
            )
            if next_loss <= loss - 0.25 * size * gain:
                break
            size /= 2
        u[:], slope[:], curvature[:] = moved, moved_slope, moved_curvature
        loss = next_loss
    return False


@exact_kernel
def fit(
    users: Indices,
    start: Starts,
    items: Indices,
    others_start: Starts,
    others: Indices,
    factors: Numbers,
    ridge: float,
    centre: Numbers,
    fitted: Numbers,
) -> int:
    """Fit the factors of users; a user who likes no item, or every item, gets `centre`.

    Args:
        users: the users to fit `(n,)`.
        start: user i likes `items[start[i]:start[i + 1]]`, `(N + 1,)`.
        items: the liked items.
        others_start: the r-th of `users` does not like
            `others[others_start[r]:others_start[r + 1]]`, `(n + 1,)`.
        others: the items not liked.
        factors: factors of every item, the bias in the last column `(M, d + 1)`.
        ridge: λ.
        centre: ū `(d,)`.
        fitted: initial values; overwritten with the result `(n, d)`.

    Returns:
        The number of users whose fit did not converge.
    """
    failed = 0
    d = factors.shape[1] - 1
    vectors, bias = factors[:, :d].copy(), factors[:, d].copy()
    for r in range(len(users)):
        liked = items[start[users[r]] : start[users[r] + 1]]
        rest = others[others_start[r] : others_start[r + 1]]
        if len(liked) == 0 or len(rest) == 0:
            fitted[r] = centre
            continue
        biases = bias[liked], bias[rest]
        failed += not _descend(
            vectors[liked], vectors[rest].T.copy(), biases, ridge, centre, fitted[r]
        )
    return failed
