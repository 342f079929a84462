"""Shares as natural frequencies, and numbers beside their limits."""

from __future__ import annotations

from typing import Any

import pytest

from dpaudit.core.frequency import Spelling, base_of, counted, false_alarms, out_of, shares
from tests.support.records import accuracy


@pytest.mark.cases(
    ("rate", "shown"),
    [
        (0.01, "1 false alarm in 100"),
        (0.001, "1 false alarm in 1,000"),
        (0.05, "5 false alarms in 100"),
        (0.025, "25 false alarms in 1,000"),
        (0.0, "no false alarm"),
    ],
)
def test_rates_of_false_alarms(rate: float, shown: str) -> None:
    assert false_alarms(rate) == shown


def test_the_base_is_at_most_a_million() -> None:
    assert base_of(0.5, 1.4e-6) == 10**6
    assert out_of(1e-9, 10**6) == "under 1 of 1,000,000"
    assert counted(0.12345, 10_000) == "1,234"


@pytest.mark.cases(
    ("value", "kind", "said"),
    [
        (0.42, "range", "42 of 100 (33 to 51 in 9 trainings)"),
        (0.42, "frequentist", "42 of 100 (33 to 51)"),
        (0.0042, "frequentist", "4 of 1,000 (3 to 6)"),
        (0.0, "frequentist", "0 of 100 (0 to 0)"),
    ],
)
def test_shares_are_frequencies_with_their_ranges(value: float, kind: Any, said: str) -> None:
    number = accuracy(value, 0.8 * value, 1.2 * value).estimate.changed(kind=kind, n=9)
    assert shares(number) == said


def test_a_number_beside_its_limit_is_counted_of_one_base_or_plain() -> None:
    estimate = accuracy(0.4543, 0.31, 0.559).estimate.changed(kind="range", n=19)
    spelled = Spelling(base_of(0.4543, 0.01, 0.45))
    assert spelled.interval(estimate) == "454 of 1,000 (310 to 559 in 19 trainings)"
    assert spelled.limit(0.45) == "450"
    plain = Spelling(None)
    assert plain.interval(estimate.changed(n=1)) == "0.4543 (0.31 to 0.559)"
    assert plain.limit(0.45) == "0.45"
