"""The e-process: fair on every path, at any time; fast where the claim is false."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import count, islice, pairwise, product

import numpy as np
import pytest
from falsifying import rounds_to_falsify  # type: ignore[import-not-found]
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats
from scipy.optimize import minimize_scalar
from wald import claims_too_much  # type: ignore[import-not-found]

from dpaudit.bounds.frequentist.sequential import EProcess, fastest_bets
from dpaudit.core.errors import InputError

Floats = NDArray[np.float64]
Law = tuple[Floats, Floats]
CLAIMS = [(0.0, 0.0), (0.1, 0.0), (1.0, 1e-5), (0.0, 0.2), (1.0, 0.3), (4.0, 0.01), (9.0, 0.0)]


def edge(epsilon: float, delta: float) -> Floats:
    """Points (q, p) all along both edges of the region of claims that are true, and p = q."""
    r = math.exp(-epsilon)
    p = np.linspace(delta, (1 + delta * r) / (1 + r), 400)
    first = np.stack((r * (p - delta), p))
    half = np.hstack((first, 1 - first[::-1], np.tile(np.linspace(0, 1, 400), (2, 1))))
    whole: Floats = np.hstack((half, half[::-1]))
    return whole


def rates(rng: np.random.Generator, size: int) -> Floats:
    """Shares of events as they arise from counts in n rounds, extreme ones included."""
    n = np.round(10 ** rng.uniform(0, 6, size))
    share = rng.random((2, size)) ** rng.choice([1.0, 4.0, 20.0], (2, size))
    share = np.where(rng.random(size) < 0.5, share, 1 - share)
    return np.asarray((np.round(share * n) + 0.02) / (n + 0.04))


@pytest.mark.cases(("epsilon", "delta"), CLAIMS)
def test_payoffs_are_fair_wherever_the_claim_is_true(epsilon: float, delta: float) -> None:
    shares = rates(np.random.default_rng(1), 500)
    bets = fastest_bets(shares, epsilon, delta)
    # The payoff is linear in either value, so the ends of [0, 1] are its extremes.
    for value in (0, 1):
        assert (1 + bets.slope * (value - bets.centre) >= 0).all()
    factors = 1 + bets.slope[..., None] * (edge(epsilon, delta)[:, None] - bets.centre[..., None])
    assert factors.prod(axis=0).max() <= 1 + 1e-9
    # Equality at the point that is nearest, itself a point of the region.
    q, p = bets.centre
    for one, other in ((p, q), (q, p)):
        assert (one <= math.exp(epsilon) * other + delta + 1e-9).all()
        assert (1 - one <= math.exp(epsilon) * (1 - other) + delta + 1e-9).all()
    # Where the shares contradict the claim, and only there, there is a bet.
    low, high = np.sort(shares, axis=0)
    r = math.exp(-epsilon)
    contradict = (r * (high - delta) > low) | (r * (1 - low - delta) > 1 - high)
    assert ((bets.slope != 0).any(axis=0) == contradict).all()
    assert contradict.any()


@pytest.mark.cases(("epsilon", "delta"), CLAIMS)
def test_growth_is_the_least_divergence_from_a_true_claim(epsilon: float, delta: float) -> None:
    shares = rates(np.random.default_rng(2), 300)
    growths = fastest_bets(shares, epsilon, delta).growth(shares)
    r = math.exp(-epsilon)
    for (q1, p1), growth in zip(shares.T, growths, strict=True):
        low, high = sorted((q1, p1))

        def divergence(p: float, one: float, other: float) -> float:
            q = r * (p - delta)
            return float(
                one * math.log(one / p)
                + (1 - one) * math.log((1 - one) / (1 - p))
                + other * math.log(other / q)
                + (1 - other) * math.log((1 - other) / (1 - q))
            )

        if growth == 0:
            continue
        corner = (1 + delta * r) / (1 + r)
        least = min(
            minimize_scalar(
                divergence, bounds=(delta, corner), args=pair, options={"xatol": 1e-14}
            ).fun
            for pair in ((high, low), (1 - low, 1 - high))
        )
        assert growth == pytest.approx(least, rel=1e-4, abs=1e-9)


def response(epsilon: float, delta: float = 0.0) -> Law:
    """Randomised response that is exactly (ε, δ)-DP: output laws on D and on D', 4 atoms."""
    yes = (1 - delta) / (1 + math.exp(-epsilon))
    present = np.array([0, 1 - delta - yes, yes, delta])
    return present[::-1], present


def expected_wealth(law: Law, values: Floats, process: Callable[[], EProcess], n: int) -> Floats:
    """E[W_1], …, E[W_n] over all paths."""
    total, mass = np.zeros(n), 0.0
    atoms = [(y, x) for y, x in product(range(len(values)), repeat=2) if law[0][y] * law[1][x] > 0]
    for path in product(atoms, repeat=n):
        y, x = np.array(path).T
        chance = float(law[0][y].prod() * law[1][x].prod())
        total += chance * np.exp(process().update(values[y], values[x]))
        mass += chance
    assert mass == pytest.approx(1)
    return total


