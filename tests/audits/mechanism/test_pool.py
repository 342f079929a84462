"""Outputs from which mutants are made."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpaudit.attacks.black_box import leaves
from dpaudit.audits.mechanism.pool import Pool


def pool(outputs: Any) -> Pool:
    return Pool.of(outputs, given_score=False)


def test_two_outputs_that_occur_nowhere_else() -> None:
    assert pool(np.arange(50)).informative() == (50, 51)
    assert pool(np.full(50, 254, np.uint8)).informative() is None
    assert pool(["a"] * 50).informative() is None
    values = np.r_[np.zeros(50), 1.5, 2.5]
    assert pool(values).informative() == (1.5, 2.5)


def test_leaves_of_arrays_and_of_readings_are_alike() -> None:
    array = np.random.default_rng(0).normal(size=(20, 3))
    one, other = pool(array), pool([*array, "word"])
    assert one.width == 3
    assert other.width == 1
    assert [one.leaf(i, 2) for i in range(20)] == [other.leaf(i, 2) for i in range(20)]
    assert other.leaf(20, 2) == (leaves.PADDING, 0)
    assert one.entry(1) is not None
    assert other.entry(1) is None


def test_only_finite_numbers_are_compared() -> None:
    assert pool([1.0, float("nan")]).entry(0) is None
    assert pool([1.0, "a"]).kind(0) is None
    assert pool([1, 2.5]).entry(0) == [1, 2.5]
