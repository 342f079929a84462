"""Fits users to what they prefer to what, by Newton's method (Meng et al. 2018, equation (22)).

User i likes p items and not q others. With items' factors v and biases b she has the least loss

    L(u) = Σ_j mean_k ln(1 + e^−x_jk) + (λ/2) ‖u − ū‖²,    x_jk = u · (v_j − v_k) + b_j − b_k,

which is strictly convex.
"""

from __future__ import annotations

import numpy as np
from numba import types
from numpy.typing import NDArray

from dpaudit.kernels.jit import exact_kernel, inline
from dpaudit.kernels.noise import _reinterpret

F64, I64 = np.float64, np.int64

Numbers = NDArray[np.float64]
Starts = NDArray[np.int64]
Indices = NDArray[np.int32]

# Newton's method needs some ten steps; a step that is halved so often moves nothing.
_STEPS, _HALVINGS = 100, 50
# So many factors of at most 2 do not overflow.
_FACTORS = 1000

_power_of_two = _reinterpret(types.int64, types.float64)


@inline
def _exp(x: np.float64) -> np.float64:
    # e^x of −700 <= x <= 0: 2^n e^r, |r| <= ln 2 / 2, and Taylor's sum, which then errs by 1e-17.
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
def exponentials(x: Numbers, out: Numbers) -> None:
    """Fill `out` with `e^x` of each `−700 <= x <= 0`."""
    for i in range(len(x)):
        out[i] = _exp(x[i])


@exact_kernel
def _chances(
    upper: Numbers, lower: Numbers, psi: Numbers, bent: Numbers, product: Numbers
) -> float:
    """Σ ln(1 + e^−x) over `x = upper − lower` of each pair `(p, q)`.

    Set are `psi = 1/(1 + e^x)` and `bent = psi (1 − psi)`, `(p, q)`.
    """
    q, wrong = len(lower), 0.0
    product[:] = 1.0
    for j in range(len(upper)):
        score, power, chance = upper[j], bent[j], psi[j]
        # ln(1 + e^−x) = ln(1 + e^−|x|) + max(−x, 0), and ψ from the same power. Loops over two or
        # three arrays each vectorise.
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
def _evaluate(
    liked: Numbers, others: Numbers, biases: tuple[Numbers, Numbers], ridge: float,
    centre: Numbers, u: Numbers, room: tuple[Numbers, Numbers, Numbers], slope: Numbers,
    curvature: Numbers,
) -> float:  # fmt: skip
    """The loss; `slope` `(d,)` and `curvature` `(d, d)` are set to its derivatives.

    `liked` `(p, d)` and `others` `(q, d)` are factors; `room` is for two `(p, q)` and one `(q,)`.
    """
    p, q, d = len(liked), len(others), len(u)
    psi, bent, product = room
    upper, lower = np.dot(liked, u) + biases[0], np.dot(others, u) + biases[1]
    away = u - centre
    wrong = _chances(upper, lower, psi, bent, product)
    rows, columns = np.ones(p), np.ones(q)
    # −Σ ψ (v_j − v_k) and Σ ψ (1 − ψ) (v_j − v_k)(v_j − v_k)ᵀ over j and the mean of k.
    slope[:] = np.dot(np.dot(rows, psi), others) - np.dot(np.dot(psi, columns), liked)
    slope[:] = slope / q + ridge * away
    across = np.dot(liked.T, np.dot(bent, others))
    curvature[:] = np.dot(liked.T * np.dot(bent, columns), liked)
    curvature += np.dot(others.T * np.dot(rows, bent), others) - across - across.T
    curvature /= q
    for f in range(d):
        curvature[f, f] += ridge
    return wrong / q + ridge / 2 * np.dot(away, away)


@exact_kernel
def _descend(
    liked: Numbers, others: Numbers, biases: tuple[Numbers, Numbers], ridge: float,
    centre: Numbers, u: Numbers,
) -> bool:  # fmt: skip
    """Move `u` to the least loss; whether that was reached."""
    d = len(u)
    slope, moved_slope, moved = np.empty(d), np.empty(d), np.empty(d)
    curvature, moved_curvature = np.empty((d, d)), np.empty((d, d))
    shape = (len(liked), len(others))
    room = np.empty(shape), np.empty(shape), np.empty(len(others))
    loss = _evaluate(liked, others, biases, ridge, centre, u, room, slope, curvature)
    for _ in range(_STEPS):
        step = np.linalg.solve(curvature, slope)
        gain = np.dot(slope, step)
        # Half the gain is what is left to win, up to higher orders.
        if gain <= 1e-12 * (1 + loss):
            return True
        size = 1.0
        for halving in range(_HALVINGS + 1):
            if halving == _HALVINGS:
                return True  # as well as numbers can tell
            for f in range(d):
                moved[f] = u[f] - size * step[f]
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
    found: Numbers,
) -> int:
    """Fit some users to a model; one who likes nothing, or all, is as `centre`.

    Args:
        users: who `(n,)`.
        start: what user i likes is `items[start[i]:start[i + 1]]`, `(N + 1,)`.
        items: these items.
        others_start: what the r-th of `users` does not is `others[others_start[r]: … [r + 1]]`,
            `(n + 1,)`.
        others: these items.
        factors: of every item, its bias last `(M, d + 1)`.
        ridge: λ.
        centre: ū `(d,)`.
        found: where each starts; result `(n, d)`.

    Returns:
        How many did not converge.
    """
    failed = 0
    d = factors.shape[1] - 1
    # Products of matrices want each in one piece.
    own, bias = factors[:, :d].copy(), factors[:, d].copy()
    for r in range(len(users)):
        mine = items[start[users[r]] : start[users[r] + 1]]
        rest = others[others_start[r] : others_start[r + 1]]
        if len(mine) == 0 or len(rest) == 0:
            found[r] = centre
            continue
        biases = bias[mine], bias[rest]
        failed += not _descend(own[mine], own[rest], biases, ridge, centre, found[r])
    return failed
