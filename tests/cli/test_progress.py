"""Progress without a terminal: plain lines, not too many, with rate and time left."""

from __future__ import annotations

import pytest

from dpaudit.cli.progress import Reporter
from dpaudit.cli.words import duration, size


class Clock:
    """A clock that tests move."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().err.splitlines()


def test_a_line_every_half_minute(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    with Reporter(clock=clock) as reporter:
        reporter.start(1000)
        reporter.workers("2 threads")
        reporter.stage("m: utility")
        reporter.stored(400)
        for second in range(1, 101):
            clock.now = second
            reporter.advance(5)
    assert lines(capsys) == [
        "m: utility: 150 of 600 trials, 5/s, 1 min 30 s left, 400 more were stored, 2 threads",
        "m: utility: 300 of 600 trials, 5/s, 1 min 0 s left, 400 more were stored, 2 threads",
        "m: utility: 450 of 600 trials, 5/s, 30 s left, 400 more were stored, 2 threads",
    ]


def test_trials_of_controls_are_added_to_the_total(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    with Reporter(clock=clock) as reporter:
        reporter.start(10)
        reporter.expect(10)
        clock.now = 40
        reporter.advance(20)
    assert lines(capsys) == [": 20 of 20 trials, 0.5/s"]


def test_quiet_prints_notes_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    with Reporter(quiet=True, clock=clock) as reporter:
        reporter.start(10)
        clock.now = 100
        reporter.advance(1)
        reporter.note("the store\nis damaged")
    assert lines(capsys) == ["dpaudit: the store is damaged"]


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.0021, "2.1 ms"),
        (3.25, "3.25 s"),
        (61, "1 min 1 s"),
        (3 * 3600 + 125, "3 h 2 min"),
        (3 * 86_400 + 7200, "3 d 2 h"),
    ],
)
def test_durations_have_the_largest_units(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_sizes_have_the_largest_unit() -> None:
    assert [size(count) for count in (0, 1023, 2048, 3 * 2**30)] == [
        "0 B",
        "1023 B",
        "2 KiB",
        "3 GiB",
    ]
