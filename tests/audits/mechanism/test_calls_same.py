"""Which data sets count as equal, and are refused as a pair."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array

from dpaudit.audits.mechanism.audit import audit, audit_pairs
from dpaudit.audits.mechanism.calls import same_data
from dpaudit.core.errors import InputError
from dpaudit.testing import assert_satisfies_dp

FRAME = pd.DataFrame({"a": [1, 2]})
SAME: list[tuple[Any, Any]] = [
    (1, 1),
    ("a", "a"),
    ([1, [2, 3]], [1, [2, 3]]),
    ({"a": np.ones(2)}, {"a": np.ones(2)}),
    (np.arange(6).reshape(2, 3), np.arange(6).reshape(2, 3)),
    ((np.ones(2), "x"), (np.ones(2), "x")),
    (FRAME, FRAME.copy()),
    (csr_array(np.eye(3)), csr_array(np.eye(3))),
    ({1, 2}, {2, 1}),
]
DIFFERENT: list[tuple[Any, Any]] = [
    (1, 2),
    (1, 1.0),
    ([1, 2], [1, 2, 3]),
    ([1, 2], (1, 2)),
    (np.ones(2), np.ones(3)),
    (np.ones(2), np.array([1.0, 2.0])),
    ({"a": 1}, {"a": 1, "b": 2}),
    (FRAME, FRAME + 1),
    (csr_array(np.eye(3)), csr_array(2 * np.eye(3))),
    (object(), object()),
]


@pytest.mark.cases("pair", SAME)
def test_equal_data_sets_are_refused(pair: tuple[Any, Any]) -> None:
    def never(data: Any, rng: np.random.Generator) -> float:
        raise AssertionError

    assert same_data(*pair)
    with pytest.raises(InputError, match=r"pairs\[0\] .*same data set"):
        audit(never, *pair)
    with pytest.raises(InputError, match=r"pairs\[1\] .*same data set"):
        audit_pairs(never, [(0, 1), pair])
    with pytest.raises(InputError, match="the same data set twice"):
        assert_satisfies_dp(never, pair, 1.0)


@pytest.mark.cases("pair", DIFFERENT)
def test_different_data_sets_are_not(pair: tuple[Any, Any]) -> None:
    assert not same_data(*pair)


def nested(depth: int) -> list[Any]:
    inside: list[Any] = []
    for _ in range(depth):
        inside = [inside]
    return inside


def holds_itself() -> list[Any]:
    data: list[Any] = []
    data.append(data)
    return data


@pytest.mark.parametrize(
    "pair", [(nested(5000), nested(5000)), (holds_itself(), holds_itself())], ids=["deep", "cyclic"]
)
def test_data_sets_that_cannot_be_walked_are_not_known_to_be_equal(pair: tuple[Any, Any]) -> None:
    assert not same_data(*pair)
