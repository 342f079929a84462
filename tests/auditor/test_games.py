"""Certificates: what is bounded, and which mutants are tried and reported."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from dpaudit.auditor.games import (
    LADDER,
    Bar,
    Certificate,
    CoinScores,
    GameScores,
    Level,
    NoiseGame,
    bound,
    certify,
    reported,
    rungs,
)
from dpaudit.bounds.frequentist.labels import label_epsilon
from dpaudit.bounds.frequentist.one_run import one_run_scores_epsilon
from dpaudit.core.errors import RunError
from dpaudit.core.estimate import Estimate
from dpaudit.execution.executor import UnfinishedError
from dpaudit.record.values import Control

LEVEL = Level(0.0, 0.01, 0.95)


@dataclass(frozen=True)
class Stub:
    """A game that certifies a share of a mutant's ε.

    Attributes:
        lower: what it certifies of the mechanism itself.
        law: the ε of the pair by the law of its noise.
        share: the share.
        value: the estimated ε.
        claimed: the claimed ε.
        mutable: whether there are mutants.
        tried: the factors that were tried.
    """

    lower: float
    law: float | None
    share: float = 1.0
    value: float = 1.0
    claimed: float = 1.0
    mutable: bool = True
    tried: list[float] = field(default_factory=list)

    def run(self) -> Certificate[None]:
        estimate = Estimate(
            value=self.value,
            lower=self.lower,
            upper=math.inf,
            confidence=0.95,
            alpha=0.05,
            n=20_000,
            method="label test",
        )
        return Certificate(None, estimate, "an event")

    def rungs(self, bar: Bar, certificate: Certificate[None]) -> Iterator[float]:
        truth = None if self.law is None else Estimate.exact(self.law, "law")
        return rungs(bar, certificate.estimate, self.claimed, 0.0, truth)

    def control(self, rung: float, bar: Bar) -> Control | None:
        if not self.mutable:
            return None
        self.tried.append(rung)
        lower = self.share * rung
        return Control(
            mutant="m", factor=rung, epsilon=rung, certified=lower, found=lower > self.claimed
        )


@pytest.mark.cases(
    ("law", "value", "share", "tried"),
    [
        (1.0, 1.0, 0.95, [1.25]),
        (1.0, 1.0, 0.75, [1.25, 1.5]),
        (0.6, 1.0, 0.55, [2.0]),
        # Only rare outputs attain the law's ε, so the game shows less.
        (1.0, 0.3, 0.29, [4.0]),
        (None, 0.6, 0.55, [2.0]),
        (math.inf, 1.0, 0.1, list(LADDER)),
        # If no mutant is forecast to be found, the largest is tried once.
        (0.0, 0.1, 0.0, [4.0]),
    ],
)
def test_a_forecast_chooses_where_the_ladder_begins_and_the_first_found_ends_it(
    law: float | None, value: float, share: float, tried: list[float]
) -> None:
    stub = Stub(0.1, law, share, value)
    controls = certify(stub, [Bar(1.0)]).controls
    assert stub.tried == tried == [control.factor for control in controls]
    last = reported(controls)
    assert last is not None
    assert last.found == (share * tried[-1] > 1)
    assert last.certified == share * tried[-1]


def test_what_gates_ask_for_is_tried_first_and_then_more() -> None:
    stub = Stub(0.5, 1.0, 0.95)
    certify(stub, [Bar(1.0, 1.5)])
    assert stub.tried == [1.5]
    stub = Stub(0.5, 0.6, 0.6, value=0.6)
    controls = certify(stub, [Bar(1.0, 1.1)]).controls
    assert stub.tried == [1.1, 2.0]
    assert [control.found for control in controls] == [False, True]
    # A limit above the claim has its own mutants.
    stub = Stub(0.5, 1.0, 0.95)
    certificate = certify(stub, [Bar(3.0, 1.5), Bar(1.0)])
    assert sorted(stub.tried) == [1.25, 4.5]
    assert [control.factor for control in certificate.controls] == [1.25, 4.5]
    assert certificate.fields["tried"] == certificate.controls
    assert certificate.fields["control"] == certificate.controls[0]
    assert certificate.fields["event"] == "an event"


@pytest.mark.cases(
    ("stub", "limit"),
    [
        (Stub(1.2, 1.2), 1.0),  # the game broke the claim itself
        (Stub(0.0, math.inf, claimed=math.inf), math.inf),
        (Stub(8.0, 30.0, value=8.0, claimed=30.0), 30.0),  # too few trials for such an ε
        (Stub(0.5, 1.0, mutable=False), 1.0),
    ],
)
def test_where_a_mutant_would_say_nothing_none_is_tried(stub: Stub, limit: float) -> None:
    certificate = certify(stub, [Bar(limit)])
    assert certificate.controls == ()
    assert (certificate.fields["control"], certificate.fields["tried"]) == (None, ())


def test_scores_of_two_data_sets_are_bounded_by_the_label_test() -> None:
    rng = np.random.default_rng(1)
    absent, present = rng.normal(size=300), rng.normal(2, size=300)
    options: Any = {"delta": 0.01, "alpha": 0.01, "confidence": 0.95, "seed": 3}
    level = Level(0.01, 0.01, 0.95)
    assert bound(GameScores(absent, present), level, 3) == label_epsilon(absent, present, **options)
    scores = GameScores(absent, present, coin_flipped=True, expected="both", log_odds=True)
    assert bound(scores, level, 3) == label_epsilon(
        absent, present, **options, coin_flipped=True, expected="both", log_odds=True
    )


def test_coins_of_trainings_are_bounded_at_the_delta_of_the_claim() -> None:
    rng = np.random.default_rng(1)
    coins = rng.integers(0, 2, 400)
    scores = coins + rng.normal(size=400)
    level = Level(0.001, 0.01, 0.95)
    options: Any = {"delta": 0.001, "alpha": 0.01, "confidence": 0.95, "seed": 3}
    estimate, event = bound(CoinScores(scores, coins, 2), level, 3)
    assert estimate == one_run_scores_epsilon(scores, coins, **options)
    assert event == estimate.method
    assert estimate.lower < bound(CoinScores(scores, coins, 2), LEVEL, 3)[0].lower
    estimate, event = bound(CoinScores(scores, coins, 2, guesses=(100, 50)), level, 3)
    assert str(event).startswith("one-run exact at δ = 0.001, 150 guesses")


def noise_game(claimed: float | None, fails: Exception | None = None) -> NoiseGame[float]:
    """Randomised response, whose ε is the mechanism."""

    def score(epsilon: float, seed: int) -> GameScores:
        rng, right = np.random.default_rng(seed), 1 / (1 + math.exp(-epsilon))
        present = rng.random(4000) < right
        absent = rng.random(4000) >= right
        return GameScores(absent.astype(float), present.astype(float))

    def weaken(epsilon: float, factor: float) -> float:
        if fails is not None:
            raise fails
        return epsilon * factor

    return NoiseGame(0.5, score, weaken, LEVEL, 1, claimed)


def test_a_game_on_noise_finds_the_mutant_of_the_claim() -> None:
    certificate = noise_game(0.5).certified()
    assert 0 < certificate.estimate.lower <= 0.5
    record = certificate.fields["control"]
    assert record.found
    assert record.certified > 0.5
    assert record.mutant == f"noise for ε = {record.factor * 0.5:.4g}"
    # The limit of a gate is beside the claim, which is tried once.
    limits = noise_game(0.5).certified([Bar(0.5, 2.0)])
    assert [control.factor for control in limits.controls] == [2.0]


def test_without_a_claim_no_mutant_is_tried() -> None:
    assert noise_game(None).certified([Bar(1.0)]).controls == ()


@pytest.mark.parametrize("error", [ValueError("ε beyond 1e6"), RunError("diverged")])
def test_a_mutant_that_cannot_be_made_is_no_control(error: Exception) -> None:
    assert noise_game(0.5, error).certified().controls == ()
    assert reported(()) is None


@pytest.mark.parametrize("error", [ValueError("no\nnumber"), RunError("lost a worker")])
def test_a_mutant_whose_run_fails_is_named_and_a_larger_one_is_tried(error: Exception) -> None:
    honest = noise_game(0.5)

    def score(epsilon: float, seed: int) -> GameScores:
        if 0.5 < epsilon < 0.8:
            raise error
        outcomes = honest.score(epsilon, seed)
        assert isinstance(outcomes, GameScores)
        return outcomes

    certificate = replace(honest, score=score).certified([Bar(0.5, 1.5)])
    (failed,) = certificate.failed
    assert f"ε = 0.75 ({str(error).replace(chr(10), ' ')})" in str(failed)
    # Only what was run says something of the power.
    (control,) = certificate.controls
    assert control.factor > 1.5
    assert control.found


def test_where_no_mutant_can_be_run_the_power_is_unknown() -> None:
    honest = noise_game(0.5)

    def score(epsilon: float, seed: int) -> GameScores:
        if epsilon > 0.5:
            raise RunError("none runs")
        outcomes = honest.score(epsilon, seed)
        assert isinstance(outcomes, GameScores)
        return outcomes

    certificate = replace(honest, score=score).certified()
    assert certificate.controls == ()
    assert certificate.failed
    assert certificate.estimate == noise_game(0.5).certified().estimate


def test_results_that_other_shards_have_are_no_failure() -> None:
    def score(epsilon: float, seed: int) -> GameScores:
        if epsilon > 0.5:
            raise UnfinishedError
        outcomes = honest.score(epsilon, seed)
        assert isinstance(outcomes, GameScores)
        return outcomes

    honest = noise_game(0.5)
    with pytest.raises(UnfinishedError):
        replace(honest, score=score).certified()
