from __future__ import annotations

import math
from typing import Any

import pytest
from records import control  # type: ignore[import-not-found]

from dpaudit.record.result import AuditResult
from dpaudit.reports.chart_parts import Chart
from dpaudit.reports.sections.base import charts_of
from tests.support.records import Make


def certified(result: AuditResult) -> Chart:
    return next(chart for chart in charts_of(result) if chart.name == "certified")


def points(drawing: Chart) -> list[dict[str, Any]]:
    data: list[dict[str, Any]] = drawing.panels[0].spec["datasets"]["points"]
    return data


@pytest.mark.cases(
    ("epsilons", "said"),
    [
        ((0.1, 1.0, 10.0), "2 of 3 bounds are above their claims. Furthest above its claim: "),
        ((0.1, 10.0), "1 of 2 bounds is above its claim. Furthest above its claim: "),
        ((10.0, 20.0), "0 of 2 bounds are above their claims. Closest to its claim: "),
    ],
)
def test_the_summary_counts_the_broken_claims(
    make: Make, epsilons: tuple[float, ...], said: str
) -> None:
    assert certified(make(epsilons=epsilons)).summary.startswith(said)


def test_the_summary_tells_the_bound_from_the_multiple_of_the_claim(result: AuditResult) -> None:
    said = ": published, support-threshold, at ε = 0.1, where ε ≥ 2.718 is certified, 27.1 times "
    assert said in certified(result).summary


@pytest.mark.cases(
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
    base = make(epsilons=(10.0, 20.0))
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
    for point in points(certified(base.model_copy(update={"measurements": games}))):
        assert point["verdict"] == verdict
        assert (point["mutant"] is not None) == (found is True)


def test_the_most_that_the_trials_can_certify_is_drawn_and_named(make: Make) -> None:
    """n fair coins guessed right refute every ε with (e^ε / (1 + e^ε))^n < α."""
    base = make(epsilons=(0.5, 1.0))
    games = [
        measurement.model_copy(
            update={
                "estimate": measurement.estimate.model_copy(
                    update={"lower": 0.4, "n": trials, "alpha": 0.01, "kind": kind}
                )
            }
        )
        for trials, kind in ((1000, "frequentist"), (10**6, "assumes-law"))
        for measurement in base.measurements
        if measurement.metric == "epsilon"
    ]
    drawing = certified(base.model_copy(update={"measurements": games[:2]}))
    (panel,) = drawing.panels
    share = 0.01 ** (1 / 1000)
    ceiling = panel.spec["datasets"]["ceiling"]
    assert [row["most"] for row in ceiling] == pytest.approx([math.log(share / (1 - share))] * 4)
    named = {" ".join(row["text"]) for row in panel.spec["datasets"]["labels"]}
    assert "the most that so many trials" in "\n".join(named)
    assert "the most that so many trials" in drawing.caption
    y = panel.spec["layer"][1]["encoding"]["y"]["scale"]["domain"]
    assert y[0] < 0.4 < ceiling[0]["most"] < y[1]
    # What rests on a law has no such ceiling.
    drawing = certified(base.model_copy(update={"measurements": games[2:]}))
    assert drawing.panels[0].spec["datasets"]["ceiling"] == []
    assert "can certify" not in drawing.caption
