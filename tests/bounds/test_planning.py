from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import cache
from itertools import product

import numpy as np
import pytest
from falsifying import rounds_to_falsify  # type: ignore[import-not-found]
from numpy.typing import NDArray
from scipy import optimize, stats

from dpaudit.bounds.frequentist.intervals import best_split, clopper_pearson_epsilon
from dpaudit.bounds.frequentist.labels import label_epsilon
from dpaudit.bounds.frequentist.likelihood import likelihood_epsilon, two_sample_epsilon
from dpaudit.bounds.frequentist.one_run import one_run_epsilon
from dpaudit.bounds.gdp import gaussian_delta
from dpaudit.bounds.outcomes import Counts
from dpaudit.bounds.planning import (
    Game,
    Method,
    PowerPlan,
    Reach,
    _events,
    counting_power,
    detectable_epsilon,
    found_from,
    growth,
    label_power,
    least_found,
    one_run_power,
    plan,
    trials_needed,
)
from dpaudit.core.errors import InputError

Floats = NDArray[np.float64]


def draw(
    game: Game, epsilon: float, delta: float, n: int, rng: np.random.Generator, present: bool
) -> Floats:
    """Log-likelihood ratios of trials on D' or D, on a grid as attacks report them."""
    if game == "laplace":
        noisy = rng.laplace(size=n) + present * epsilon
        return np.rint(np.clip(2 * noisy - epsilon, -epsilon, epsilon) * 2**8) / 2**8
    if game == "gaussian":
        mu = optimize.brentq(lambda mu: gaussian_delta(epsilon, mu) - delta, 0.01, 50)
        return np.asarray(mu * (rng.normal(size=n) + present * mu) - mu**2 / 2)
    wrong = (1 - delta) / (1 + math.exp(epsilon))
    sign = np.where(rng.random(n) < wrong, -1.0, 1.0) * (1 if present else -1)
    return np.asarray(sign * math.log((1 - wrong) / wrong))


def often(
    method: Method,
    forecast: PowerPlan,
    epsilon: float,
    runs: int,
    limit: float,
    alpha: float | None = None,
) -> bool:
    """Whether so many games of this true ε end with a bound that exceeds the claim.

    No more are run than decide it.
    """
    delta, claimed = forecast.delta, forecast.claimed
    alpha = 1 - forecast.confidence if alpha is None else alpha
    count = 0
    for run in range(runs):
        rng = np.random.default_rng([31, run])

        def scores(n: int, present: bool, rng: np.random.Generator = rng) -> Floats:
            return draw(forecast.game, epsilon, delta, n, rng, present)

        heads = int(rng.binomial(forecast.trials, 0.5)) if method == "label test" else 0
        n = heads or forecast.trials // 2
        if method == "likelihood":
            n = forecast.trials
        present = scores(n, True)
        absent = scores(forecast.trials - n, False) if n < forecast.trials else present[:0]
        if method == "likelihood":
            bound = likelihood_epsilon(present, delta=delta, alpha=alpha).lower
        elif method == "two-sample":
            bound = two_sample_epsilon(present, absent, delta=delta, alpha=alpha).lower
        elif method == "sequential":
            rounds = rounds_to_falsify(absent, present, epsilon=claimed, delta=delta, alpha=alpha)
            bound = 0.0 if rounds is None else math.inf
        else:
            bound = label_epsilon(
                absent, present, delta=delta, alpha=alpha, coin_flipped=True, seed=run
            )[0].lower
        count += bound > claimed
        if count >= limit or count + runs - 1 - run < limit:
            break
    return count >= limit


# Closed forms by brute force.


@pytest.mark.long
def test_label_power_by_its_definition() -> None:
    p, q, trials, claimed, alpha = 0.5, 0.2, 160, 0.4, 0.03
    m, theta, total = 152, 1 / (1 + math.exp(-claimed)), 0.0
    for size in range(1, m + 1):
        chance = stats.binom.pmf(size, m, 0.75 * (p + q))
        for hits in range(size + 1):
            if stats.binom.sf(hits - 1, size, theta) <= alpha:
                total += chance * stats.binom.pmf(hits, size, p / (p + q))
    power = label_power(p, q, trials, claimed=claimed, delta=0.0, alpha=alpha)
    right = (1 + stats.norm.cdf(math.sqrt(8 * (p + q)) * (p - q) / (p + q))) / 2
    assert power == pytest.approx(total * right, abs=1e-2)  # sums are thinned
    assert 0.3 < power < 0.95


