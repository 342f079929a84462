"""Betting on coins: its wealth over all paths, false stops at any time, and how soon it ends."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import count, product

import numpy as np
import pytest
from numpy.typing import NDArray
from soundness_cases import MECHANISMS, Mechanism  # type: ignore[import-not-found]
from wald import ALPHA, claims_too_much  # type: ignore[import-not-found]

from dpaudit.bounds.frequentist.sequential import CoinProcess, anytime_epsilon, block_ends
from dpaudit.core.errors import InputError

Floats = NDArray[np.float64]
Coins = NDArray[np.bool_]


def response(epsilon: float, delta: float) -> NDArray[np.float64]:
    """Randomised response that is exactly (ε, δ)-DP: output laws on D and on D', 4 atoms."""
    yes = (1 - delta) / (1 + math.exp(-epsilon))
    present = np.array([0, 1 - delta - yes, yes, delta])
    return np.stack((present[::-1], present))


def settled(process: CoinProcess, values: Floats, present: Coins) -> Floats:
    """Settle all trials block by block; the log wealth after each."""
    path, start = [], 0
    for end in block_ends(len(values)):
        path.append(process.update(values[start:end], present[start:end]))
        start = end
    return np.concatenate(path)


def mean_wealth(
    laws: Floats, scores: Callable[[NDArray[np.int64]], Floats], process: CoinProcess, blocks: int
) -> float:
    """E W after blocks of two trials, over all their outputs and coins.

    Args:
        laws: the outputs' law on D and on D' `(2, outputs)`.
        scores: scores all outputs of a block at once.
        process: the process before the first block.
        blocks: the number of blocks.
    """
    total = 0.0
    trials = list(product(range(laws.shape[1]), (False, True)))
    for path in product(product(trials, repeat=2), repeat=blocks):
        chance = math.prod(laws[int(coin), output] / 2 for block in path for output, coin in block)
        if chance == 0:
            continue
        own = CoinProcess(process.epsilon, process.delta, log_odds=process.log_odds)
        for block in path:
            outputs, coins = (np.array(part) for part in zip(*block, strict=True))
            own.update(scores(outputs), coins)
        total += chance * math.exp(own.log_wealth)
    return total


VALUES = np.array([-3.0, -1.0, 1.0, 3.0])


def of_all(outputs: NDArray[np.int64]) -> Floats:
    """Score a trial by its own output and by that of the block's last one."""
    values: Floats = VALUES[outputs] + 10.0 * (VALUES[outputs[-1]] > 0)
    return values


@pytest.mark.long
@pytest.mark.parametrize("delta", [0.0, 0.2])
@pytest.mark.parametrize("scores", [lambda outputs: VALUES[outputs], of_all], ids=["own", "all"])
def test_mean_wealth_over_all_paths(
    scores: Callable[[NDArray[np.int64]], Floats], delta: float
) -> None:
    process = CoinProcess(0.4, delta, log_odds=True)
    assert mean_wealth(response(0.4, delta), scores, process, 2) <= 1 + 1e-12
    # It bets: a mechanism that leaks more lets it grow.
    assert mean_wealth(response(4.0, delta), scores, process, 2) > 1.01


def games(mechanism: Mechanism) -> Iterator[bool]:
    """Whether bets ever refute a claim that is the truth, in games of 150 trials."""
    for i in count():
        rng = np.random.default_rng([5, i])
        present = rng.random(150) < 0.5
        absent, alternate = mechanism.pair(rng, 150)
        process = CoinProcess(mechanism.epsilon, mechanism.delta, log_odds=i % 2 == 1)
        path = settled(process, np.where(present, alternate, absent).astype(np.float64), present)
        yield path.max() >= -math.log(ALPHA)


@pytest.mark.long
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda mechanism: mechanism.name)
def test_true_claims_are_rarely_refuted_at_any_time(mechanism: Mechanism) -> None:
    """Peeking after each trial; fails at 1e-6 over all mechanisms."""
    assert not claims_too_much(games(mechanism), 1e-6 / len(MECHANISMS))


