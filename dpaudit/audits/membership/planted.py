"""Planted leaks of a known size: scores that show coins through noise, and what is found of them.

Every (ε, δ)-DP output is a post-processing of (ε, δ)-randomised response (Kairouz, Oh & Viswanath
2015, arXiv:1311.0776, Theorem 2.5), so randomised response is the easiest leak of its size to find,
and says nothing of the power on others. What is planted are the laws of the noise that mechanisms
have, each with exactly this ε at δ and no less:

- **Gaussian**, for δ > 0: μ·coin + N(0, 1), for the μ with

      Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ) = δ    (Balle & Wang 2018, arXiv:1805.06530, Theorem 8);

- **Laplace**: s·coin + Lap(1), for s = ε − 2 ln(1 − δ). Its log-likelihood ratio is ε at the middle
  of the two means moved by ε/2, where P(L ≥ ε) − e^ε Q(L ≥ ε) = 1 − e^{(ε − s)/2} is largest;

- **randomised response**, the trace of what was deleted: of all leaks that make as many guesses
  right it certifies least.

A planted leak stands in place of a model's answers: beside them it would be that of both.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from dpaudit.bounds.gdp import gaussian_mu
from dpaudit.bounds.planning import Game, trials_needed
from dpaudit.core.errors import InputError
from dpaudit.record.values import TRACE, Control, Noise

# How often each leak is planted, and how many of these runs may miss it: of a game that finds less
# than 78 % of them, 19 of 20 are found at most one time in twenty (Clopper & Pearson 1934).
SEEDS = 20
_MISSED = 1


def laws(delta: float) -> tuple[Noise, ...]:
    """Return the laws of noise of mechanisms with this δ."""
    return ("Gaussian", "Laplace") if delta > 0 else ("Laplace",)


def shown(
    noise: Noise,
    epsilon: float,
    delta: float,
    coins: NDArray[np.bool_],
    rng: np.random.Generator,
) -> NDArray[np.float64]:
    """Return coins as seen through noise, in their shape.

    Args:
        noise: the law.
        epsilon: the ε of each coin.
        delta: the δ of each coin; that of randomised response is 0.
        coins: the coins.
        rng: draws the noise.
    """
    if noise == "Gaussian":
        return gaussian_mu(epsilon, delta) * coins + rng.standard_normal(coins.shape)
    if noise == "Laplace":
        return (epsilon - 2 * math.log1p(-delta)) * coins + rng.laplace(size=coins.shape)
    return (coins ^ (rng.random(coins.shape) < 1 / (1 + math.exp(epsilon)))).astype(np.float64)


def control(
    certified: Callable[[Noise, int], float],
    noises: Sequence[Noise],
    epsilon: float,
    delta: float,
    limit: float,
    least: float,
) -> Control:
    """Return what a game finds of a planted leak, by the law of which it finds least.

    Args:
        certified: the lower bound on ε that the game certifies of a law, by the number of the run.
        noises: the laws; a later one is not tried where an earlier one is missed.
        epsilon: the ε of the leak.
        delta: its δ.
        limit: the ε that counts as found if more is certified.
        least: the least ε that anything is compared with, at most `limit`; runs end once more than
            one certifies no more.
    """
    controls: list[Control] = []
    for noise in noises:
        bounds: list[float] = []
        while len(bounds) < SEEDS and sum(bound <= least for bound in bounds) <= _MISSED:
            bounds.append(certified(noise, len(bounds)))
        dependable = sorted(bounds)[_MISSED]
        by = "randomised response" if noise == TRACE else f"{noise} noise"
        controls.append(
            Control(
                mutant=f"a leak of ε = {epsilon:.4g} planted by {by}",
                factor=epsilon / limit,
                epsilon=epsilon,
                certified=dependable,
                found=dependable > limit,
                noise=noise,
                delta=0.0 if noise == TRACE else delta,
                hits=sum(bound > limit for bound in bounds),
                runs=len(bounds),
            )
        )
        if dependable <= least:
            break
    return min(controls, key=lambda one: one.certified)


def coins_needed(
    limit: float, factor: float, noise: Noise, delta: float, alpha: float
) -> int | None:
    """Forecast how many coins find a leak of so many times a limit in 95 of 100 runs.

    Args:
        limit: the ε to exceed.
        factor: the leak's ε as a multiple of it.
        noise: the law of the leak's noise.
        delta: the δ of the bound and of the leak.
        alpha: the level of the bound.

    Returns:
        The number of coins; None if no number below 10⁹ suffices.
    """
    game: Game = "gaussian" if noise == "Gaussian" else "laplace"
    how = {"delta": delta, "confidence": 1 - alpha}
    try:
        return trials_needed(limit, factor, **how, game=game, method="one-run")
    except InputError:
        return None
