"""Instances that contradict mathematical statements of Liu, Wang & Smola 2015.

Each check takes a seed and describes an instance on which its statement fails, or returns None.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.streams import generator
from dpaudit.defenses.training_checks import step_sizes

_INSTANCES = 30


def unflushed(seed: int) -> str | None:
    """The law stays the same if the noise that is due at the end is not drawn."""
    rng = generator((seed, 23))
    for _ in range(_INSTANCES):
        dense, lazy, due = _covariances(rng)
        bare = np.flatnonzero((lazy == 0).all(0))
        if len(bare):
            return (
                f"{len(due)} biases: one without ratings is released as initialised, but its "
                f"variance should be {dense[bare[0], bare[0]]:g}"
            )
    return None


def _covariances(
    rng: np.random.Generator,
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Propagate the covariances of the biases.

    Returns:
        the covariances after dense steps; those after lazy steps; and the variances of the noise
        that is still due to the latter.
    """
    users, items, steps = (int(rng.integers(*ends)) for ends in ((1, 4), (3, 6), (3, 30)))
    count, pull, gain = users + items, 0.2 * rng.random(), 0.5 * rng.random()
    sizes = step_sizes(0.1, 0.3, "text", steps)
    dense, lazy, due = np.zeros((count, count)), np.zeros((count, count)), np.zeros(count)
    for size in sizes:
        # The last item has no ratings.
        touched = [int(rng.integers(users)), users + int(rng.integers(items - 1))]
        lazy[touched, touched] += due[touched]
        due[touched] = 0
        # b ← b + η (gain e − pull b) for both, e = r − b_u − b_i
        step = np.eye(count)
        step[np.ix_(touched, touched)] -= size * (gain + pull * np.eye(2))
        dense = step @ dense @ step.T + size * np.eye(count)
        lazy = step @ lazy @ step.T
        due += size
    return dense, lazy, due


def personal_replaced(_: int) -> str | None:
    """A user with one rating and ε_u = ε/τ who is replaced by one with τ ratings loses at most ε_u.

    The law clips predictions; d = 1, no biases, κ = 0, b_0 = 3, all ratings 5. Flipping the sign of
    an unrated factor changes no density, so on D all sign patterns of v are equally likely; on D'
    the signs of u v_i are independent given u. The event: at least `least` of the τ factors agree
    in sign.
    """
    from scipy.stats import binom

    tau, epsilon, least = 100, 64.0, 65
    k = np.arange(tau + 1)
    far = np.maximum(k, tau - k) >= least
    absent = binom.pmf(k, tau, 0.5)
    present = sign_law(tau, epsilon, 100.0)
    loss = math.log(present[far].sum() / absent[far].sum())
    if loss <= epsilon / tau:
        return None
    return (
        f"τ = {tau}, ε = {epsilon:g}, ε_u = {epsilon / tau:g}: at least {least} of the signs agree "
        f"with probability {absent[far].sum():.3g} and {present[far].sum():.3g}, ε >= {loss:.3g}"
    )


def sign_law(tau: int, epsilon: float, deviation: float) -> NDArray[np.float64]:
    """Return the law of the number of positive factors `(τ + 1,)` for one user with τ ratings of 5.

    With `c(z) = min(z, 2)`, `z = |u v|`, the two signs of v have the weights
    `A_±(u) = E_v e^{−(ε/4B)(2 ∓ c)²}`, and k positive factors have `E_u ½ (A_+^k A_−^{τ−k} + …)`.
    """
    from scipy.stats import binom, norm

    k = np.arange(tau + 1)
    factor = epsilon / (4 * 16 * tau)
    # The midpoint rule over the quantiles of |u| and |v|.
    nodes = deviation * norm.isf((np.arange(1000) + 0.5) / 2000)
    weights = [
        np.array(
            [np.exp(-factor * (2 - sign * np.minimum(u * nodes, 2)) ** 2).mean() for u in nodes]
        )
        for sign in (1, -1)
    ]
    plus, minus = (np.log(weight)[:, None] for weight in weights)
    one = np.exp(k * plus + (tau - k) * minus).mean(0)
    law = binom.pmf(k, tau, 0.5) * (one + one[::-1]) / 2
    normalised: NDArray[np.float64] = law / law.sum()
    return normalised
