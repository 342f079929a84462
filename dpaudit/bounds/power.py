"""Power: the probability that a method certifies an ε above the claim.

A violation has a most informative event, of probability p on D' and q on D. Each function takes p,
q and the number of trials on both data sets together, and returns the probability that the method's
bound exceeds the claim. Sums over more than 80 outcomes use 80 of them, with errors of some
thousandths.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dpaudit.bounds.divergence import coin_divergence
from dpaudit.bounds.frequentist.counting import best_split
from dpaudit.bounds.frequentist.labels import revealed_labels
from dpaudit.bounds.frequentist.one_run import one_run_p_value
from dpaudit.bounds.outcomes import check_alpha, check_delta, check_size
from dpaudit.core.errors import InputError

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
    from scipy.special import betaincinv
    from scipy.stats import binom

    n = trials // 2
    split = best_split(p, q, n, n, delta=delta, alpha=alpha)
    tp, weight = _outcomes(n, p)
    lower = betaincinv(np.maximum(tp, 1e-9), n - tp + 1, alpha * (1 - split)) * (tp > 0)
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
