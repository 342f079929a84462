"""Controls: that the noise of mutants is smaller, and what they show."""

from __future__ import annotations

import pytest

from dpaudit.auditor.games.controls import (
    LADDER,
    control_seed,
    mutant_of,
    shows,
)
from dpaudit.core import registry
from dpaudit.defenses.item_item.slope_one import SlopeOne
from dpaudit.defenses.top_k.defense import TopK
from dpaudit.record.result import Control


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


@pytest.mark.cases("variant", ["published", "corrected"])
@pytest.mark.cases("name", registry.names("defenses"))
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
