"""Numbers of attacks: their average and range over trainings, and what missing answers may hide."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from membership_cases import FAMILY  # type: ignore[import-not-found]

from dpaudit.audits.membership.calibration import Curve, Judged
from dpaudit.audits.membership.inference import Number, average, numbers, range_of

RATE = Number("attack.tpr", 0.1)


def one(seed: int, shift: float, promise: float, trainings: int = 32) -> Judged:
    rng = np.random.default_rng(seed)
    present = rng.random((trainings, 200)) < 0.5
    scores = rng.normal(size=present.shape) + shift * present
    promised = {"auc": 1 - promise, "advantage": 0.0, "tpr 0.1": promise}
    return Judged(scores, present, np.arange(200), 0.3, (0.5, 0.5), promised)


def test_the_average_and_the_range_are_of_the_judged_trainings() -> None:
    judged = one(1, 0.5, 0.9)
    values = Curve(judged.scores, judged.present).rates(0.1)
    mean, shown = average([judged], RATE, FAMILY), range_of(values)
    assert mean.value == pytest.approx(values.mean())
    assert (shown.value, shown.lower, shown.upper) == pytest.approx(
        (values.mean(), values.min(), values.max())
    )
    assert (mean.kind, shown.kind) == ("frequentist", "range")
    assert shown.alpha == pytest.approx(2 / 33)
    assert range_of(np.array([0.3])).upper == 0.3


@pytest.mark.cases("number", numbers([0.1]))
def test_missing_answers_raise_the_upper_end_and_nothing_else(number: Number) -> None:
    plain = one(2, 0.3, 0.5)
    lacking = np.random.default_rng(3).random(plain.present.shape) < 0.3
    found = replace(plain, unanswered=lacking.astype(float))
    before, after = (average([judged], number, FAMILY) for judged in (plain, found))
    assert (after.value, after.lower) == (before.value, before.lower)
    # Whoever tells all that is missing is as good as this, and no better.
    scores = np.where(plain.present, 100.0, -100.0)
    oracle = replace(plain, scores=np.where(lacking, scores, plain.scores))
    best = average([oracle], number, FAMILY)
    if number.metric == "attack.advantage":  # at the rate that others chose
        assert after.upper > best.upper
    else:
        assert after.upper == pytest.approx(best.upper)
    assert after.upper > before.upper + 0.1
    assert "missing answers as leaks" in after.method
    # One answer that a user lacks may tell as much as all.
    for share in (0.01, 1.0):
        everyone = replace(plain, unanswered=np.full(plain.present.shape, share))
        assert average([everyone], number, FAMILY).upper == 1
