"""What attackers find beside a guess and a limit."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dpaudit.reports.frequency import Frequency
from tests.support.records import accuracy


@pytest.mark.cases(
    ("value", "guess", "limit", "shown"),
    [
        (0.605, 0.01, 0.45, ("60 of 100", "1", "45")),
        # A value that rounds to its limit, but is another number, has more digits.
        (0.4543, 0.01, 0.45, ("454 of 1,000", "10", "450")),
        (0.45, 0.01, 0.45, ("45 of 100", "1", "45")),
        (0.0073, 0.001, None, ("7 of 1,000", "1", "none")),
        # None only if the share is 0.
        (0.0004, 0.01, None, ("under 1 of 100", "1", "none")),
        (0.0, 0.01, None, ("0 of 100", "1", "none")),
        (1 / 3, 1 / 5, 0.3, ("33 of 100", "20", "30")),
        (0.2, 1 / 3, None, ("20 of 100", "33", "none")),
        (0.2, 0.01, 0.255, ("200 of 1,000", "10", "255")),
        # Only a share of 1 is all.
        (0.9996, 0.2, None, ("99 of 100", "20", "none")),
        (1.0, 0.2, None, ("100 of 100", "20", "none")),
    ],
)
def test_a_share_a_guess_and_a_limit_have_one_base(
    value: float, guess: float, limit: float | None, shown: tuple[str, str, str]
) -> None:
    measurement = accuracy(value, value, value)
    frequency = Frequency(measurement, "a", "hidden ratings are recovered", guess, limit=limit)
    assert frequency.counts == shown
    assert frequency.over == (limit is not None and value > limit)


def test_a_sentence_names_what_is_found_false_alarms_a_guess_and_the_limit() -> None:
    measurement = accuracy(0.6, 0.5, 0.7)
    frequency = Frequency(measurement, "a", "users are recognised", 0.01, 0.01, 0.45)
    assert frequency.sentence == (
        "60 of 100 users are recognised; the limit is 45, a guess finds 1"
    )
    assert frequency.detail == "It makes 1 false alarm in 100; the interval is 50 to 70."


def test_a_detail_says_over_how_many_trainings_a_range_is() -> None:
    measurement = accuracy(0.131, 0.105, 0.161)
    frequency = Frequency(measurement, "a", "users are recognised", 0.2)
    assert frequency.between == "10 to 17"
    ranged = measurement.model_copy(
        update={"estimate": measurement.estimate.changed(kind="range", n=19)}
    )
    detail = replace(frequency, measurement=ranged).detail
    assert detail == "The range of 19 judged trainings is 10 to 17."


def test_ends_beyond_all_or_none_are_cut() -> None:
    frequency = Frequency(accuracy(0.5, -1e308, 1e308), "a", "users are recognised", 0.2)
    assert frequency.between == "0 to 100"
