from __future__ import annotations

from collections.abc import Callable

import pytest
from records import control  # type: ignore[import-not-found]

from dpaudit.record.result import AuditResult
from dpaudit.reports.chart_parts import Chart
from dpaudit.reports.sections import charts

Make = Callable[..., AuditResult]


def certified(result: AuditResult) -> Chart:
    return next(chart for chart in charts.render(result) if chart.name == "certified")


@pytest.mark.parametrize(
    ("epsilons", "said"),
    [
        ((0.1, 1.0, 10.0), "2 of 3 bounds are above their claims. Furthest above its claim: "),
        ((0.1, 10.0), "1 of 2 bounds is above its claim. Furthest above its claim: "),
        ((0.1,), "1 of 1 bound is above its claim. Furthest above its claim: "),
        ((10.0,), "0 of 1 bound is above its claim. Closest to its claim: "),
        ((10.0, 20.0), "0 of 2 bounds are above their claims. Closest to its claim: "),
    ],
)
def test_the_summary_counts_the_broken_claims(
    make: Make, epsilons: tuple[float, ...], said: str
) -> None:
    assert certified(make(epsilons=epsilons)).summary.startswith(said)


def test_the_summary_tells_the_bound_from_the_multiple_of_the_claim(result: AuditResult) -> None:
    assert certified(result).summary.endswith(
        ": published, support-threshold, at ε = 0.1, where ε ≥ 2.718 is certified, 27.1 times "
        "the claim."
    )


@pytest.mark.parametrize(
    ("found", "lower", "verdict"),
    [
        (True, 7.0, "not more than claimed"),
        (True, 0.0, "nothing certified (drawn at the edge)"),
        (False, 7.0, "not more than claimed, by a game that finds no mutant"),
        (False, 0.0, "not more than claimed, by a game that finds no mutant"),
        (None, 7.0, "not more than claimed, by a game that finds no mutant"),
    ],
)
def test_a_bound_of_a_game_without_power_is_drawn_differently(
    make: Make, found: bool | None, lower: float, verdict: str
) -> None:
    base = make(epsilons=(10.0,))
    games = [
        measurement.model_copy(
            update={
                "estimate": measurement.estimate.model_copy(update={"lower": lower}),
                "control": None
                if found is None
                else control(10.0).model_copy(update={"found": found}),
            }
        )
        for measurement in base.measurements
        if measurement.metric == "epsilon"
    ]
    (point,) = certified(base.model_copy(update={"measurements": games})).spec["datasets"]["points"]
    assert point["verdict"] == verdict
    assert (point["mutant"] is not None) == (found is True)