@pytest.mark.long
@pytest.mark.parametrize("likelihood", [False, True])
@pytest.mark.parametrize(
    ("epsilon", "delta", "n"), [(0.0, 0.0, 3), (0.4, 0.0, 4), (1.0, 0.0, 3), (0.2, 0.3, 3)]
)
def test_expected_wealth_over_all_paths(
    epsilon: float, delta: float, n: int, likelihood: bool
) -> None:
    def process() -> EProcess:
        return EProcess(epsilon, delta, likelihood=likelihood)

    values = np.array([-2.0, -1.0, 1.0, 2.0])
    fair = expected_wealth(response(epsilon, delta), values, process, n)
    assert fair.max() <= 1 + 1e-12
    assert (np.diff(fair) <= 1e-12).all()
    # It bets: the mean moves on some path, and exceeds 1 where the claim is false.
    assert fair[-1] < 1
    assert expected_wealth(response(epsilon + 4, delta), values, process, 3)[-1] > 1.02


def test_first_round_is_not_bet_on() -> None:
    assert EProcess(0.0).update([0.0], [1.0])[0] == pytest.approx(0, abs=1e-15)


def streams(rounds: int) -> Iterator[tuple[float, Floats, Floats]]:
    """ε, scores of D and of D', in turn from three pairs on the very edge of the claim."""
    for i in count():
        rng = np.random.default_rng([11, i])
        if i % 3 == 0:
            absent, present = (rng.choice(4, rounds, p=p) for p in response(1.0))
            yield 1.0, absent.astype(float), present.astype(float)
        elif i % 3 == 1:
            yield 0.5, rng.laplace(0, 2, rounds), rng.laplace(1, 2, rounds)
        else:
            yield 0.0, rng.normal(size=rounds), rng.normal(size=rounds)


@pytest.mark.long
def test_false_alarms_at_any_time() -> None:
    # Fails sound processes with probability at most 1e-6, and notices one whose rate is 9 %.
    for pair in range(3):
        alarms = (
            rounds_to_falsify(absent, present, epsilon=epsilon, alpha=0.05) is not None
            for epsilon, absent, present in islice(streams(150), pair, None, 3)
        )
        assert not claims_too_much(alarms, 1e-6 / 3)


@pytest.mark.long
def test_bets_chosen_on_the_scores_they_are_settled_on_are_unsound() -> None:
    # The same pairs, each stream run five times: thresholds and bets know what is to come.
    runs, alarms = 100, 0
    for epsilon, absent, present in islice(streams(100), runs):
        process = EProcess(epsilon)
        process.update(np.tile(absent, 5), np.tile(present, 5))
        alarms += process.falsified(0.05)
    # A sound process would get here with probability below 1e-6.
    assert alarms > stats.binom.isf(1e-6, runs, 0.05)


