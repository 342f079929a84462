"""Controls: which mutants are tried and reported, and that their noise is smaller."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from dpaudit.auditor.games.controls import (
    LADDER,
    Bar,
    GameResult,
    control_seed,
    controls_of,
    mutant_of,
    reported,
    shows,
)
from dpaudit.core import registry
from dpaudit.core.errors import RunError
from dpaudit.core.estimate import Estimate
from dpaudit.defenses.item_item.slope_one import SlopeOne
from dpaudit.defenses.top_k.defense import TopK
from dpaudit.record.result import Control


def trial(
    lower: float, law: float | None, *, value: float = 1.0, claimed: float = 1.0, n: int = 20_000
) -> GameResult:
    estimate = Estimate(
        value=value,
        lower=lower,
        upper=math.inf,
        confidence=0.95,
        alpha=0.05,
        n=n,
        method="label test",
    )
    return GameResult(claimed, 0.0, estimate, None if law is None else Estimate.exact(law, "law"))


def showing(share: float, tried: list[float]) -> Callable[[float], float]:
    """A game that certifies this share of a mutant's ε."""

    def certify(factor: float) -> float:
        tried.append(factor)
        return share * factor

    return certify


@pytest.mark.parametrize(
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
    factors: list[float] = []
    found = controls_of(showing(share, factors), trial(0.1, law, value=value))
    assert factors == tried == [each.factor for each in found]
    last = reported(found)
    assert last is not None
    assert last.found == (share * tried[-1] > 1)
    assert last.certified == share * tried[-1]
    assert last.mutant == f"noise for ε = {tried[-1]:g}"


def test_what_gates_ask_for_is_tried_first_and_then_more() -> None:
    factors: list[float] = []
    controls_of(showing(0.95, factors), trial(0.5, 1.0), [Bar(1.0, 1.5)])
    assert factors == [1.5]
    factors.clear()
    found = controls_of(showing(0.6, factors), trial(0.5, 0.6, value=0.6), [Bar(1.0, 1.1)])
    assert factors == [1.1, 2.0]
    assert [each.found for each in found] == [False, True]
    # A limit above the claim has its own mutants.
    factors.clear()
    found = controls_of(showing(0.95, factors), trial(0.5, 1.0), [Bar(3.0, 1.5)])
    assert sorted(factors) == [1.25, 4.5]
    assert [each.factor for each in found] == [1.25, 4.5]


@pytest.mark.parametrize(
    "about",
    [
        trial(1.2, 1.2),  # the game broke the claim itself
        trial(0.0, math.inf, claimed=math.inf),
        trial(8.0, 30.0, value=8.0, claimed=30.0),  # too few trials to certify such an ε
    ],
)
def test_where_a_mutant_would_say_nothing_none_is_tried(about: GameResult) -> None:
    assert controls_of(showing(1.0, []), about) == ()


@pytest.mark.parametrize("error", [ValueError("ε beyond 1e6"), RunError("diverged")])
def test_a_mutant_that_cannot_be_made_is_no_control(error: Exception) -> None:
    def certify(_: float) -> float:
        raise error

    assert controls_of(certify, trial(0.5, 1.0)) == ()
    assert reported(()) is None


def test_a_control_shows_a_limit() -> None:
    control = Control(mutant="m", factor=1.5, epsilon=3.0, certified=2.7, found=True)
    assert shows(control, 2.0, 1.5)
    assert not shows(control, 2.0, 1.4)
    assert not shows(control, 2.8, 2.0)
    assert shows(control, 1.0, 3.0)


def test_controls_share_no_stream() -> None:
    seeds = {control_seed(seed, factor) for seed in (0, 1, 2**64 - 1) for factor in LADDER}
    assert len(seeds) == 3 * len(LADDER)
    assert all(0 <= seed < 2**64 for seed in seeds)
    assert control_seed(7, 1.5) == control_seed(7, 1.5)


@pytest.mark.parametrize("variant", ["published", "corrected"])
@pytest.mark.parametrize("name", registry.names("defenses"))
def test_a_mutant_has_the_noise_of_a_claim_so_many_times_as_large(name: str, variant: str) -> None:
    make = registry.load("defenses", name)
    try:
        defense = make(epsilon=0.8, variant=variant)
    except ValueError:
        pytest.skip("no such variant")
    mutant = mutant_of(defense, 1.5)
    before, after = defense.claim(), mutant.claim()
    assert after.epsilon == pytest.approx(1.5 * before.epsilon)
    assert (after.delta, after.adjacency, after.observer) == (
        before.delta, before.adjacency, before.observer,
    )  # fmt: skip


def test_a_mutant_with_too_large_an_epsilon_is_refused() -> None:
    with pytest.raises(ValueError, match="1e6"):
        mutant_of(SlopeOne(epsilon=9e5), 4.0)
    with pytest.raises(ValueError, match="1e6"):
        mutant_of(TopK(epsilon=9e5), 4.0)
