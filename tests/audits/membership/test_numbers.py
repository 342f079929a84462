"""Numbers of attacks: which attack is the strongest, and what missing answers may hide."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from membership_cases import FAMILY  # type: ignore[import-not-found]

from dpaudit.audits.membership.calibration import Judged
from dpaudit.audits.membership.numbers import Number, alone, joint, numbers
from dpaudit.audits.membership.rates import Curve

RATE = Number("attack.tpr", 0.1)


def one(seed: int, shift: float, promise: float, trainings: int = 32) -> Judged:
    rng = np.random.default_rng(seed)
    present = rng.random((trainings, 200)) < 0.5
    scores = rng.normal(size=present.shape) + shift * present
    promised = {"auc": 1 - promise, "advantage": 0.0, "tpr 0.1": promise}
    return Judged(scores, present, 0.0, (0.5, 0.5), promised)


def test_the_strongest_by_each_number_is_that_of_the_rehearsal() -> None:
    found = {"a": one(0, 0.5, 0.2), "b": one(1, 0.0, 0.9)}
    label, estimate = joint(found, RATE, FAMILY)
    assert label == "b"
    assert estimate.value == pytest.approx(
        Curve(found["b"].scores, found["b"].present).found(0.1).mean()
    )
    assert estimate.kind == "frequentist"
    assert joint(found, Number("attack.auc"), FAMILY)[0] == "a"
    assert alone(found["b"], RATE, FAMILY).value == pytest.approx(estimate.value)
    assert alone(found["b"], RATE, FAMILY).kind == "assumes-law"


@pytest.mark.parametrize("number", numbers([0.1]))
def test_missing_answers_raise_the_upper_end_and_nothing_else(number: Number) -> None:
    plain = one(2, 0.3, 0.5)
    lacking = np.random.default_rng(3).random(plain.present.shape) < 0.3
    found = replace(plain, unanswered=lacking.astype(float))
    before, after = (joint({"a": each}, number, FAMILY)[1] for each in (plain, found))
    assert (after.value, after.lower) == (before.value, before.lower)
    # Whoever tells all that is missing is as good as this, and no better.
    told = np.where(plain.present, 100.0, -100.0)
    oracle = replace(plain, scores=np.where(lacking, told, plain.scores))
    best = joint({"a": oracle}, number, FAMILY)[1]
    assert after.upper == pytest.approx(best.upper)
    assert after.upper > before.upper + 0.1
    assert "missing answers as leaks" in after.method
    # One answer that a user lacks may tell as much as all.
    for share in (0.01, 1.0):
        everyone = replace(plain, unanswered=np.full(plain.present.shape, share))
        assert joint({"a": everyone}, number, FAMILY)[1].upper == 1
