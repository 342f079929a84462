"""The table of intervals."""

from __future__ import annotations

from dpaudit.record.metrics import METRICS
from dpaudit.reports.sections import intervals


def test_every_metric_has_a_name_in_the_table() -> None:
    assert set(intervals._QUANTITIES) == set(METRICS)