def test_label_power_counts_what_a_delta_may_have_revealed() -> None:
    # At most 0.01 of α for more than r = 9 revealed labels, Binomial(m, δ).
    rates, m, delta = (0.5, 0.15), 1900, 2e-3
    r = 9
    rare = stats.binom.sf(r, m, delta)
    assert rare <= 0.01 < stats.binom.sf(r - 1, m, delta)
    level, total, theta = 0.05 - rare, 0.0, 1 / (1 + math.exp(-0.9))
    for size in range(650, 1250):
        hits = np.arange(r, size + 1)
        refuted = stats.binom.sf(hits - r - 1, size - r, theta) <= level
        chance = stats.binom.pmf(hits, size, rates[0] / sum(rates))[refuted].sum()
        total += chance * stats.binom.pmf(size, m, 0.75 * sum(rates))
    power = label_power(*rates, 2000, claimed=0.9, delta=delta, alpha=0.05)
    assert power == pytest.approx(total, abs=4e-3)
    assert power < label_power(*rates, 2000, claimed=0.9, delta=0.0, alpha=0.05) - 0.005


@pytest.mark.cases(("p", "q", "delta"), [(0.5, 0.05, 0.0), (0.9, 0.2, 0.01), (0.8, 0.2, 0.0)])
def test_counting_power_by_its_definition(p: float, q: float, delta: float) -> None:
    n, claimed, alpha, total = 25, 0.5, 0.1, 0.0
    split = best_split(p, q, n, n, delta=delta, alpha=alpha)
    for tp, fp in product(range(n + 1), repeat=2):
        counts = Counts(tp=tp, fp=fp, fn=n - tp, tn=n - fp)
        if clopper_pearson_epsilon(counts, delta=delta, alpha=alpha, split=split).lower > claimed:
            total += stats.binom.pmf(tp, n, p) * stats.binom.pmf(fp, n, q)
    power = counting_power(p, q, 2 * n, claimed=claimed, delta=delta, alpha=alpha)
    assert power == pytest.approx(total, abs=1e-5)
    assert 0.3 < power < 0.999


@pytest.mark.parametrize("delta", [0.0, 1e-3])
def test_one_run_power_by_its_definition(delta: float) -> None:
    p, q, canaries, total = 0.4, 0.1, 100, 0.0
    for correct in range(51):
        lower = one_run_epsilon(canaries, 50, correct, delta=delta).lower
        if lower > 0.6:
            total += stats.binom.pmf(correct, 50, 0.8)
    power = one_run_power(p, q, canaries, claimed=0.6, delta=delta, alpha=0.05)
    assert power == pytest.approx(total, abs=1e-9)
    assert 0.3 < power < 0.95


def test_events_of_the_games() -> None:
    p, q = _events("laplace", 1.5, 0.0)
    at = stats.laplace.isf(q)
    assert stats.laplace.sf(at - 1.5) == pytest.approx(p)
    assert (p[-1], q[-1]) == pytest.approx((0.5, math.exp(-1.5) / 2))
    p, q = _events("gaussian", 1.5, 1e-3)
    mu = stats.norm.isf(q) - stats.norm.isf(p)
    assert mu == pytest.approx(mu[0])
    assert gaussian_delta(1.5, mu[0]) == pytest.approx(1e-3)
    p, q = _events("randomized-response", 1.5, 1e-3)
    assert p + q == pytest.approx(1)
    assert p - math.exp(1.5) * q == pytest.approx(1e-3)