def test_a_mechanism_that_counts_its_calls_shows_no_coins() -> None:
    """200 games at ε = 0 and level 0.05: a binomial count above 27 has probability 1e-6."""
    refuted = 0
    for seed in range(200):
        present = np.random.default_rng([6, seed]).random(100) < 0.5
        path = settled(CoinProcess(0.0), np.arange(100.0).astype(np.float64), present)
        refuted += path.max() >= -math.log(0.05)
    assert refuted <= 27


@pytest.mark.cases("delta", [0.0, 1e-3, 0.1])
def test_an_attack_without_errors_refutes_about_as_soon_as_any_test_can(delta: float) -> None:
    present = np.random.default_rng(1).random(400) < 0.5
    process = CoinProcess(1.0, delta)
    path = settled(process, np.where(present, 1.0, -1.0), present)
    soonest = math.log(1 / 0.005) / math.log((1 + math.e) / (math.e + delta))
    first = int((path >= math.log(1 / 0.005)).argmax()) + 1
    # The first 16 trials only teach.
    assert soonest <= first <= 16 + 1.25 * soonest


@pytest.mark.parametrize("truth", [1.5, 6.0])
def test_the_bound_lies_between_the_refuted_claim_and_the_truth(truth: float) -> None:
    """Each bound is false with probability 1e-6."""
    rng = np.random.default_rng(2)
    present = rng.random(4000) < 0.5
    right = rng.random(4000) < 1 / (1 + math.exp(-truth))
    process = CoinProcess(1.0)
    settled(process, np.where(right == present, 1.0, -1.0), present)
    estimate = anytime_epsilon(process, alpha=1e-6)
    assert 1.0 < estimate.lower <= truth
    assert estimate.lower >= 0.6 * min(truth, math.log(4000))
    assert estimate.kind == "frequentist"
    assert (estimate.n, estimate.confidence) == (4000, 1 - 1e-6)
    witness = process.witness()
    assert witness.rates[1] > witness.rates[0]
    assert witness.size / witness.trials == pytest.approx(0.5, abs=0.05)


def test_a_claim_that_is_just_refuted_is_exceeded() -> None:
    present = np.random.default_rng(4).random(60) < 0.5
    process = CoinProcess(1.0)
    settled(process, np.where(present, 1.0, -1.0), present)
    estimate = anytime_epsilon(process, alpha=process.p_value)
    assert estimate.lower == np.nextafter(1.0, 2.0)


def test_nothing_is_certified_of_a_claim_that_stands() -> None:
    rng = np.random.default_rng(3)
    process = CoinProcess(1.0)
    process.update(rng.normal(size=100), rng.random(100) < 0.5)
    assert anytime_epsilon(process, alpha=0.05).lower == 0
    assert process.p_value == 1


def test_no_bet_is_placed_against_a_claim_whose_odds_are_infinite() -> None:
    process, coins = CoinProcess(40.0, log_odds=True), np.arange(32) % 2 == 0
    for _ in range(2):
        assert not process.update(np.where(coins, 1.0, -1.0), coins).any()


def test_blocks_grow_by_a_quarter() -> None:
    assert block_ends(10) == [10]
    assert block_ends(40) == [16, 24, 32, 40]
    assert block_ends(1000)[-2:] == [883, 1000]


def test_errors() -> None:
    with pytest.raises(InputError, match="2 scores for 1 coins"):
        CoinProcess(1.0).update([0.0, 1.0], np.array([True]))
    with pytest.raises(InputError, match="epsilon"):
        CoinProcess(-1.0)
    with pytest.raises(InputError, match="delta"):
        CoinProcess(1.0, 1.0)
    with pytest.raises(InputError, match="alpha"):
        anytime_epsilon(CoinProcess(1.0), alpha=0.0)
