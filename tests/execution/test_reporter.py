"""Progress: plain lines without a terminal, not too many, and a bar that fits one."""

from __future__ import annotations

import os
import re
import sys
import time
from contextlib import suppress
from itertools import pairwise

import pytest

from dpaudit.core.errors import RunError
from dpaudit.core.rounding import duration, size
from dpaudit.execution.reporter import Reporter, interactive


class Clock:
    """A clock that tests move."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().err.splitlines()


def test_lines_come_soon_then_by_tenths_and_half_minutes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    clock = Clock()
    with Reporter(clock=clock) as reporter:
        reporter.stage("reading the data")
        clock.now = 10
        reporter.start(1000)
        reporter.workers("2 threads")
        reporter.stage("m: utility")
        reporter.stored(400)
        for second, trials in ((11, 60), (12, 60), (14, 6), (44, 6), (50, 60), (60, 408)):
            clock.now = second
            reporter.advance(trials)
    rest = "400 more were stored, 2 threads"
    assert lines(capsys) == [
        "m: utility: 0 of 1000 trials (0 %), 10 s elapsed, 2 threads",
        f"m: utility: 126 of 600 trials (21 %), 14 s elapsed, about 21.5 s left, 31.5/s, {rest}",
        "m: utility: 132 of 600 trials (22 %), 44 s elapsed, about 3 min 34 s left, 3.88/s, "
        f"{rest}",
        f"m: utility: 192 of 600 trials (32 %), 50 s elapsed, about 2 min 1 s left, 4.8/s, {rest}",
        f"m: utility: 600 of 600 trials (100 %), 1 min 0 s elapsed, 12/s, {rest}",
        f"done: 600 of 600 trials (100 %), 1 min 0 s elapsed, 12/s, {rest}",
    ]


def test_compilation_is_left_out_of_the_time_left(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    with Reporter(clock=clock) as reporter:
        reporter.start(100)
        for stage, begin in (("first", 0), ("second", 50)):
            reporter.stage(stage)
            # The first task compiles for half a minute, and the others take three seconds each.
            for second in (31, 34, 37, 40, 43):
                clock.now = begin + second
                reporter.advance(10)
    times = [line.partition("about ")[2].partition(" left")[0] for line in lines(capsys)]
    assert times == ["", "", "24 s", "21 s", "18 s", "15 s", "12 s", "9 s", "6 s", "3 s", "", ""]


def test_the_time_left_goes_down_without_jumps_within_a_task() -> None:
    clock = Clock()
    reporter = Reporter(quiet=True, clock=clock)
    reporter.start(10)
    reporter.stage("trainings")
    left: list[float | None] = []
    for second in range(0, 601):
        clock.now = float(second)
        if second and not second % 100:
            reporter.advance(1)
        left.append(reporter._left())
    assert left[150] is None  # the first task, which compiles, tells nothing
    known = [value for value in left if value is not None]
    assert left[200] == 800
    assert max(later - earlier for earlier, later in pairwise(known)) < 1e-6
    # A task that takes longer than all before it raises the estimate little by little.
    for second in range(700, 1000):
        clock.now = float(second)
        left.append(reporter._left())
    steps = [b - a for a, b in pairwise(left[-300:]) if a is not None and b is not None]
    assert max(map(abs, steps)) < 1


def test_workers_that_end_together_promise_no_end_too_early() -> None:
    clock = Clock()
    reporter = Reporter(quiet=True, clock=clock)
    reporter.start(40)
    reporter.workers("4 threads", 4)
    reporter.stage("trainings")
    left: list[float | None] = []
    for begin in range(0, 80, 10):  # four workers, ten seconds a task
        for second in (9.7, 9.8, 9.9, 10.0):
            clock.now = begin + second
            reporter.advance(1)
            left.append(reporter._left())
    known = [value for value in left if value is not None]
    assert known[0] == pytest.approx(80, rel=0.05)
    assert max(later - earlier for earlier, later in pairwise(known)) < 1


def test_what_follows_the_last_trial_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    with Reporter(clock=clock) as reporter:
        reporter.start(4)
        reporter.stage("trainings")
        clock.now = 10
        reporter.advance(4)
        for second, stage in ((14, "attacks by scores"), (15, "attacks by lists")):
            clock.now = second
            reporter.stage(stage)
        for second in (19, 20, 30):
            clock.now = second
            reporter._line()
    after = "all 4 trials are done, and results are computed"
    assert lines(capsys)[1:] == [
        "trainings: 4 of 4 trials (100 %), 10 s elapsed, 0.4/s",
        f"attacks by scores: {after}, 14 s elapsed",
        f"attacks by lists: {after}, 19 s elapsed",
        f"attacks by lists: {after}, 30 s elapsed",
        "done: 4 of 4 trials (100 %), 30 s elapsed, 0.133/s",
    ]


def test_a_long_task_is_seen_to_run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dpaudit.execution.reporter._LOOK", 0.01)
    clock = Clock()
    said: list[str] = []
    with Reporter(clock=clock) as reporter:
        reporter.stage("reading the data")
        clock.now = 31
        while not said:
            time.sleep(0.01)
            said = lines(capsys)
    assert said == ["reading the data: 31 s elapsed"]
    assert lines(capsys) == []  # nothing was counted


def test_trials_of_controls_are_added_to_the_total(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    with Reporter(clock=clock, unit="games") as reporter:
        reporter.start(10)
        reporter.expect(10)
        clock.now = 40
        reporter.advance(20)
    assert lines(capsys)[-1] == "done: 20 of 20 games (100 %), 40 s elapsed, 0.5/s"


def test_trials_that_the_total_did_not_count_are_added_to_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    clock = Clock()
    with Reporter(clock=clock) as reporter:
        reporter.start(10)
        reporter.stored(4)
        clock.now = 40
        for _ in range(3):
            reporter.advance(6)
    last = "done: 18 of 18 trials (100 %), 40 s elapsed, 0.45/s, 4 more were stored"
    assert lines(capsys)[-1] == last


def test_what_is_stored_needs_no_rate(capsys: pytest.CaptureFixture[str]) -> None:
    with Reporter(clock=Clock()) as reporter:
        reporter.start(30)
        reporter.stored(30)
    assert lines(capsys) == ["done: all 30 trials were stored, 0 ms elapsed"]


def test_a_run_that_fails_is_not_done(capsys: pytest.CaptureFixture[str]) -> None:
    with suppress(RunError), Reporter(clock=Clock()) as reporter:
        reporter.start(30)
        raise RunError("failed")
    assert lines(capsys) == []


@pytest.mark.cases("variable", ["FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE"])
def test_lines_have_no_escape_codes(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, "1")
    with Reporter(clock=Clock()) as reporter:
        reporter.start(2)
        reporter.stage("s\x1b[31mtage\r")
        reporter.note("a note")
        reporter.advance(2)
    said = capsys.readouterr().err
    assert "\x1b" not in said
    assert "\r" not in said
    assert said.splitlines()[1] == "dpaudit: a note"


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pseudo-terminals")
@pytest.mark.parametrize(("width", "more"), [(80, False), (130, True)])
def test_a_bar_fits_the_terminal(monkeypatch: pytest.MonkeyPatch, width: int, more: bool) -> None:
    """Stage, bar, finished trials and time left; a wide one has room for the workers too."""
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "xterm")
    stage = "a model with a long name: a stage whose name takes most of the line, or all of it"
    screen, terminal = os.openpty()
    with os.fdopen(terminal, "w", encoding="utf-8") as stderr:
        monkeypatch.setattr(sys, "stderr", stderr)
        with Reporter() as reporter:
            reporter.start(12_345_678)
            reporter.workers("8 threads")
            reporter.stage(stage)
            for _ in range(3):
                time.sleep(0.01)
                reporter.advance(1_000_000)
    drawn = b""
    with suppress(OSError), os.fdopen(screen, "rb", buffering=0) as terminal_output:
        while piece := terminal_output.read(2**16):
            drawn += piece
    text = drawn.decode()
    shown = [re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", line) for line in re.split(r"[\r\n]+", text)]
    line = next(line for line in reversed(shown) if line.strip())
    assert max(map(len, shown)) <= width
    assert re.match(r"a model with a long name: .*━━━ +3000000/12345678 .*\d:\d\d:\d\d left", line)
    assert ("8 threads" in line) == more


def test_quiet_prints_notes_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    with Reporter(quiet=True, clock=clock) as reporter:
        reporter.start(10)
        clock.now = 100
        reporter.advance(1)
        reporter.note("the store\nis damaged")
    assert lines(capsys) == ["dpaudit: the store is damaged"]


@pytest.mark.cases(
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


def test_a_notebook_has_plain_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not interactive()
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    assert interactive()
    # A bar needs widgets, which few notebooks have.
    assert Reporter()._bar.disable
