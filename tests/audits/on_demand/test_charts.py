from __future__ import annotations

import pytest

from dpaudit.audits.on_demand import charts
from dpaudit.reports.sections.base import look_of
from tests.support.records import Make


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
    chart = charts.difference(record, look_of(record))
    assert chart is not None
    points = chart.panels[0].spec["datasets"]["points"]
    zero = next(point for point in points if point["x"] == 10)
    assert zero["drawn"] == "upper bound (measured: 0)"
    assert zero["y"] == pytest.approx(0.03)
    assert all(point["y"] > 0 and point["lower"] > 0 for point in points)
