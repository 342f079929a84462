"""The notes of a report, and the table of its intervals."""

from __future__ import annotations

import numpy as np
import pytest
from records import estimate, make_result  # type: ignore[import-not-found]

from dpaudit.auditor.trainings import joint_mean
from dpaudit.audits.trained.subject import over_folds
from dpaudit.bounds.frequentist.intervals import student_mean
from dpaudit.core.estimate import Estimate
from dpaudit.record.result import AuditResult, Family, Measurement
from dpaudit.record.values import Census
from dpaudit.reports.sections import footnotes
from dpaudit.reports.sections.footnotes import has_joint_intervals, interval_table, joint_confidence

FAMILY = Family.of(0.95, 4)
VALUES = np.array([0.8, 0.9, 1.0, 0.7])


def holding(value: Estimate, metric: str = "utility.rmse") -> AuditResult:
    record: AuditResult = make_result()
    point = record.points[0]
    measurement = Measurement(
        metric=metric, model=point.model, epsilon=point.epsilon, estimate=value
    )
    return record.model_copy(update={"measurements": [measurement]})


@pytest.mark.cases(
    ("made", "folds", "joint"),
    [
        (over_folds(VALUES.tolist(), 0.95), True, False),
        (student_mean(VALUES.tolist(), 0.05, "trainings"), False, False),
        (joint_mean(VALUES, FAMILY), False, True),
        (joint_mean(VALUES[:, None] * np.ones(3), FAMILY), False, True),
        (estimate(0.5, 0.4, 0.6), False, True),
    ],
    ids=["folds", "trainings", "joint", "joint on folds", "on demand"],
)
def test_only_means_over_folds_are_called_so(made: Estimate, folds: bool, joint: bool) -> None:
    record = holding(made)
    assert has_joint_intervals(record) is joint
    said = [note for note in footnotes.notes(record) if "mean over the folds" in note]
    assert bool(said) is folds


def test_the_table_says_how_a_leak_was_bounded() -> None:
    record = holding(estimate(0.3, 0.2, 0.4, method="largest of 3 joint intervals"))
    (measurement,) = record.measurements
    leak = Measurement(**{**dict(measurement), "metric": "leak", "attack": "strongest"})
    (row,) = interval_table(record.model_copy(update={"measurements": [leak]})).cells
    assert row == [
        "leak, to attack strongest", "4000", "0.005", "largest of 3 joint intervals", "frequentist",
    ]  # fmt: skip


@pytest.mark.parametrize("gate", [False, True])
def test_gates_about_trainings_have_a_level_beside_that_of_what_is_certified(gate: bool) -> None:
    values = (0.6, 0.7)
    number = Census(values=values, lower=values, upper=values, alpha=0.0).estimate
    record = make_result(gate=gate)
    first = record.measurements[0].model_copy(update={"estimate": number})
    record = record.model_copy(update={"measurements": [first]})
    said = joint_confidence(record)
    assert said.startswith("What is certified holds together with 95 %")
    assert ("all gates that pass" in said) is gate
