from __future__ import annotations

import math
from typing import Any

import pytest
from pydantic import ValidationError

from dpaudit.core.estimate import Estimate

FIELDS: dict[str, Any] = {
    "value": 0.4,
    "lower": 0.3,
    "upper": 0.5,
    "confidence": 0.95,
    "alpha": 0.05,
    "n": 10,
    "method": "test",
}


@pytest.mark.cases(
    "wrong",
    [
        {"value": math.nan},
        {"lower": math.nan},
        {"upper": math.nan},
        {"alpha": math.nan},
        {"confidence": math.nan},
        {"lower": 0.6},
        {"confidence": 1.1},
        {"n": -1},
    ],
)
def test_what_is_no_interval_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Estimate(**{**FIELDS, **wrong})
    with pytest.raises(ValidationError):
        Estimate(**FIELDS).changed(**wrong)


def test_ends_may_be_infinite() -> None:
    estimate = Estimate(**FIELDS).changed(lower=-math.inf, upper=math.inf)
    assert (estimate.lower, estimate.value, estimate.upper) == (-math.inf, 0.4, math.inf)


def test_an_increasing_function_maps_the_ends_and_keeps_the_rest() -> None:
    estimate = Estimate(**FIELDS).mapped(lambda share: 10 * share - 1)
    assert (estimate.value, estimate.lower, estimate.upper) == (3.0, 2.0, 4.0)
    assert estimate.changed(value=0.4, lower=0.3, upper=0.5) == Estimate(**FIELDS)
