"""Progress on standard error: a bar on a terminal, and plain lines elsewhere."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from threading import Event, Lock, Thread
from types import TracebackType
from typing import Self

import click
from rich import progress
from rich.console import Console
from rich.table import Column
from rich.text import Text

from dpaudit.core.messages import plain
from dpaudit.core.rounding import duration, number
from dpaudit.core.standard import streams
from dpaudit.execution.tasks import Progress

# Seconds between two plain lines at most, and at least, if a tenth of the trials has finished, or
# all have and another stage begins; and at most, where all have.
_MOST, _LEAST, _AFTER = 30.0, 3.0, 10.0
# Seconds between two looks at the clock, as a long task reports nothing.
_LOOK = 1.0
# A narrower terminal has no room for what can be done without.
_WIDE = 110


class _Stage(progress.ProgressColumn):
    """The stage, cut short where it does not fit: all else stands whole."""

    def __init__(self) -> None:
        super().__init__(Column(overflow="ellipsis"))

    def render(self, task: progress.Task) -> Text:
        """Return the stage."""
        return Text(task.description, no_wrap=True, overflow="ellipsis")


class _Rate(progress.TextColumn):
    """The trials finished in a second."""

    def render(self, task: progress.Task) -> object:  # type: ignore[override]
        """Return the rate, or nothing before it is known."""
        self.text_format = "" if not task.speed else f"{number(task.speed)}/s"
        return super().render(task)


def interactive() -> bool:
    """Return whether progress is shown to somebody who waits: on a terminal, or in a notebook."""
    return streams.errors.isatty() or Console(stderr=True).is_jupyter


class _Left(progress.ProgressColumn):
    """The time left, as plain lines have it."""

    def __init__(self, left: Callable[[], float | None]) -> None:
        super().__init__(Column(no_wrap=True))
        self._left = left

    def render(self, task: progress.Task) -> Text:
        """Return the time left, or what stands for it before it is known."""
        left = self._left()
        if left is None:
            return Text("-:--:--", style="progress.remaining")
        return Text(f"{timedelta(seconds=math.ceil(left))} left", style="progress.remaining")


def _columns(left: Callable[[], float | None], *, wide: bool) -> Iterator[progress.ProgressColumn]:
    yield _Stage()
    yield progress.BarColumn(bar_width=20 if wide else 10, table_column=Column(no_wrap=True))
    yield progress.MofNCompleteColumn(table_column=Column(no_wrap=True))
    if wide:
        yield _Rate("", markup=False)
        yield progress.TimeElapsedColumn(Column(no_wrap=True))
    yield _Left(left)
    if wide:
        yield progress.TextColumn("{task.fields[workers]}", markup=False)


class Reporter(Progress):
    """Shows the stage, the finished trials and the time left.

    A wide terminal and plain lines show the rate, the time so far and the workers, too.
    Plain lines have neither colours nor other escape codes, whatever FORCE_COLOR says.
    """

    def __init__(
        self,
        *,
        quiet: bool = False,
        unit: str = "trials",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Create a bar on a terminal, plain lines elsewhere, and neither if quiet."""
        # Code of others may replace sys.stderr, or close it.
        self._errors = streams.errors
        console = Console(file=self._errors)
        bar = not quiet and self._errors.isatty() and not console.is_dumb_terminal
        self._lines = not quiet and not bar
        self._unit, self._clock = unit, clock
        self._created = self._last = clock()
        self._started: float | None = None
        self._shown: int | None = None
        self._total = self._done = self._known = 0
        # Trials, and the seconds that they took, without what a stage begins with: it compiles.
        # Workers that begin together end together, so whole rounds of tasks are timed.
        self._paced, self._spent, self._block = 0, 0.0, 0
        self._workers_count, self._tasks, self._round = 1, 0, 0
        self._advanced: float | None = None
        self._stage = self._workers = self._said = ""
        self._ended, self._lock = Event(), Lock()
        self._bar = progress.Progress(
            *_columns(self._left, wide=console.width >= _WIDE),
            console=console,
            transient=True,
            disable=not bar,
        )
        self._task = self._bar.add_task("starting", total=None, workers="")

    def __enter__(self) -> Self:
        """Start drawing."""
        streams.lend()  # what code of others prints goes above the bar
        self._bar.start()
        if self._lines:
            Thread(target=self._watch, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Remove the bar, or print the last line."""
        self._bar.stop()
        self._ended.set()
        if kind is None and self._lines and self._started is not None:
            self._stage = "done"
            self._print(self._clock())

    def start(self, total: int) -> None:
        """Set the total number of trials."""
        self._total = total
        if self._started is None:
            self._started = self._clock()
        self._bar.update(self._task, total=total)

    def expect(self, trials: int) -> None:
        """Add trials to the total."""
        self.start(self._total + trials)

    def stage(self, text: str) -> None:
        """Set the name of the current stage."""
        self._stage, self._advanced = plain(text), None
        self._tasks = self._round = 0
        self._bar.update(self._task, description=self._stage)
        self._line()

    def advance(self, trials: int) -> None:
        """Add finished trials; the total grows if it did not count them."""
        self._done += trials
        if self._started is not None and self._done > self._total:
            self.start(self._done)
        self._tasks, self._round = self._tasks + 1, self._round + trials
        if self._tasks >= self._workers_count:
            self._end_round()
        self._bar.advance(self._task, trials)
        self._line()

    def _end_round(self) -> None:
        before, self._advanced = self._advanced, self._clock()
        if before is not None:
            self._paced += self._round
            self._spent += self._advanced - before
        self._block, self._tasks, self._round = self._round, 0, 0

    def stored(self, trials: int) -> None:
        """Add trials that an earlier run has finished; they say nothing about the rate."""
        self._known += trials
        self._total -= trials
        self._bar.update(self._task, total=self._total)

    def workers(self, text: str, count: int = 1) -> None:
        """Set the description of the workers, and how many tasks run at a time."""
        self._workers, self._workers_count = plain(text), count
        self._bar.update(self._task, workers=self._workers)

    def note(self, text: str) -> None:
        """Print a sentence, also if quiet."""
        if self._bar.disable:
            click.echo(f"dpaudit: {plain(text)}", self._errors)
        else:
            self._bar.console.print(f"dpaudit: {plain(text)}", markup=False, highlight=False)

    def _watch(self) -> None:
        while not self._ended.wait(_LOOK):
            self._line()

    def _line(self) -> None:
        """Print a plain line if one is due.

        The first one as soon as the total is known, and then one for each tenth of the trials, and
        whenever the last is half a minute ago.
        """
        with self._lock:
            now = self._clock()
            if self._lines and not self._ended.is_set() and self._due(now - self._last):
                self._print(now)

    def _due(self, waited: float) -> bool:
        if self._started is not None and self._shown is None:
            return True
        tenth = self._total and 10 * (self._done - (self._shown or 0)) >= self._total
        if self._done >= self._total > 0:
            told = self._shown == self._done and self._stage == self._said
            return waited >= (_AFTER if told else _LEAST)
        return waited >= (_LEAST if tenth else _MOST)

    @property
    def _computes(self) -> bool:
        """Whether the trials have finished, as a line has said or another stage shows."""
        ended = self._done >= self._total > 0 and self._stage != "done"
        return ended and (self._shown == self._done or self._advanced is None)

    def _print(self, now: float) -> None:
        words = list(self._words(now))
        self._last, self._said = now, self._stage
        if self._started is not None:
            self._shown = self._done
        click.echo(f"{self._stage}: {', '.join(words)}", self._errors)

    def _left(self) -> float | None:
        """Return the seconds that the trials left may take; None before it is known.

        What runs now takes as long as the others, or has taken so long already that it is to end.
        """
        if self._total <= self._done or not self._paced:
            return None
        waited = 0.0 if self._advanced is None else self._clock() - self._advanced
        late = (self._spent + waited) / (self._paced + self._block)
        pace = max(self._spent / self._paced, late)
        left = self._total - self._done + self._round
        return left * pace - min(waited, self._block * late) or None

    def _words(self, now: float) -> Iterator[str]:
        if self._computes:
            yield f"all {self._total} {self._unit} are done, and results are computed"
        elif self._total:
            share = f"{100 * self._done // self._total} %"
            yield f"{self._done} of {self._total} {self._unit} ({share})"
        elif self._known:
            yield f"all {self._known} {self._unit} were stored"
        yield f"{duration(now - self._created)} elapsed"
        if self._done:
            rate = self._done / max(now - (self._started or self._created), 1e-3)
            if (left := self._left()) is not None:
                yield f"about {duration(left)} left"
            if not self._computes:
                yield f"{number(rate)}/s"
        if self._total and self._known:
            yield f"{self._known} more were stored"
        if self._workers:
            yield self._workers
