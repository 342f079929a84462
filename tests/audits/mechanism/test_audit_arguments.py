"""Arguments that no audit can use are refused, before the mechanism is called."""

from __future__ import annotations

import math
from typing import Any

import pytest

from dpaudit import audit, audit_pairs
from dpaudit.core.errors import InputError
from dpaudit.testing import assert_satisfies_dp


def never(data: Any, rng: Any) -> float:
    raise AssertionError("called")


WRONG: list[Any] = [math.nan, math.inf, -1, True, "x", "", [], [0.1], 2**70]


@pytest.mark.cases("value", WRONG, ids=repr)
@pytest.mark.cases("name", ["delta", "confidence", "trials", "detectable"])
def test_a_wrong_number_is_refused_by_its_name(name: str, value: Any) -> None:
    with pytest.raises(InputError, match=f"{name}.* = "):
        audit(never, [0.0], [1.0], **{name: value})


@pytest.mark.cases("value", [value for value in WRONG if value != 2**70], ids=repr)
def test_a_claim_that_is_no_number_is_refused(value: Any) -> None:
    with pytest.raises(InputError, match="claim = "):
        audit(never, [0.0], [1.0], claim=value)
    with pytest.raises(InputError, match="epsilon = "):
        assert_satisfies_dp(never, ([0.0], [1.0]), value)


@pytest.mark.cases("value", WRONG, ids=repr)
def test_a_false_alarm_that_is_no_share_is_refused(value: Any) -> None:
    with pytest.raises(InputError, match="false_alarm = "):
        assert_satisfies_dp(never, ([0.0], [1.0]), 1.0, false_alarm=value)


@pytest.mark.cases("pairs", [None, 3, "x", [], [1]], ids=repr)
def test_pairs_that_are_none_are_refused(pairs: Any) -> None:
    with pytest.raises(InputError, match="pairs"):
        audit_pairs(never, pairs)


def test_a_log_ratio_that_is_no_function_is_refused() -> None:
    wrong: Any = 3
    with pytest.raises(InputError, match="log_ratio = 3 is not a function"):
        audit(never, [0.0], [1.0], log_ratio=wrong)
