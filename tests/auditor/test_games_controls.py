"""Controls: that the noise of mutants is smaller, and what they show."""

from __future__ import annotations

from bisect import bisect_left

import pytest
from scipy.optimize import brentq
from scipy.stats import binom

from dpaudit.auditor.games import LADDER, control_seed, dependable, mutant_of, shows
from dpaudit.bounds.frequentist.one_run import one_run_p_value
from dpaudit.core import registry
from dpaudit.defenses.item_item.similarities import SlopeOne
from dpaudit.defenses.top_k.defense import TopK
from dpaudit.record.values import Control


def test_a_control_shows_a_limit() -> None:
    control = Control(mutant="m", factor=1.5, epsilon=3.0, certified=2.7, found=True)
    assert shows(control, 2.0, 1.5)
    assert not shows(control, 2.0, 1.4)
    assert not shows(control, 2.8, 2.0)
    assert shows(control, 1.0, 3.0)


@pytest.mark.cases("limit", [0.25, 1.0, 4.38])
@pytest.mark.cases("alpha", [0.05, 0.05 / 139, 1e-6])
@pytest.mark.cases("guesses", [200, 3000])
def test_one_run_shows_a_power_of_78_percent_and_no_luck(
    limit: float, alpha: float, guesses: int
) -> None:
    """Guesses are right independently: with which chance, a binomial law says exactly."""

    def least(level: float) -> int:
        return bisect_left(
            range(guesses + 1),
            True,
            key=lambda right: one_run_p_value(guesses, guesses, right, epsilon=limit) <= level,
        )

    found, shown = least(alpha), least(dependable(alpha))
    if found > guesses:
        return  # not even a perfect attacker is found
    weak = brentq(lambda share: binom.sf(found - 1, guesses, share) - 0.77, 0.01, 1 - 1e-12)
    # Once found means little: a game that misses one in four mutants finds this one as likely.
    assert binom.sf(shown - 1, guesses, weak) <= 0.05
    if guesses > 1000 and limit <= 1:  # many are wrong, so that the binomial law is almost normal
        sure = brentq(lambda share: binom.sf(found - 1, guesses, share) - 0.9999, 0.01, 0.999)
        assert binom.sf(shown - 1, guesses, sure) > 0.75


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
