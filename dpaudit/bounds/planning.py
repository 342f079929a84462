"""Plans of audits: which violations each method can find with a number of trials.

A plan assumes a mechanism whose true ε' exceeds the claim and whose log-likelihood ratio L the
attack knows. The laws of L are given by their tails P(L ≥ τ) on D' and Q(L ≥ τ) on D. Each method
uses its best event L ≥ τ.

**Power** is the probability that a method certifies an ε above the claim. A violation has a most
informative event, of probability p on D' and q on D. Each function of power takes p, q and the
number of trials on both data sets together, and returns the probability that the method's bound
exceeds the claim. Sums over more than 80 outcomes use 80 of them, with errors of some thousandths.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from dpaudit.bounds.divergence import coin_divergence
from dpaudit.bounds.frequentist.intervals import best_split, share_limit
from dpaudit.bounds.frequentist.labels import revealed_labels
from dpaudit.bounds.frequentist.one_run import one_run_p_value
from dpaudit.bounds.gdp import gaussian_mu
from dpaudit.bounds.outcomes import check_alpha, check_delta, check_size
from dpaudit.core.errors import InputError
from dpaudit.core.estimate import Kind

Floats = NDArray[np.float64]

# The effective share of the best event that the label test finds, from simulations.
_FOUND = 0.75
# The number of outcomes at which a sum is evaluated, and the step of a low-discrepancy shift.
_NODES, _GOLDEN = 80, (math.sqrt(5) - 1) / 2
# From simulations: betting starts late and misses this share of the trials;
LEARNING = 1 / 8
# its planned variances are as if this many more of the rarer outcomes had occurred;
UNSEEN = 16.0
# and sequential betting spends ½ ln(rounds) minus this much log wealth on learning.
_KNOWN = 1.7
# The smallest probability of an event that sequential betting uses.
_RAREST = 0.02
# The search range of ln(ε − claim), and its precision.
_LOW, _HIGH, _PRECISION = math.log(1e-4), math.log(700.0), 1e-3


def detectable_epsilon(
    claimed: float, trials: int, alpha: float, *, delta: float = 0.0, power: float = 0.95
) -> float:
    """Forecast the smallest true ε at which the label test certifies an ε above the claim.

    The forecast assumes a Laplace mechanism, whose most informative event has the probabilities ½
    and ½e^−ε on the two data sets; see `label_power`.

    Args:
        claimed: the ε of the claim, infinite for no claim.
        trials: the number of trials on both data sets together, assigned by a fair coin.
        alpha: the level of the bound.
        delta: the δ of the claim.
        power: the wanted probability, in (0, 1), if the assumptions hold.

    Returns:
        An ε above the claim; infinite if no ε suffices.

    Raises:
        InputError: an argument is out of range.
    """
    check_claim(claimed, delta)
    check_alpha(alpha)
    check_trials(trials)

    def power_at(epsilon: float) -> float:
        rates = 0.5, 0.5 * math.exp(-epsilon)
        return label_power(*rates, trials, claimed=claimed, delta=delta, alpha=alpha)

    return least_found(power_at, claimed, power)


def least_found(power_at: Callable[[float], float], claimed: float, power: float) -> float:
    """Return the smallest ε above the claim with `power_at(ε)` of at least `power`.

    `power_at` is a probability that grows with ε. The result is infinite if ε − claim would have to
    exceed 700. The smallest ε − claim considered is 1e-4.

    Raises:
        InputError: the power is not in (0, 1).
    """
    from scipy.optimize import brentq
    from scipy.special import ndtri

    if not 0 < power < 1:
        raise InputError(f"power = {power} is not in (0, 1): use e.g. 0.95")
    if math.isinf(claimed):
        return math.inf

    # The normal quantile of the probability is almost linear in the size of the violation.
    def margin(log_excess: float) -> float:
        chance = power_at(claimed + math.exp(log_excess))
        return float(ndtri(np.clip(chance, 1e-9, 1 - 1e-9)) - ndtri(power))

    high = 0.0
    while margin(high) < 0:
        if high == _HIGH:
            return math.inf
        high = min(high + 2.0, _HIGH)
    if margin(_LOW) >= 0:
        return claimed + math.exp(_LOW)
    root = float(brentq(margin, _LOW, high, xtol=_PRECISION, rtol=_PRECISION))
    return claimed + math.exp(root + 2 * _PRECISION)


def label_power(
    p: float, q: float, trials: int, *, claimed: float, delta: float, alpha: float
) -> float:
    """Return the probability that the label test (`frequentist.labels`) refutes the claim.

    The event and its mirror image at the other end of the scores contain s of the m trials outside
    the pilot. Binomial(s, p/(p + q)) of them are guessed right. Equation (1) of the label test
    refutes the claim if this exceeds a quantile of r + Binomial(s − r, e^ε/(1 + e^ε)).

    In simulations the test's own event is as good as s ~ Binomial(m, 0.75 (p + q)). The pilot of k
    trials chooses the wrong direction with probability (1 − Φ(√(k(p + q)) (p − q)/(p + q)))/2: that
    of a sign test, halved since D' at high scores is the default.
    """
    from scipy.special import expit, ndtr
    from scipy.stats import binom

    pilot = trials // 20
    m, share = trials - pilot, p / (p + q)
    revealed, spent = revealed_labels(m, delta, alpha)
    size, weight = _outcomes(m, _FOUND * min(1.0, p + q))
    rest = np.maximum(size - revealed, 0)
    critical = revealed + binom.isf(alpha - spent, rest, expit(claimed))
    refuted = float((weight * binom.sf(critical, size, share)).sum())
    return refuted * (1 + float(ndtr(math.sqrt(pilot * (p + q)) * (2 * share - 1)))) / 2


def counting_power(
    p: float, q: float, trials: int, *, claimed: float, delta: float, alpha: float
) -> float:
    """Return the probability that `clopper_pearson_epsilon` exceeds the claim.

    The event is known in advance, there are n trials on either data set, and the split of α is best
    at p and q. With limits P and Q on the two rates, the claim is refuted if
    Q < max((P − δ)/e^ε, 1 − δ − e^ε (1 − P)), i.e. if the false positives are below a quantile of
    the binomial law of n and this rate.
    """
    from scipy.stats import binom

    n = trials // 2
    split = best_split(p, q, n, n, delta=delta, alpha=alpha)
    tp, weight = _outcomes(n, p)
    lower = share_limit(tp, n, alpha * (1 - split))
    ceiling = np.maximum(
        (lower - delta) * math.exp(-claimed), 1 - delta - (1 - lower) * math.exp(min(claimed, 700))
    )
    # The smallest count whose distribution function exceeds the level does not refute the claim.
    fp = binom.ppf(alpha * split, n, np.clip(ceiling, 0, 1)) - 1
    return float((weight * np.where(ceiling > 0, binom.cdf(fp, n, q), 0.0)).sum())


def one_run_power(
    p: float, q: float, canaries: int, *, claimed: float, delta: float, alpha: float
) -> float:
    """Return the probability that `one_run_epsilon` exceeds the claim.

    The number of guesses is the expected number of canaries in the event and its mirror image at
    the other end of the scores. Each guess is right with probability p/(p + q), assuming that
    canaries do not affect each other.
    """
    from scipy.stats import binom

    guesses = min(canaries, max(1, round(canaries * (p + q))))

    def refutes(correct: int) -> bool:
        p_value = one_run_p_value(canaries, guesses, correct, epsilon=claimed, delta=delta)
        return p_value <= alpha

    # More right guesses refute more.
    missed = bisect_left(range(1, guesses + 1), True, key=refutes)
    return float(binom.sf(missed, guesses, p / (p + q)))


def two_sample_power(
    p: Floats, q: Floats, trials: int, *, claimed: float, delta: float, alpha: float
) -> float:
    """Approximate the probability that `two_sample_epsilon` exceeds the claim at the best event.

    It is that of a one-sided z-test of p − e^ε q ≤ δ on pairs, which the bets replicate, with the
    second moment p + e^2ε q of the planned stakes. q is increased by `UNSEEN` outcomes in this
    moment, since the method avoids events that are rare on D.
    """
    from scipy.special import ndtr, ndtri

    factor, pairs = math.exp(min(claimed, 300.0)), trials // 2
    variance = p + factor**2 * (q + UNSEEN / pairs)
    size = (p - factor * q - delta) / np.sqrt(variance)
    return float(ndtr(size.max() * math.sqrt(pairs * (1 - LEARNING)) + ndtri(alpha)))


def sequential_power(
    p: Floats, q: Floats, trials: int, *, claimed: float, delta: float, alpha: float
) -> float:
    """Approximate the probability that `EProcess` refutes the claim within trials/2 rounds.

    It is the first-passage probability of a normal random walk (`walk`) whose variance is twice its
    drift, which holds near the claim.
    """
    from scipy.special import log_ndtr, ndtr

    drift, distance = walk(p, q, trials, claimed=claimed, delta=delta, alpha=alpha)
    if drift <= 0:
        return 0.0
    sum_, root = drift * (trials // 2), math.sqrt(2 * drift * (trials // 2))
    reflected = math.exp(distance + float(log_ndtr(-(sum_ + distance) / root)))
    return float(ndtr((sum_ - distance) / root)) + reflected


def walk(
    p: Floats, q: Floats, trials: int, *, claimed: float, delta: float, alpha: float
) -> tuple[float, float]:
    """Return the log wealth that `EProcess` gains per round, and the log wealth it needs.

    The gain is that of the best event. A third of the stake must grow to 1/α, plus the cost of
    learning the event in trials/2 rounds.
    """
    common = (p + q) / 2 >= _RAREST
    drift = float(growth(p[common], q[common], claimed, delta).max(initial=0.0))
    return drift, math.log(3 / alpha) + max(0.0, math.log(trials // 2) / 2 - _KNOWN)


def growth(p: Floats, q: Floats, claimed: float, delta: float) -> Floats:
    """Return the log wealth per round that bets on each event can gain against the claim.

    It is the Kullback-Leibler divergence from (p, q) to the nearest pair of rates that is
    (ε, δ)-DP; see `dpaudit.bounds.frequentist.sequential`.
    """
    r = math.exp(-claimed)

    def to_edge(p: Floats, q: Floats) -> Floats:
        # Ternary search on the edge q₀ = r (p₀ − δ) up to the corner; the divergence is convex.
        def divergence(p0: Floats) -> Floats:
            return coin_divergence(p, p0) + coin_divergence(q, r * (p0 - delta))

        low, high = np.full_like(p, delta), np.full_like(p, (1 + delta * r) / (1 + r))
        for _ in range(80):
            first, second = low + (high - low) / 3, high - (high - low) / 3
            left = divergence(first) < divergence(second)
            low, high = np.where(left, low, first), np.where(left, second, high)
        return divergence((low + high) / 2)

    outside = (q < r * (p - delta)) | (1 - p < r * (1 - q - delta))
    return np.where(outside, np.minimum(to_edge(p, q), to_edge(1 - q, 1 - p)), 0.0)


def _outcomes(n: int, rate: float) -> tuple[Floats, Floats]:
    """Return likely counts of n trials and their weights."""
    from scipy.stats import binom

    reach = 6 * math.sqrt(n * rate * (1 - rate))
    low, high = max(0, int(n * rate - reach)), min(n, int(n * rate + reach) + 10)
    step = max(1.0, (high - low) / _NODES)
    nodes = np.arange((high - low) // step + 1)
    if step > 1:
        # Shift the nodes: equal steps may resonate with the steps of integer critical values.
        nodes += nodes * _GOLDEN % 1
    counts = np.minimum(low + np.floor(nodes * step), high)
    weight = binom.pmf(counts, n, rate)
    return counts, weight / weight.sum()


def check_claim(claimed: float, delta: float) -> None:
    """Refuse an ε that is negative or NaN, and a δ outside [0, 1)."""
    if not claimed >= 0:
        raise InputError(f"claimed = {claimed} is not at least 0: give the claim's epsilon")
    check_delta(delta)


def check_trials(trials: int) -> None:
    """Refuse a number of trials that is not whole, below 2 or above 10^9."""
    whole = isinstance(trials, int | np.integer) and not isinstance(trials, bool)
    if not whole or trials < 2:
        raise InputError(f"trials = {trials!r} is not a whole number of at least 2: use e.g. 1000")
    check_size("trials", trials)


Game = Literal["laplace", "gaussian", "randomized-response"]
Method = Literal[
    "clopper-pearson", "label test", "likelihood", "two-sample", "sequential", "one-run"
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
    claimed: float, *, delta: float = 0.0, confidence: float = 0.95, trials: int, game: Game
) -> PowerPlan:
    """Compute the smallest violations that each method finds; deterministic.

    Binomial sums give the power of clopper-pearson at a threshold known in advance, of the label
    test and of one run. Normal approximations give the others (see their functions and
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
    # The first two moments of v = (1 − e^{−x})_+ of the excess x of L over the claim, with
    # E f(v) = Σ (f(v_i) − f(v_{i−1})) P(L ≥ τ_i), as v grows with L from 0.
    value, middle = -np.expm1(-(points - claimed)), (above[1:] + above[:-1]) / 2
    first, second = (float((np.diff(value**k) * middle).sum()) for k in (1, 2))
    variance = second + UNSEEN / 2 / trials * (first / any_above) ** 2
    known = trials * (1 - LEARNING)
    # Φ((E − δ) √(n/v) + Φ⁻¹(α))
    return float(ndtr((first - delta) * math.sqrt(known / variance) + ndtri(alpha)))


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