@pytest.mark.long
@settings(max_examples=30, deadline=None)
@given(
    cuts=st.lists(st.integers(0, 300), max_size=12),
    atoms=st.booleans(),
    likelihood=st.booleans(),
    seed=st.integers(0, 5),
)
def test_chunks_do_not_matter(cuts: list[int], atoms: bool, likelihood: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    absent, present = rng.normal(size=300), rng.normal(1, size=300)
    if atoms:
        absent, present = np.round(absent), np.round(present)
    whole = EProcess(0.3, 0.01, likelihood=likelihood)
    path = whole.update(absent, present)
    pieces = EProcess(0.3, 0.01, likelihood=likelihood)
    again = np.concatenate(
        [pieces.update(absent[a:b], present[a:b]) for a, b in pairwise(sorted({0, 300, *cuts}))]
    )
    np.testing.assert_allclose(again, path, rtol=1e-12, atol=1e-12)
    assert pieces.rounds == whole.rounds == 300
    assert pieces.peak == pytest.approx(whole.peak, rel=1e-12)
    assert pieces.peak == pytest.approx(max(0, path.max()), rel=1e-12)
    assert pieces.log_wealth == pytest.approx(path[-1], rel=1e-12)


def test_rounds_one_at_a_time() -> None:
    rng = np.random.default_rng(3)
    absent, present = rng.laplace(0, 0.5, 400), rng.laplace(1, 0.5, 400)
    process, first = EProcess(1.0), None
    for t in range(400):
        process.update(absent[t : t + 1], present[t : t + 1])
        if first is None and process.falsified(0.05):
            first = t + 1
    assert first == rounds_to_falsify(absent, present, epsilon=1.0)
    assert first is not None
    assert process.p_value == pytest.approx(math.exp(-process.peak))
    assert process.falsified(process.p_value * 1.01)
    assert not process.falsified(process.p_value * 0.99)


def fewest_rounds(epsilon: float, delta: float, alpha: float) -> int:
    """Of any test: as many as randomised response needs to look like an error-free attack."""
    share = (math.exp(epsilon) + delta) / (1 + math.exp(epsilon))
    return math.ceil(-math.log(alpha) / (-2 * math.log(share)))


@pytest.mark.cases(
    ("epsilon", "delta", "fewest"), [(0.1, 0.0, 3), (1.0, 0.0, 5), (5.0, 0.0, 224), (1.0, 0.1, 6)]
)
def test_error_free_attack(epsilon: float, delta: float, fewest: int) -> None:
    assert fewest_rounds(epsilon, delta, 0.05) == fewest
    rng = np.random.default_rng(4)
    n = 4 * fewest + 10
    for absent, present in (
        (np.zeros(n), np.ones(n)),
        (np.ones(n), np.zeros(n)),
        (rng.random(n), rng.random(n) + 2),
        (-rng.random(n), -rng.random(n) - 2),
        (np.full(n, -1.7e308), np.full(n, 1.7e308)),
    ):
        rounds = rounds_to_falsify(absent, present, epsilon=epsilon, delta=delta)
        assert rounds is not None
        assert fewest <= rounds <= 1.75 * fewest + 6


Stream = Callable[[np.random.Generator, int], tuple[Floats, Floats]]


def laplace(epsilon: float) -> Stream:
    return lambda rng, n: (rng.laplace(0, 1 / epsilon, n), rng.laplace(1, 1 / epsilon, n))


def median_rounds(stream: Stream, n: int, claim: float, delta: float = 0.0) -> float:
    rounds = [
        rounds_to_falsify(*stream(np.random.default_rng([5, i]), n), epsilon=claim, delta=delta)
        for i in range(21)
    ]
    return float(np.median([math.inf if t is None else t for t in rounds]))


@pytest.mark.cases(
    ("stream", "claim", "delta", "most"),
    [
        (laplace(1.0), 0.1, 0.0, 120),
        (laplace(1.0), 0.5, 0.0, 400),
        (laplace(5.0), 0.5, 0.0, 15),
        (laplace(2.0), 1.0, 0.0, 180),
        (laplace(10.0), 1.0, 0.0, 15),
        (lambda rng, n: (rng.normal(0, 1, n), rng.normal(1, 1, n)), 1.0, 1e-5, 700),
        # One trial in ten gives the record away, in a score between others.
        (
            lambda rng, n: (rng.normal(size=n), np.where(rng.random(n) < 0.1, 9, rng.normal(n))),
            1.0,
            1e-5,
            500,
        ),
    ],
)
def test_false_claims_are_falsified(stream: Stream, claim: float, delta: float, most: int) -> None:
    # Twice what the median of many streams is: fails with probability below 1e-6, since that takes
    # 11 of 21 streams, of which fewer than 1 in 20 is as slow.
    assert median_rounds(stream, 2 * most, claim, delta) <= most


def test_log_ratios_pay() -> None:
    # One trial in twenty is shifted by 5; the score is the log-likelihood ratio.
    won = []
    for i in range(20):
        rng = np.random.default_rng([8, i])
        outcomes = rng.normal(size=700), rng.normal(size=700) + 5 * (rng.random(700) < 0.05)
        absent, present = (np.log1p(0.05 * np.expm1(5 * z - 12.5)) for z in outcomes)
        grey, white = (EProcess(1.0, 1e-3, likelihood=on) for on in (False, True))
        grey.update(absent, present)
        white.update(absent, present)
        won.append(white.log_wealth - grey.log_wealth)
    # The streams are the same for both; were there no gain, 19 of 20 or more would win with
    # probability 2e-5, and by so much never.
    assert np.mean(np.array(won) > 0) >= 0.95
    assert np.mean(won) > 0.2


def test_no_bet_where_nothing_can_be_won() -> None:
    rng = np.random.default_rng(6)
    for epsilon, absent, present in (
        (800.0, rng.normal(size=500), rng.normal(9, size=500)),
        (0.0, np.ones(500), np.ones(500)),
    ):
        process = EProcess(epsilon)
        assert process.p_value == 1
        process.update(absent, present)
        assert process.log_wealth == pytest.approx(0, abs=1e-12)
        assert process.p_value == pytest.approx(1)


@pytest.mark.cases(
    ("absent", "present", "said"),
    [
        ([], [], "absent are empty"),
        ([0.0], [0.0, 1.0], "absent has 1 scores and present 2"),
        ([0.0], [math.nan], r"present\[0\] = nan"),
        ([math.inf], [0.0], r"absent\[0\] = inf"),
        ([[0.0]], [0.0], "shape"),
    ],
)
def test_bad_scores(absent: list[float], present: list[float], said: str) -> None:
    process = EProcess(1.0)
    with pytest.raises(InputError, match=said):
        process.update(absent, present)
    assert process.rounds == 0


def test_bad_parameters() -> None:
    for epsilon in (-0.1, math.nan, math.inf):
        with pytest.raises(InputError, match="epsilon"):
            EProcess(epsilon)
    for delta in (-0.1, 1.0, math.nan):
        with pytest.raises(InputError, match="delta"):
            EProcess(1.0, delta)
    for alpha in (0.0, 1.0, math.nan):
        with pytest.raises(InputError, match="alpha"):
            EProcess(1.0).falsified(alpha)