@pytest.mark.cases(("epsilon", "delta"), [(1.0, 0.0), (0.3, 0.05), (3.0, 1e-3)])
def test_growth_is_the_divergence_to_the_nearest_private_pair(epsilon: float, delta: float) -> None:
    p, q = np.array([0.5, 0.9, 0.97, 0.3, 0.5]), np.array([0.01, 0.1, 0.6, 0.3, 0.45])
    a = math.exp(epsilon)
    for x, y, rate in zip(p, q, growth(p, q, epsilon, delta), strict=True):
        grid = np.linspace(1e-6, 1 - 1e-6, 40_001)
        # Given p₀ the least q₀ is allowed by one of the two constraints.
        least = np.maximum((grid - delta) / a, 1 - delta - a * (1 - grid))
        nearest = np.clip(np.maximum(y, least), 1e-12, 1 - 1e-12)
        divergence = sum(
            stats.entropy([np.full_like(grid, s), np.full_like(grid, 1 - s)], [t, 1 - t])
            for s, t in ((x, grid), (y, nearest))
        )
        assert rate == pytest.approx(divergence.min(), rel=1e-3, abs=1e-7)
    # An attack without errors, to which no test can be faster.
    error_free = growth(np.array([1.0]), np.array([0.0]), epsilon, delta)[0]
    assert error_free == pytest.approx(2 * math.log((1 + a) / (a + delta)))


# The least violation.


def test_least_found() -> None:
    def power_at(epsilon: float) -> float:
        return float(stats.norm.cdf(10 * (epsilon - 2)))

    for power in (0.5, 0.95):
        exact = 2 + stats.norm.ppf(power) / 10
        assert least_found(power_at, 1.5, power) == pytest.approx(exact, rel=3e-3)
        assert power_at(least_found(power_at, 1.5, power)) >= power
    assert least_found(lambda _: 0.94, 1.0, 0.95) == math.inf
    assert least_found(lambda epsilon: float(epsilon > 401), 1.0, 0.95) == pytest.approx(401, 0.01)
    assert least_found(lambda _: 0.96, 1.0, 0.95) == pytest.approx(1, abs=2e-4)


@pytest.mark.long
@pytest.mark.parametrize(
    ("claimed", "trials", "alpha", "delta"),
    [(1.0, 2000, 0.05, 0.0), (2.0, 6000, 1e-4, 1e-5), (0.1, 2000, 0.05, 0.0), (1.0, 400, 0.05, 0)],
)
def test_detectable_epsilon_is_detected(
    claimed: float, trials: int, alpha: float, delta: float
) -> None:
    # 150 games at the returned ε: at least Binomial(150, 0.95) detections, rate 1e-6 / 4 a case;
    # midway to the claim that many do not occur.
    runs = 150
    limit = stats.binom.ppf(1e-6 / 4, runs, 0.95)
    least = detectable_epsilon(claimed, trials, alpha, delta=delta)
    game = PowerPlan(claimed, delta, 1 - alpha, trials, "laplace", ())
    assert claimed < least < claimed + 1
    assert often("label test", game, least, runs, limit, alpha)
    assert not often("label test", game, (claimed + least) / 2, runs, limit, alpha)


def test_detectable_epsilon_by_its_definition() -> None:
    claimed, trials, alpha = 1.0, 5000, 0.01
    least = detectable_epsilon(claimed, trials, alpha)

    def power(epsilon: float) -> float:
        rates = 0.5, math.exp(-epsilon) / 2
        return label_power(*rates, trials, claimed=claimed, delta=0.0, alpha=alpha)

    assert power(least) >= 0.95 > power(claimed + 0.99 * (least - claimed))
    by_trials = [detectable_epsilon(claimed, n, alpha) for n in (500, 5000, 50_000, 500_000)]
    assert by_trials == sorted(by_trials, reverse=True)
    assert by_trials[-1] < 1.03
    by_alpha = [detectable_epsilon(claimed, trials, a) for a in (0.2, 0.05, 1e-2, 1e-4)]
    assert by_alpha == sorted(by_alpha)
    assert detectable_epsilon(claimed, trials, alpha, power=0.5) < least
    assert detectable_epsilon(claimed, trials, alpha, delta=1e-2) > least
    # Too few trials, and no claim at all.
    assert detectable_epsilon(claimed, 8, alpha) == math.inf
    assert detectable_epsilon(20.0, trials, alpha) == math.inf
    assert detectable_epsilon(math.inf, trials, alpha) == math.inf
    assert detectable_epsilon(2000.0, trials, alpha) == math.inf


# The planner.


GAMES: tuple[Game, ...] = ("laplace", "gaussian", "randomized-response")


@cache
def planned(game: Game) -> PowerPlan:
    return plan(1.0, delta=0.0 if game == "laplace" else 1e-3, trials=2000, game=game)


