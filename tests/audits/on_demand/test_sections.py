"""What the charts draw, and which ε is offered and recommended."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from dpaudit.audits.on_demand.sections import difference, tradeoff
from dpaudit.record.result import AuditResult
from dpaudit.reports import digest
from dpaudit.reports.chart_parts import Chart
from dpaudit.reports.render.page import svgs
from dpaudit.reports.sections.base import look_of
from tests.support.records import Make


def chart(result: AuditResult) -> Chart:
    drawing = tradeoff(result, look_of(result))
    assert drawing is not None
    return drawing


def advice(drawing: Chart) -> tuple[list[list[str]], Sequence[str]]:
    """The recommended points, as ε and claim, and what is said at every weight."""
    cells = [[row[2], row[5]] for row in drawing.advice.cells] if drawing.advice else []
    return cells, drawing.notes


@pytest.mark.cases("weight", [0.1, 0.5, 0.9])
def test_the_best_epsilon_whose_claim_is_not_false_is_offered(make: Make, weight: float) -> None:
    result = make(epsilons=(0.1, 0.3, 1.0, 3.0, 10.0))
    false = {verdict.epsilon for verdict in result.verdicts if verdict.verdict == "false"}
    assert false == {0.1, 0.3, 1.0}
    drawing = chart(result)
    offered = [row for row in digest.rows(result)["published"] if row.point.epsilon not in false]
    best = max(
        offered,
        key=lambda row: (
            (1 - weight) * kept.value - weight * row.accuracy["one prediction"].value
            if (kept := row.estimate("utility.overlap"))
            else 0.0
        ),
    )
    assert drawing.advice is not None
    ends = [[float(end) for end in row[1].split(" to ")] for row in drawing.advice.cells]
    (at,) = [
        row[2]
        for row, (low, high) in zip(drawing.advice.cells, ends, strict=True)
        if low <= weight <= high
    ]
    assert at == f"{best.point.epsilon:g}"
    (note,) = drawing.notes
    assert note.startswith("published is offered at some ε only")
    assert note.endswith("false at ε = 0.1, 0.3, 1.")
    if weight == 0.5:
        (panel,) = drawing.panels
        assert [ring["label"] for ring in panel.spec["datasets"]["best"]] == [f"ε = {at}"]
        assert f">ε = {at}<" in svgs([panel.spec])[0]


def test_a_model_with_false_claims_alone_is_not_offered(make: Make) -> None:
    recommended, notes = advice(chart(make(epsilons=(0.1, 1.0))))
    assert not recommended
    (note,) = notes
    assert note.startswith("published is not offered")
    assert note.endswith("false at ε = 0.1, 1.")


def test_a_claim_in_doubt_is_not_offered_and_one_not_tested_is_said_to_be(make: Make) -> None:
    base = make(epsilons=(10.0, 20.0, 30.0))
    reasons = {10.0: "doubt", 20.0: "no power", 30.0: None}
    doubted = [
        verdict.model_copy(
            update={
                "verdict": "not tested" if reasons[verdict.epsilon] else "survived",
                "reason": reasons[verdict.epsilon],
            }
        )
        for verdict in base.verdicts
    ]
    recommended, notes = advice(chart(base.model_copy(update={"verdicts": doubted})))
    assert sorted(recommended) == [["20", "claim not tested"], ["30", "claim survived"]]
    (note,) = notes
    assert note.startswith("published is offered at some ε only")
    assert note.endswith("in doubt at ε = 10.")


def test_zero_difference_is_drawn_as_its_upper_bound(make: Make) -> None:
    result = make()
    same = [
        measurement.model_copy(
            update={
                "estimate": measurement.estimate.model_copy(update={"value": 1.0, "lower": 0.97})
            }
        )
        if measurement.metric == "utility.overlap" and measurement.epsilon == 10
        else measurement
        for measurement in result.measurements
    ]
    record = result.model_copy(update={"measurements": same})
    chart = difference(record, look_of(record))
    assert chart is not None
    points = chart.panels[0].spec["datasets"]["points"]
    zero = next(point for point in points if point["x"] == 10)
    assert zero["drawn"] == "upper bound (measured: 0)"
    assert zero["y"] == pytest.approx(0.03)
    assert all(point["y"] > 0 and point["lower"] > 0 for point in points)
