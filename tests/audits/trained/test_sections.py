"""What reports say of recovered sensitive ratings."""

from __future__ import annotations

from dpaudit.audits.trained.sections import TrainedSections
from dpaudit.record.bases import BEYOND_MEANS, MEANS, RELEASED
from dpaudit.record.result import AuditResult
from tests.support.records import Make, estimate, measured


def recovered(make: Make, metric: str, means: float) -> AuditResult:
    """A record whose attack recovers ratings at two ε, with item means beside."""
    values = {1.0: {RELEASED: 0.98}, 10.0: {RELEASED: 0.9, BEYOND_MEANS: 0.2, MEANS: means}}
    measurements = [
        measured(
            metric,
            "published",
            epsilon,
            estimate(value, value - 0.1, value + 0.1),
            attack="a",
            basis=basis,
        )
        for epsilon, bases in values.items()
        for basis, value in bases.items()
    ]
    result = make(epsilons=(1.0, 10.0), game=False, attacks=False, rated=False)
    return result.model_copy(update={"measurements": measurements})


def test_the_strongest_recovery_stands_beside_a_guess(make: Make) -> None:
    sections = TrainedSections(recovered(make, "reconstruction.rmse", 1.1))
    said = (
        "The attack 'a' recovers sensitive ratings from the released model with rmse "
        "0.900 [0.800, 1.000] at ε = 10; item means, a guess, have 1.100 (less is a stronger "
        "attack)."
    )
    assert sections.strongest() == said
    assert list(sections.leaks(sections.result.models[0])) == [said]


def test_a_recovery_that_may_be_a_guess_says_so(make: Make) -> None:
    sections = TrainedSections(recovered(make, "reconstruction.rmse", 0.95))
    assert "item means, a guess, have 0.950, " in sections.strongest()


def test_of_shares_that_are_recovered_the_largest_is_the_strongest(make: Make) -> None:
    sections = TrainedSections(recovered(make, "reconstruction.precision", 0.5))
    assert "precision 0.980 [0.880, 1.080] at ε = 1 (more is a" in sections.strongest()


def test_without_recoveries_nothing_is_said(make: Make) -> None:
    assert TrainedSections(make()).strongest() == ""
