"""The chosen number of trials: fewer where a call is slow, enough for a stated power."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

from dpaudit.audits.mechanism.calls import Calls
from dpaudit.bounds.power.power import detectable_epsilon
from dpaudit.testing import trials
from dpaudit.testing.trials import affordable, sufficient


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that mechanisms advance."""
    now = [0.0]
    monkeypatch.setattr("dpaudit.testing.trials.time.perf_counter", lambda: now[0])
    return now


@pytest.mark.cases(
    ("seconds", "count"),
    [(1e-6, 20_000), (4e-4, 20_000), (6e-4, 10_000), (4e-3, 2_000), (9e-3, 1_000), (5.0, 1_000)],
)
@pytest.mark.cases("batched", [False, True])
def test_calls_take_about_ten_seconds(
    clock: list[float], seconds: float, count: int, batched: bool
) -> None:
    """The first call takes longer, as it compiles."""
    calls = itertools.count()

    def mechanism(data: int, rng: np.random.Generator, *n: int) -> Any:
        clock[0] += seconds if next(calls) else 100.0
        return rng.random(n[0]) if n else rng.random()

    assert affordable(Calls(mechanism, batched, 5), (0, 1)) == count
    assert next(calls) <= 1 + max(1, 4 * trials._TIMED / seconds)  # what the timing itself takes


def test_a_stated_power_has_enough_trials() -> None:
    def least(count: int) -> float:
        return detectable_epsilon(1.0, count, 1e-6)

    counts = [sufficient(least, 1.0, factor) for factor in (3.0, 2.0, 1.5, 1.1)]
    assert counts == sorted(counts)
    for count, factor in zip(counts, (3.0, 2.0, 1.5, 1.1), strict=True):
        assert least(count) < factor
    assert counts[0] < 20_000 < counts[-1]
    assert sufficient(lambda count: math.inf, 1.0, 2.0) == 1_000_000
