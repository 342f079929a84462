"""Bets end games of blatant false claims early, and those of true ones at most at their level."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import binom

from dpaudit.claims import verify as experiment
from dpaudit.claims.catalogue import catalogue
from dpaudit.claims.record import Check, ClaimGame
from dpaudit.claims.verify import looks, refuted
from tests.support.coin_games import Coin

# The probability that a stochastic test fails although the code is correct.
RARE = 1e-6


@pytest.mark.cases("trials", [1, 63, 64, 250, 100_000])
def test_looks_grow_and_cost_at_most_a_third_of_all_trials(trials: int) -> None:
    counts = list(looks(trials))
    assert all(count >= 16 for count in counts)
    assert all(4 * first <= second for first, second in pairwise([*counts, trials]))
    assert 3 * sum(counts) <= trials
    assert bool(counts) == (trials >= 64)


def test_no_test_is_faster_than_bets_on_an_attack_without_errors() -> None:
    outcome = refuted(Coin("a", math.inf), 2000, 0.001, 1)
    assert outcome is not None
    fastest = math.log(1000) / (2 * math.log((1 + math.e) / math.e))
    assert fastest <= outcome.trials <= fastest + 8
    assert outcome.p_value <= 0.001
    assert (outcome.early, outcome.certified, outcome.control) == (True, None, None)
    assert outcome.truth is not None


def test_a_blatant_violation_is_refuted_within_300_outputs() -> None:
    # At the level of the bets of one of 137 games.
    level = 0.1 * 0.05 / 137
    outcomes = [refuted(Coin("a", 6.0, trials=100_000), 100_000, level, k) for k in range(20)]
    assert np.median([2 * outcome.trials if outcome else math.inf for outcome in outcomes]) <= 300


def test_the_refutation_does_not_depend_on_the_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    coin = Coin("a", 2.0, trials=20_000)
    outcome = refuted(coin, coin.trials, 0.001, 3)
    monkeypatch.setattr(experiment, "_GROWTH", 3)
    assert outcome is not None
    assert refuted(coin, coin.trials, 0.001, 3) == outcome


@pytest.mark.long
def test_a_true_claim_is_refuted_at_most_at_the_level_while_every_output_is_looked_at() -> None:
    repeats, level = 400, 0.2
    ended = sum(refuted(Coin("a", 1.0), 4000, level, seed) is not None for seed in range(repeats))
    # More than this has a probability of at most `RARE` where the level holds.
    assert 0 < ended <= binom.isf(RARE, repeats, level)


@pytest.mark.long
def test_more_trials_of_a_game_begin_with_the_same_scores_and_no_data_set_shares_them() -> None:
    games: dict[type[ClaimGame], ClaimGame] = {}
    for entry in catalogue():
        for game in (*entry.published, *entry.corrected):
            if not isinstance(game, Check):
                games.setdefault(type(game), game)
    assert len(games) > 10
    for game in games.values():
        few, more = game.run(8, 5), game.run(20, 5)
        assert np.array_equal(few.absent, more.absent[:8]), game.label
        assert np.array_equal(few.present, more.present[:8]), game.label
