"""Plans of audits: which violations each method can find with a number of trials.

A plan assumes a mechanism whose true ε' exceeds the claim and whose log-likelihood ratio L the
attack knows. The laws of L are given by their tails P(L ≥ τ) on D' and Q(L ≥ τ) on D. Each method
uses its best event L ≥ τ.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from dpaudit.bounds.gdp import gaussian_mu
from dpaudit.bounds.outcomes import check_alpha
from dpaudit.bounds.power import (
    LEARNING,
    UNSEEN,
    check_claim,
    check_trials,
    counting_power,
    detectable_epsilon,
    label_power,
    least_found,
    one_run_power,
    sequential_power,
    two_sample_power,
    walk,
)
from dpaudit.core.errors import InputError
from dpaudit.core.estimate import Kind

Floats = NDArray[np.float64]
Game = Literal["laplace", "gaussian", "randomized-response"]
Method = Literal[
    "clopper-pearson",
    "label test",
    "likelihood",
    "two-sample",
    "sequential",
    "one-run",
]

# The number of candidate events, and of points at which laws are integrated.
_EVENTS, _POINTS = 16, 600
# From simulations: the effective share of the trials if scores have no atoms and the method has to
# find its event among them.
_SMOOTH = {"label test": 0.65, "two-sample": 0.4}


@dataclass(frozen=True)
class Reach:
    """The violations that one method can find.

    Attributes:
        method: the method.
        kind: what its bound assumes.
        at_80: the smallest true ε at which its bound exceeds the claim with 80 % power; infinite
            if there is none.
        at_95: the same with 95 % power.
        rounds: for the sequential method, the approximate mean number of rounds, each of one trial
            on D and one on D', until it finds the ε of `at_95`; None for other methods, or if
            that ε is infinite.
    """

    method: Method
    kind: Kind
    at_80: float
    at_95: float
    rounds: float | None = None

    @property
    def may_gate(self) -> bool:
        """Whether its bound holds for every law, so that a gate may use it."""
        return self.kind == "frequentist"


@dataclass(frozen=True)
class PowerPlan:
    """The violations that each method can find with a number of trials.

    Attributes:
        claimed: the ε of the claim.
        delta: the δ of the claim.
        confidence: the confidence of each bound.
        trials: the number of trials on both data sets together; for one run, of canaries.
        game: the assumed mechanism.
        reaches: one entry per method.
    """

    claimed: float
    delta: float
    confidence: float
    trials: int
    game: Game
    reaches: tuple[Reach, ...]

    @property
    def recommended(self) -> Method | None:
        """The method that may gate and finds the smallest ε with 95 % power; None if none does.

        Two methods are excluded: clopper-pearson, whose threshold and split of α must be known in
        advance, and one-run, whose trials are canaries of a single run that affect each other.
        """
        left_out = {"clopper-pearson", "one-run"}
        able = [r for r in self.reaches if r.may_gate and r.method not in left_out]
        best = min(able, key=lambda reach: (reach.at_95, reach.at_80))
        return best.method if math.isfinite(best.at_95) else None


def plan(
    claimed: float,
    *,
    delta: float = 0.0,
    confidence: float = 0.95,
    trials: int,
    game: Game,
) -> PowerPlan:
    """Compute the smallest violations that each method finds; deterministic.

    Binomial sums give the power of clopper-pearson at a threshold known in advance, of the label
    test and of one run. Normal approximations give the others (see `bounds.power` and
    `_likelihood`). The cost of finding the event is calibrated by simulations of the methods, whose
    power at `at_95` was 0.92 to 1.

    Args:
        claimed: the ε of the claim.
        delta: the δ of the claim.
        confidence: the confidence of each bound.
        trials: the number of trials, half of them on D and half on D'; all on D' for the likelihood
            form; canaries of one run for the one-run bound.
        game: the mechanism assumed at true ε': the Laplace mechanism with a shift of ε' at scale 1;
            N(0, 1) against N(μ, 1) with δ(ε') = δ > 0; or randomised response that is right with
            probability (e^ε' + δ)/(1 + e^ε').

    Raises:
        InputError: an argument is out of range, or the game is Gaussian at δ = 0, where its ε is
            infinite.
    """
    _check(claimed, delta, confidence, game)
    check_trials(trials)

    def reach(method: Method) -> Reach:
        @cache  # both searches start with the same ε
        def power_at(epsilon: float) -> float:
            return _power(method, epsilon, claimed, delta, 1 - confidence, trials, game)

        at_95 = least_found(power_at, claimed, 0.95)
        rounds = None
        if method == "sequential" and math.isfinite(at_95):
            p, q = _events(game, at_95, delta)
            drift, distance = walk(p, q, trials, claimed=claimed, delta=delta, alpha=1 - confidence)
            rounds = distance / drift
        kind: Kind = "assumes-law" if method == "likelihood" else "frequentist"
        return Reach(method, kind, least_found(power_at, claimed, 0.80), at_95, rounds)

    reaches = tuple(reach(method) for method in get_args(Method))
    return PowerPlan(claimed, delta, confidence, trials, game, reaches)


def found_from(
    claimed: float, trials: int, alpha: float, *, delta: float = 0.0, power: float = 0.95
) -> float:
    """Return the least ε of noise that the label test finds to exceed a claim with this power.

    The noise is Laplace's at δ = 0. At δ > 0 it is Laplace's or Gaussian, whichever is found later:
    randomised response, the easiest leak of its size, says nothing about either.

    Args:
        claimed: the ε of the claim.
        trials: the number of trials on both data sets together, assigned by a fair coin.
        alpha: the level of the bound.
        delta: the δ of the claim.
        power: the wanted probability, in (0, 1).

    Raises:
        InputError: an argument is out of range.
    """
    least = detectable_epsilon(claimed, trials, alpha, delta=delta, power=power)
    if delta == 0:
        return least

    def power_at(epsilon: float) -> float:
        return _power("label test", epsilon, claimed, delta, alpha, trials, "gaussian")

    return max(least, least_found(power_at, claimed, power))


def trials_needed(
    claimed: float,
    factor: float,
    *,
    delta: float = 0.0,
    confidence: float = 0.95,
    power: float = 0.95,
    game: Game,
    method: Method = "label test",
) -> int:
    """Return the number of trials at which a method finds a true ε of `factor` times the claim.

    The result is within 1 % of the smallest such number; trials count as in `plan`.

    Raises:
        InputError: the factor is not a finite number above 1, the claim is 0 or infinite, more
            than 10⁹ trials would be needed, or as `plan`.
    """
    _check(claimed, delta, confidence, game)
    if not 1 < factor < math.inf:
        raise InputError(f"factor = {factor} is not a finite number above 1: use e.g. 1.2")
    if not 0 < claimed < math.inf:
        raise InputError(f"claimed = {claimed} has no finite multiple: give a positive epsilon")
    if not 0 < power < 1:
        raise InputError(f"power = {power} is not in (0, 1): use e.g. 0.95")
    if method not in get_args(Method):
        raise InputError(
            f"method = {method!r} is unknown: use one of {', '.join(get_args(Method))}"
        )

    def enough(trials: int) -> bool:
        alpha = 1 - confidence
        return _power(method, factor * claimed, claimed, delta, alpha, trials, game) >= power

    low, high = 2, 4
    while not enough(high):
        low, high = high, 2 * high
        if high > 1e9:
            raise InputError(
                f"factor = {factor} is too fine: {method} needs more than 1e9 trials, so raise it"
            )
    while high - low > max(1, high // 200):
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _power(
    method: Method,
    epsilon: float,
    claimed: float,
    delta: float,
    alpha: float,
    trials: int,
    game: Game,
) -> float:
    """Return the probability that the method finds the true ε, at its best event."""
    if method == "likelihood":
        return _likelihood(game, epsilon, trials, claimed, delta, alpha)
    if game == "gaussian":
        trials = int(_SMOOTH.get(method, 1.0) * trials)
    trials = max(trials, 2)
    p, q = _events(game, epsilon, delta)
    claim = {"claimed": claimed, "delta": delta, "alpha": alpha}
    if method == "two-sample":
        return two_sample_power(p, q, trials, **claim)
    if method == "sequential":
        return sequential_power(p, q, trials, **claim)
    power = {"label test": label_power, "one-run": one_run_power}.get(method, counting_power)
    rates = zip(p.tolist(), q.tolist(), strict=True)
    return max(power(*r, trials, **claim) for r in rates)


def _law(game: Game, epsilon: float, delta: float) -> tuple[float, Callable[[Floats], Floats]]:
    """Return the largest relevant L, and the function τ → (P(L ≥ τ), Q(L ≥ τ)), shape (2, …)."""
    from scipy.special import ndtr

    if game == "laplace":
        return epsilon, lambda t: np.stack(
            (1 - np.exp((t - epsilon) / 2) / 2, np.exp(-t / 2 - epsilon / 2) / 2)
        )
    if game == "randomized-response":
        wrong = (1 - delta) / (1 + math.exp(min(epsilon, 700.0)))
        return math.log((1 - wrong) / wrong), lambda t: np.stack(
            (np.full_like(t, 1 - wrong), np.full_like(t, wrong))
        )
    mu = gaussian_mu(epsilon, delta)
    return mu * (mu / 2 + 6), lambda t: ndtr(np.stack((mu / 2 - t / mu, -mu / 2 - t / mu)))


def _events(game: Game, epsilon: float, delta: float) -> Floats:
    """Return probabilities of candidate events on D' and D, shape (2, events)."""
    top, tails = _law(game, epsilon, delta)
    return tails(np.linspace(0, top, 1 if game == "randomized-response" else _EVENTS))


def _likelihood(
    game: Game, epsilon: float, trials: int, claimed: float, delta: float, alpha: float
) -> float:
    """Return the power of `likelihood_epsilon`.

    At δ = 0 it is the probability that any L exceeds the claim. At δ > 0 it is the power of a
    one-sided z-test of E_P[(1 − e^{ε−L})_+] ≤ δ, which the bets replicate, on the trials that
    remain after the variance is known, with a variance increased for rare large values.
    """
    from scipy.special import ndtr, ndtri

    top, tails = _law(game, epsilon, delta)
    if top <= claimed:
        return 0.0
    points = np.linspace(claimed, top, _POINTS)
    above = tails(points)[0]
    any_above = float(above[0])
    if delta == 0:
        return -math.expm1(trials * math.log1p(-any_above))
    first, second = _excess_moments(points - claimed, above)
    variance = second + UNSEEN / 2 / trials * (first / any_above) ** 2
    known = trials * (1 - LEARNING)
    # Φ((E − δ) √(n/v) + Φ⁻¹(α))
    return float(ndtr((first - delta) * math.sqrt(known / variance) + ndtri(alpha)))


def _excess_moments(excess: Floats, above: Floats) -> tuple[float, float]:
    """Return the first two moments of v = (1 − e^{−x})_+ of the excess x of L over the claim.

    E f(v) = Σ (f(v_i) − f(v_{i−1})) P(L ≥ τ_i), as v grows with L from 0.

    Args:
        excess: the points, less the claim.
        above: P(L ≥ τ) at these.
    """
    value, middle = -np.expm1(-excess), (above[1:] + above[:-1]) / 2
    first, second = (float((np.diff(value**k) * middle).sum()) for k in (1, 2))
    return first, second


def _check(claimed: float, delta: float, confidence: float, game: Game) -> None:
    check_claim(claimed, delta)
    check_alpha(1 - confidence)
    if game not in get_args(Game):
        raise InputError(f"game = {game!r} is unknown: use one of {', '.join(get_args(Game))}")
    if game == "gaussian" and delta == 0:
        raise InputError(
            "delta = 0 gives an infinite epsilon for the gaussian game: use a positive delta, e.g. "
            "1e-5"
        )
