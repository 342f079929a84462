"""What each user of a released factorisation fits to their own ratings, beside its noise."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dpaudit.defenses.factors import FactorRows, Floats
from dpaudit.kernels.normal_equations import ridged, solved

# Of a scale of width Δr: the standard deviation that items' biases, users' means and tastes have
# apart from each other, Δr/8, and that of what is left of a rating, Δr/4. Public constants.
_PART, _REST = 1 / 8, 1 / 4


def fitted(
    rows: FactorRows,
    items: Floats,
    decay: float | NDArray[np.float64],
    noise: float | NDArray[np.float64] = 0.0,
    biases: bool = True,
) -> tuple[Floats, Floats]:
    """Every user's own side, and what each counts the items' biases for.

    A released coordinate is taken for signal and noise. The signal's variance `S_k` is that of a
    scale of width Δr, s² = (Δr/8)² for the bias and s/√d for each of d factors, which makes s² for
    the taste `u·v`. The noise's is not known for an item; at most it is the prior's, and at most
    what is seen:

        ν_k = min(noise_k, mean_i v_ik²),    ρ_k = S_k / (S_k + ν_k).

    A share ρ_k of each released coordinate is expected to be signal. So with σ = Δr/4 user u takes

        r_ui − b_0 = c + a b_i + Σ_k u_k v_ik + e,    e ~ N(0, σ²),
        c ~ N(0, max(σ²/λ, s²)),    a ~ N(ρ, ρ² (1 − ρ)²),    u_k ~ N(0, ρ_k² σ²/λ_k),

    ρ being that of the biases and the deviation of a what an unknown ν leaves open, and fits the
    mean of (c, a, u) given their own ratings: a ridge regression. Without noise ρ = 1, and it is
    that on `(v_i, 1)` with precision λ, and min(λ, 4) for c; where noise is all, c alone is left,
    the user's mean, shrunk. It is computed from what is released and the user's own ratings, so
    it costs no privacy.

    Args:
        rows: the ratings; each user's own are read alone.
        items: the released factors, then the biases, `(M, d + 1, L)`.
        decay: λ of each coordinate of the users' side `(d + 1, L)`, or of all.
        noise: the variance of the released side's prior, of each coordinate `(d + 1, L)` or of all;
            0 of what has no noise.
        biases: whether there are any; else c is 0.

    Returns:
        The factors u, then c, `(N, d + 1, L)`, and a `(N, L)`. Who has no ratings has their priors'
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
    # Deviations of (u, c, a) over σ. With z = x times them, it is zᵀ (z zᵀ + 1)⁻¹ y.
    scale = np.stack(
        [
            *(trust / np.sqrt(ridge))[:-1],
            np.sqrt(np.maximum(1 / ridge[-1], part / rest)),
            share * (1 - share) / math.sqrt(rest),
        ],
        axis=1,
    )
    found = np.zeros((rows.n_users, full, lanes), np.float32)
    shares = np.empty((rows.n_users, lanes), np.float32)
    shares[:] = share
    for u in range(rows.n_users):
        mine = slice(rows.start[u], rows.start[u + 1])
        count = mine.stop - mine.start
        if not count:
            continue
        z = np.ones((lanes, count, full + 1))
        z[:, :, :-1] = np.moveaxis(items[rows.items[mine]], 2, 0)
        biased = z[:, :, full - 1].copy()
        z[:, :, full - 1], z[:, :, full] = float(biases), biased
        z *= scale[:, None]
        y = (rows.values[mine] - rows.mean - share[:, None] * biased)[:, :, None]
        if count <= full:
            own = np.einsum("wif,wi->wf", z, solved(ridged(np.swapaxes(z, 1, 2)), y)[:, :, 0])
        else:
            own = solved(ridged(z), np.einsum("wif,wik->wfk", z, y))[:, :, 0]
        own *= scale
        found[u], shares[u] = own[:, :-1].T, share + own[:, -1]
    return found, shares
