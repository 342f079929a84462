"""Checks of trainings on different data with the same noised sums."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import dpsgd  # type: ignore[import-not-found]
import numpy as np
import pytest

from dpaudit.audits.dp_training import pairs
from dpaudit.audits.dp_training.transcript import Setup, Transcript

KEPT = [np.zeros(3, np.float32)] * 16


def training(**changes: object) -> Transcript:
    made: Transcript = dpsgd.transcript(0, kept=KEPT, final="weights", **changes)
    return made


def test_the_same_decisions_hold() -> None:
    verdict = pairs.forced(training(), training())
    assert verdict.outcome == "holds"
    assert "16 steps" in verdict.text


def test_other_decisions_fail_with_an_infinite_epsilon() -> None:
    one = training()
    moved = replace(one, steps=[replace(one.steps[0], state="other"), *one.steps[1:]])
    smaller = replace(one, setup=replace(one.setup, coordinates=10))
    for other, words in (
        (training(steps=9), "makes 9 and not 16 steps"),
        (moved, "before step 1 differ"),
        (smaller, "10 instead of 2,000 parameters"),
        (replace(one, final="others"), "final weights"),
        (training(steps=17), "makes more than 16 steps"),
    ):
        verdict = pairs.forced(one, other)
        assert verdict.fails
        assert words in verdict.text
        assert verdict.epsilon == math.inf


def alone(norm: float, *, elsewhere: float = 0.0, steps: int = 32) -> list[Transcript]:
    """Return three trainings whose last rows have a gradient of this norm, in one of ten steps."""
    runs = []
    for index in range(3):
        base = dpsgd.transcript(0, steps=steps)
        made = []
        for number, step in enumerate(base.steps):
            summed = np.zeros(dpsgd.COORDINATES, np.float32)
            summed[100:] = 1 + (elsewhere if index == 0 else 0)
            if number % 20 == 3:
                summed[index * 2 : index * 2 + 2] = norm / math.sqrt(2)
            made.append(replace(step, sums=summed))
        runs.append(replace(base, steps=made))
    return runs


@pytest.mark.long
@pytest.mark.cases(
    ("norm", "outcome"), [(1.0, "holds"), (1.41, "fails"), (30.0, "fails"), (0.1, "not tested")]
)
def test_a_row_changes_the_sum_by_the_norm_at_most(norm: float, outcome: str) -> None:
    runs = alone(norm)
    verdict = pairs.sums(runs, dpsgd.law(runs[0]))
    assert verdict.outcome == outcome
    if outcome == "fails":
        law = dpsgd.law(runs[0])
        assert verdict.epsilon == pytest.approx(law.changed(noise=1 / norm).epsilon, rel=1e-3)


def test_sums_of_batches_without_the_row_may_not_change() -> None:
    runs = alone(1.0, elsewhere=0.001)
    verdict = pairs.sums(runs, dpsgd.law(runs[0]))
    assert verdict.fails
    assert "batches without the row" in verdict.text


@pytest.mark.long
def test_rows_of_a_user_that_are_clipped_by_themselves_change_a_sum_by_more() -> None:
    runs = alone(2.5)
    law = replace(dpsgd.law(runs[0]), rate=1 / 100)
    verdict = pairs.sums(runs, law, 10)
    assert verdict.fails
    assert "by 2.5 C on its own coordinates" in verdict.text


def test_batches_that_differ_are_not_compared() -> None:
    runs = alone(30.0)
    runs[1] = replace(runs[1], steps=[replace(step, rows=1) for step in runs[1].steps])
    verdict = pairs.sums(runs, dpsgd.law(runs[0]))
    assert verdict.outcome == "not tested"
    assert "differ in size" in verdict.text


def setups(**changes: Any) -> list[tuple[Setup, Setup]]:
    one = Setup(4032, 1 / 63, 1.0, 1.0, 63, divisor=64.0, coordinates=8000)
    return [(one, replace(one, records=4031, **changes))]


def test_a_divisor_that_depends_on_the_number_of_rows_is_told_by_its_size() -> None:
    law = dpsgd.Law(1.0, 1 / 63, 63, 8000, dpsgd.DELTA)
    equal = pairs.by_number(setups(), law, 4.0)
    assert (equal.outcome, equal.epsilon) == ("holds", 0.0)
    divisor = pairs.by_number(setups(divisor=63.0), law, 4.0)
    assert divisor.fails
    assert divisor.epsilon == pytest.approx(194, rel=0.02)
    assert "4,032 and 4,031 rows the divisor is 64 and 63" in divisor.text
    steps = pairs.by_number(setups(steps=62), law, 4.0)
    assert 0 < steps.epsilon < divisor.epsilon
    little = pairs.by_number(setups(noise_multiplier=1 + 1e-6), law, 4.0)
    assert little.outcome == "holds"
    assert "less than is claimed" in little.text
