"""Progress on standard error: a bar on a terminal, and plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

import click
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import (
    Progress as RichProgress,
)
from rich.progress import (
    Task as RichTask,
)

from dpaudit.cli.words import duration, number
from dpaudit.core.messages import plain
from dpaudit.execution.progress import Progress

# Seconds between two plain lines.
_EVERY = 30.0


class _Rate(TextColumn):
    """The trials finished in a second."""

    def render(self, task: RichTask) -> object:  # type: ignore[override]
        """Return the rate, or nothing before it is known."""
        self.text_format = "" if not task.speed else f"{number(task.speed)}/s"
        return super().render(task)


class Reporter(Progress):
    """Shows the finished trials, the stage, the rate, the time left and the workers."""

    def __init__(self, *, quiet: bool = False, clock: Callable[[], float] = time.monotonic) -> None:
        """Create a bar on a terminal, plain lines elsewhere, and neither if quiet."""
        console = Console(stderr=True)
        self._lines = not quiet and not console.is_terminal
        self._clock, self._last = clock, clock()
        self._started = self._last
        self._total = self._done = self._known = 0
        self._stage = self._workers = ""
        self._bar = RichProgress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            _Rate("", markup=False),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[workers]}", markup=False),
            console=console,
            transient=True,
            disable=quiet or not console.is_terminal,
        )
        self._task = self._bar.add_task("starting", total=None, workers="")

    def __enter__(self) -> Self:
        """Start drawing."""
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Remove the bar."""
        self._bar.stop()

    def start(self, total: int) -> None:
        """Set the total number of trials."""
        self._total = total
        self._bar.update(self._task, total=total)

    def expect(self, trials: int) -> None:
        """Add trials to the total."""
        self.start(self._total + trials)

    def stage(self, text: str) -> None:
        """Set the name of the current stage."""
        self._stage = plain(text)
        self._bar.update(self._task, description=self._stage)

    def advance(self, trials: int) -> None:
        """Add finished trials."""
        self._done += trials
        self._bar.advance(self._task, trials)
        self._line()

    def stored(self, trials: int) -> None:
        """Add trials that an earlier run has finished; they say nothing about the rate."""
        self._known += trials
        self._total -= trials
        self._bar.update(self._task, total=self._total)

    def workers(self, text: str) -> None:
        """Set the description of the workers."""
        self._workers = plain(text)
        self._bar.update(self._task, workers=self._workers)

    def note(self, text: str) -> None:
        """Print a sentence, also if quiet."""
        if self._bar.disable:
            click.echo(f"dpaudit: {plain(text)}", err=True)
        else:
            self._bar.console.print(f"dpaudit: {plain(text)}", markup=False, highlight=False)

    def _line(self) -> None:
        """Print a plain line if the last one is long ago."""
        now = self._clock()
        if not self._lines or now - self._last < _EVERY:
            return
        self._last = now
        rate = self._done / (now - self._started)
        words = [f"{self._done} of {self._total} trials", f"{number(rate)}/s"]
        if self._total > self._done:
            words.append(f"{duration((self._total - self._done) / rate)} left")
        if self._known:
            words.append(f"{self._known} more were stored")
        if self._workers:
            words.append(self._workers)
        click.echo(f"{self._stage}: {', '.join(words)}", err=True)
