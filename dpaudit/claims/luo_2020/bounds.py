"""Gradient norms and the effect of one rating in Algorithm 2 of Luo et al. 2020.

Each check takes a seed and describes an instance on which its statement fails, or returns None. A
user minimises `½ Σ_j (r_j − u·v_j)² + ½ λ‖u‖²`, as in the printed cost function.
"""

from __future__ import annotations

import math

import numpy as np

from dpaudit.bounds.accounting import noise_multiplier
from dpaudit.bounds.gdp import gaussian_epsilon

_DECAY, _RATE = 0.1, 0.1
_DELTA = 1e-5
_LARGEST = 5.0


def every_bound_is_exceeded(seed: int) -> str | None:
    """For every bound G up to 10^4 some data have a longer gradient.

    One factor. A user gives n items, all with the public factor v, the rating r. The user's fit is
    `u = n v r/(n v² + λ)`, and at `v = √(λ/n)` it is `√(n/λ) r/2`, so that

        |g| = |r − u v| |u| = √(n/λ) r²/4,

    which the scale of the ratings does not bound.

    Returns:
        a description of a G that bounds all gradients, or None if there is none.
    """
    for bound in 10.0 ** np.arange(5):
        count = math.ceil(_DECAY * (4 * bound / _LARGEST**2) ** 2) + 1
        v = math.sqrt(_DECAY / count)
        u = count * v * _LARGEST / (count * v**2 + _DECAY)
        if abs(_LARGEST - u * v) * u <= bound:
            return f"G = {bound:g} bounds the gradients of a user with {count} ratings"
    return None


def any_constant(seed: int) -> str | None:
    """Some c₂, up to 100 times the least, makes one round (1, 1e-5)-private with Theorem 3's σ.

    A user's n other ratings, half of them 2 above and half 2 below their predictions, cancel out on
    items that share one small public factor: u stays 0 and the user submits 0. One more rating, of
    an item whose factor is 1, changes u by `a e` in a step of descent, and with it all n + 1
    submissions by up to the same length. Theorem 3's σ covers one of them.

    Returns:
        a description with the ε at the largest constant that was tried, or None if one suffices.
    """
    claimed, error = 1.0, 2.0
    worst = 0.0
    for constant in (1, 10, 100):
        count = 4 * constant**2
        v = np.concatenate([[1.0], np.full(count, 1e-6)])
        e = np.concatenate([[error], np.tile([error, -error], count // 2)])
        fits = [_RATE * float(e[rows] @ v[rows]) for rows in (slice(1, None), slice(None))]
        # An item that is not rated submits a fake, which is 0 in the first round.
        before = -(e - fits[0] * v) * fits[0] * (np.arange(count + 1) > 0)
        after = -(e - fits[1] * v) * fits[1]
        longest = float(np.maximum(abs(before), abs(after)).max())
        sigma = constant * longest * noise_multiplier(claimed, delta=_DELTA)
        worst = gaussian_epsilon(float(np.linalg.norm(after - before)) / sigma, _DELTA)
        if worst <= claimed:
            return None
    return (
        f"with σ 100 times the least that one gradient needs, a user with {count} other ratings "
        f"has ε = {worst:.2f} where 1 is claimed"
    )
