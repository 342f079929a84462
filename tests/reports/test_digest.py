"""Sentences that readable reports make of a record."""

from __future__ import annotations

from typing import Any

import pytest

from dpaudit.record.result import AuditResult, GateRecord
from dpaudit.reports.digest import why


@pytest.mark.cases(
    ("pace", "words"),
    [
        (None, "too few; 40 trainings that show the like decide it"),
        (1.0, "decide it, less than a minute more on one worker"),
        (20.0, "decide it, about 5 minutes more on one worker"),
        (2000.0, "decide it, about 9 hours more on one worker"),
    ],
)
def test_a_gate_says_how_many_trainings_and_how_much_time_decide_it(
    result: AuditResult, pace: float | None, words: str
) -> None:
    """The time is in the record's timing alone, which differs from run to run."""
    point: Any = result.points[0]
    timed = result.model_copy(
        update={
            "config": {**result.config, "membership": {"trainings": 24}},
            "points": [point],
            "timing": result.timing.model_copy(update={"training": pace}),
        }
    )
    gate = GateRecord(id="g", rule="r", outcome="inconclusive", reason="too few", trainings=40)
    assert why(gate, timed).endswith(words)
    assert why(gate.model_copy(update={"trainings": None}), timed) == "too few"