@pytest.mark.long
@pytest.mark.parametrize(
    ("game", "method"),
    [
        (game, method)
        for game in GAMES
        for method in ("label test", "likelihood", "two-sample", "sequential")
        # At δ = 0 one L above the claim decides; at atoms so does a grid.
        if method != "likelihood" or game == "gaussian"
    ],
)
def test_planned_violations_are_found(game: Game, method: Method) -> None:
    # 70 games at the returned ε: at least Binomial(70, 0.95) detections, rate 1e-6 / 13 a case;
    # midway to the claim that many do not occur.
    forecast, runs = planned(game), 70
    limit = stats.binom.ppf(1e-6 / 13, runs, 0.95)
    least = reach(forecast, method).at_95
    assert often(method, forecast, least, runs, limit)
    assert not often(method, forecast, (forecast.claimed + least) / 2, runs, limit)


def reach(forecast: PowerPlan, method: Method) -> Reach:
    return next(reach for reach in forecast.reaches if reach.method == method)


@pytest.mark.long
def test_the_threshold_known_in_advance_and_its_found_violations() -> None:
    # 200 games an event, rate 1e-6: at the returned ε one event is seen often enough, midway none.
    runs, n = 200, 1000
    limit = stats.binom.ppf(1e-6, runs, 0.95)
    least = reach(planned("laplace"), "clopper-pearson").at_95

    def refutations(epsilon: float) -> int:
        rng = np.random.default_rng(5)
        best = 0
        for p, q in _events("laplace", epsilon, 0.0).T:
            split = best_split(p, q, n, n)
            pairs = zip(rng.binomial(n, p, runs), rng.binomial(n, q, runs), strict=True)
            counts = [Counts(tp=int(t), fp=int(f), fn=n - int(t), tn=n - int(f)) for t, f in pairs]
            bounds = [clopper_pearson_epsilon(c, split=split).lower for c in counts]
            best = max(best, sum(bound > 1 for bound in bounds))
        return best

    assert refutations(least) >= limit
    assert refutations((1 + least) / 2) < limit


@pytest.mark.long
def test_plan() -> None:
    for forecast in map(planned, GAMES):
        by_method = {r.method: r for r in forecast.reaches}
        assert len(by_method) == len(forecast.reaches) == 6
        for r in forecast.reaches:
            assert forecast.claimed < r.at_80 <= r.at_95 < math.inf
            assert (r.kind == "frequentist") == r.may_gate == (r.method != "likelihood")
            assert (r.rounds is None) == (r.method != "sequential")
        rounds = by_method["sequential"].rounds
        assert rounds is not None
        assert 0 < rounds < forecast.trials / 2
        left_out = {"clopper-pearson", "one-run"}
        gating = [r for r in forecast.reaches if r.may_gate and r.method not in left_out]
        assert forecast.recommended == min(gating, key=lambda r: r.at_95).method
    # Known ratios find most.
    laplace = {r.method: r.at_95 for r in planned("laplace").reaches}
    assert laplace["label test"] < laplace["clopper-pearson"]
    assert laplace["likelihood"] == pytest.approx(1, abs=2e-4)
    # The label test's event is at worst the one of `detectable_epsilon`.
    assert laplace["label test"] <= detectable_epsilon(1.0, 2000, 0.05) + 1e-9


@pytest.mark.long
def test_expected_rounds() -> None:
    # The mean of 100 games lies below the plan's, which is cautious, and above a third of it; its
    # standard error is a tenth, so either fails with a rate below 1e-6.
    entry, rounds = reach(planned("randomized-response"), "sequential"), []
    for run in range(100):
        rng = np.random.default_rng([9, run])
        pair = [draw("randomized-response", entry.at_95, 1e-3, 3000, rng, w) for w in (False, True)]
        rounds.append(rounds_to_falsify(*pair, epsilon=1.0, delta=1e-3) or 3000)
    assert entry.rounds is not None
    assert entry.rounds / 3 < np.mean(rounds) < 1.3 * entry.rounds


