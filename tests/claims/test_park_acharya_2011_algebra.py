"""Checks of false mathematical statements: each finds a counterexample, unless it is mended."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from dpaudit.claims import park_acharya_2011 as algebra
from dpaudit.claims.catalogue import catalogue
from dpaudit.claims.record import Check
from dpaudit.defenses.item_item.similarities import SlopeOne
from dpaudit.defenses.top_k.defense import TopK
from dpaudit.defenses.top_k.laws import SwapSets, swap_sets

Find = Callable[[int], str | None]

FALSE: dict[str, Find] = {
    "any item": partial(algebra.cosine_inversion, alike=False),
    "random_guessing": algebra.random_guessing,
    "eq28": partial(algebra.stationary_law, power=0.5),
    "time_step": algebra.time_step,
    "decreasing_sets": algebra.decreasing_sets,
    "divergence_and_ratio": algebra.divergence_and_ratio,
    "convex_curve": algebra.convex_curve,
}


@pytest.mark.long
@pytest.mark.parametrize("seed", [0, 2**63 + 5])
@pytest.mark.parametrize("name", FALSE)
def test_every_seed_finds_a_counterexample_to_what_is_false(name: str, seed: int) -> None:
    counterexample = FALSE[name](seed)
    assert counterexample
    assert counterexample == FALSE[name](seed)


def test_the_catalogue_records_each_as_it_is_here() -> None:
    def function(find: Any) -> tuple[str, frozenset[tuple[str, Any]]]:
        plain = find if isinstance(find, partial) else partial(find)
        return plain.func.__name__, frozenset(plain.keywords.items())

    recorded = {
        function(experiment.counterexample): entry.recorded
        for entry in catalogue()
        if entry.id.startswith("pa11-")
        for experiment in entry.published
        if isinstance(experiment, Check)
    }
    assert recorded == {function(find): "falsified" for find in FALSE.values()}


# Changes that make the false statements true.


@pytest.mark.long
def test_an_adversary_who_always_succeeds_is_no_counterexample(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain = partial(SlopeOne, epsilon=math.inf, variant="nonprivate", min_ratings=10)
    monkeypatch.setattr(algebra, "SlopeOne", lambda **_: plain())
    assert algebra.random_guessing(0) is None


def test_small_rates_are_no_counterexample(monkeypatch: pytest.MonkeyPatch) -> None:
    # 1 + e^{0.4 ε} ≤ 2 e^0.8 up to ε = 3.0967.
    for epsilon, holds in ((3.09, True), (3.10, False)):
        monkeypatch.setattr(
            algebra, "TopK", lambda e=epsilon, **rest: TopK(**{**rest, "epsilon": e})
        )
        assert (algebra.time_step(0) is None) == holds


def test_falling_sums_are_no_counterexample(monkeypatch: pytest.MonkeyPatch) -> None:
    def printed(order: Any, k: int, _: str, left: int, right: int) -> SwapSets:
        return swap_sets(order, k, "printed", left, right)

    monkeypatch.setattr(algebra, "swap_sets", printed)
    for seed in range(20):
        assert algebra.decreasing_sets(seed) is None


@pytest.mark.parametrize(("gap", "loss"), [(0.1, 100.0), (1e-6, 20.0)])
def test_a_large_divergence_or_a_small_loss_is_no_counterexample(
    monkeypatch: pytest.MonkeyPatch, gap: float, loss: float
) -> None:
    monkeypatch.setattr(algebra, "_divergence", lambda *_: gap)
    monkeypatch.setattr(TopK, "pair_epsilon", lambda *_: loss)
    assert algebra.divergence_and_ratio(0) is None


# By brute force.


def test_the_divergence_is_that_of_the_limit_from_the_law_by_the_whole_matrix() -> None:
    scores = np.append(5.0, np.ones(5))
    defense = TopK(epsilon=4.0, top_k=1, left_window=1, right_window=1, u_s="largest-rate")
    chain = defense.chain(algebra._row(scores))
    size = len(chain.up)
    matrix = np.diag(1 - chain.up - chain.down)
    matrix += np.diag(chain.up[:-1], 1) + np.diag(chain.down[1:], -1)
    # φ^ε of one item is exp(ε r / U_r).
    limit = np.exp(4 * scores / 5) / np.exp(4 * scores / 5).sum()
    for steps in (size - 1, 10, 200):
        law = np.linalg.matrix_power(matrix, steps)[0]
        expected = float((limit * np.log(limit / law)).sum())
        assert algebra._divergence(chain, steps) == pytest.approx(expected, rel=1e-9)
    assert algebra._divergence(chain, size - 2) == math.inf


def test_a_rating_of_three_in_a_row_leaves_the_window_by_hand() -> None:
    # Ratings 5, 1, 1: λ_1 + μ_1 = 1 + e^{0.8·2} over U_s = 2 e^0.8.
    counterexample = algebra.time_step(0)
    assert counterexample is not None
    stays = 1 - (1 + math.exp(1.6)) / (2 * math.exp(0.8))
    assert f"{stays:.3g}" == "-0.337"
    assert counterexample.endswith("-0.337")
