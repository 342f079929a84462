"""The users' own fits to a released factorisation, which allow for its noise."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dpaudit.defenses.factors import FactorRows, Floats
from dpaudit.kernels.normal_equations import ridged, solved

# Public constants, as shares of the scale's width Δr: the standard deviation of each of the items'
# biases, the users' means and the tastes, and that of the residual of a rating.
_PART, _REST = 1 / 8, 1 / 4


def fitted(
    rows: FactorRows,
    items: Floats,
    decay: float | NDArray[np.float64],
    noise: float | NDArray[np.float64] = 0.0,
    biases: bool = True,
) -> tuple[Floats, Floats]:
    """Fit every user's own factors and constant, and the weight that they give the items' biases.

    A released coordinate is modelled as signal plus noise. The signal's variance `S_k` follows from
    the width Δr of the scale: s² = (Δr/8)² for the bias, and s/√d for each of d factors, which
    gives the taste `u·v` the variance s². The noise's variance of an item is not known. It is at
    most the prior's, and at most the observed mean square:

        ν_k = min(noise_k, mean_i v_ik²),    ρ_k = S_k / (S_k + ν_k).

    A share ρ_k of each released coordinate is expected to be signal. So with σ = Δr/4 user u
    assumes

        r_ui − b_0 = c + a b_i + Σ_k u_k v_ik + e,    e ~ N(0, σ²),
        c ~ N(0, max(σ²/λ, s²)),    a ~ N(ρ, ρ² (1 − ρ)²),    u_k ~ N(0, ρ_k² σ²/λ_k),

    where ρ is that of the biases, and the deviation of a allows for the unknown ν. The user fits
    the mean of (c, a, u) given their own ratings, a ridge regression. Without noise ρ = 1, and it
    is the ridge regression on `(v_i, 1)` with precision λ, and min(λ, 4) for c. If all is noise,
    only c remains, the user's mean, shrunk. The fit is computed from the release and the user's own
    ratings, so it costs no privacy.

    Args:
        rows: the ratings; a user's fit reads only their own.
        items: the released factors, then the biases, `(M, d + 1, L)`.
        decay: λ of each coordinate of the users' side `(d + 1, L)`, or one for all.
        noise: the variance of the released side's prior, for each coordinate `(d + 1, L)` or one
            for all; 0 without noise.
        biases: whether the model has biases; else c is 0.

    Returns:
        The factors u, then c, `(N, d + 1, L)`, and a `(N, L)`. Users without ratings get the prior
        means.
    """
    full, lanes = items.shape[1:]
    width = rows.scale.width
    part, rest = (_PART * width) ** 2, (_REST * width) ** 2
    ridge = np.broadcast_to(np.maximum(decay, 1e-6), (full, lanes))
    blurred = np.minimum(noise, np.square(items, dtype=np.float64).mean(0))
    signal = np.full((full, 1), part)
    signal[:-1] = math.sqrt(part / (full - 1))
    trust = signal / (signal + blurred)
    share = trust[-1]
    # Prior deviations of (u, c, a) over σ. With z = x times them, the mean over them is
    # zᵀ (z zᵀ + 1)⁻¹ y.
    scale = np.stack(
        [
            *(trust / np.sqrt(ridge))[:-1],
            np.sqrt(np.maximum(1 / ridge[-1], part / rest)),
            share * (1 - share) / math.sqrt(rest),
        ],
        axis=1,
    )
    factors = np.zeros((rows.n_users, full, lanes), np.float32)
    shares = np.empty((rows.n_users, lanes), np.float32)
    shares[:] = share
    for u in range(rows.n_users):
        rated = slice(rows.start[u], rows.start[u + 1])
        count = rated.stop - rated.start
        if not count:
            continue
        z = np.ones((lanes, count, full + 1))
        z[:, :, :-1] = np.moveaxis(items[rows.items[rated]], 2, 0)
        biased = z[:, :, full - 1].copy()
        z[:, :, full - 1], z[:, :, full] = float(biases), biased
        z *= scale[:, None]
        y = (rows.values[rated] - rows.mean - share[:, None] * biased)[:, :, None]
        if count <= full:
            solution = np.einsum("wif,wi->wf", z, solved(ridged(np.swapaxes(z, 1, 2)), y)[:, :, 0])
        else:
            solution = solved(ridged(z), np.einsum("wif,wik->wfk", z, y))[:, :, 0]
        solution *= scale
        factors[u], shares[u] = solution[:, :-1].T, share + solution[:, -1]
    return factors, shares