def test_more_trials_find_less_and_too_few_nothing() -> None:
    more, few, sure = (
        plan(1.0, delta=1e-3, trials=trials, confidence=confidence, game="randomized-response")
        for trials, confidence in ((20_000, 0.95), (12, 0.99), (2000, 0.999))
    )
    response = planned("randomized-response")
    for least, most, none in zip(more.reaches, response.reaches, few.reaches, strict=True):
        assert least.at_95 < most.at_95 or least.method == "likelihood"
        assert none.at_95 == math.inf
    assert few.recommended is None
    for strict, usual in zip(sure.reaches, response.reaches, strict=True):
        assert strict.at_95 > usual.at_95 or strict.method == "likelihood"


@pytest.mark.long
def test_trials_needed_is_what_a_plan_needs() -> None:
    for method in ("label test", "two-sample", "sequential"):
        trials = trials_needed(1.0, 1.3, game="randomized-response", method=method)
        enough, less = (
            reach(plan(1.0, trials=n, game="randomized-response"), method).at_95
            for n in (trials, int(0.95 * trials))
        )
        assert enough <= 1.302 < less + 0.01
        assert less > 1.3
    assert trials_needed(1.0, 1.1, game="laplace") > 5 * trials_needed(1.0, 1.3, game="laplace")
    some = trials_needed(1.0, 1.3, game="laplace", power=0.5)
    assert some < trials_needed(1.0, 1.3, game="laplace")
    # One violation is seen with certainty.
    assert trials_needed(1.0, 1.3, game="randomized-response", method="likelihood") <= 4


@pytest.mark.cases(
    ("call", "names"),
    [
        (lambda: detectable_epsilon(-1.0, 100, 0.05), "claimed = -1.0"),
        (lambda: detectable_epsilon(math.nan, 100, 0.05), "claimed = nan"),
        (lambda: detectable_epsilon(1.0, 1, 0.05), "trials = 1"),
        (lambda: detectable_epsilon(1.0, 10.5, 0.05), "trials = 10.5"),  # type: ignore[arg-type]
        (lambda: detectable_epsilon(1.0, 100, 0.0), "alpha = 0.0"),
        (lambda: detectable_epsilon(1.0, 100, 0.05, delta=1.0), "delta = 1.0"),
        (lambda: detectable_epsilon(1.0, 100, 0.05, power=1.0), "power = 1.0"),
        (lambda: plan(1.0, trials=100, game="gaussian"), "delta = 0"),
        (lambda: plan(1.0, trials=0, game="laplace"), "trials = 0"),
        (lambda: plan(1.0, trials=9, game="coin"), "game = 'coin'"),  # type: ignore[arg-type]
        (lambda: plan(1.0, trials=100, game="laplace", confidence=1.0), "alpha = 0.0"),
        (lambda: trials_needed(1.0, 1.0, game="laplace"), "factor = 1.0"),
        (lambda: trials_needed(0.0, 2.0, game="laplace"), "claimed = 0.0"),
        (lambda: trials_needed(1.0, 1 + 1e-7, game="laplace"), "too fine"),
        (lambda: trials_needed(1.0, 2.0, game="laplace", power=0.0), "power = 0.0"),
        (
            lambda: trials_needed(1.0, 2.0, game="laplace", method="guess"),  # type: ignore[arg-type]
            "method = 'guess'",
        ),
    ],
)
def test_bad_input(call: Callable[[], object], names: str) -> None:
    with pytest.raises(InputError, match=re.escape(names)):
        call()


@pytest.mark.cases(("claimed", "delta"), [(1.0, 1e-3), (0.5, 0.05), (0.1, 0.2)])
def test_the_noise_that_trials_find_is_the_law_that_is_found_later(
    claimed: float, delta: float
) -> None:
    """At a small δ that is Gaussian noise; at a large one Laplace's is found no sooner."""
    trials, alpha = 4000, 0.05
    epsilon = found_from(claimed, trials, alpha, delta=delta)
    assert epsilon >= detectable_epsilon(claimed, trials, alpha, delta=delta)
    if math.isinf(epsilon):
        return
    games: tuple[Game, ...] = ("gaussian", "laplace")
    for game in games:
        found = 0
        for run in range(40):
            rng = np.random.default_rng([7, run])
            absent, present = (
                draw(game, epsilon, delta, trials // 2, rng, side) for side in (False, True)
            )
            bound, _ = label_epsilon(absent, present, delta=delta, alpha=alpha, seed=run)
            found += bound.lower > claimed
        assert found >= 32
    assert found_from(claimed, trials, alpha) == detectable_epsilon(claimed, trials, alpha)
