"""A progress bar on standard error; silent when that is no terminal."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.progress import (
    Progress as RichProgress,
)

from dpaudit.auditor.progress import Progress
from dpaudit.core.messages import plain


class Bar(Progress):
    """Shows the trials done, the stage and the time."""

    def __init__(self, *, enabled: bool = True) -> None:
        """Make a bar that shows itself only on a terminal, and only if enabled."""
        console = Console(stderr=True)
        self._bar = RichProgress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not (enabled and console.is_terminal),
        )
        self._task = self._bar.add_task("starting", total=None)

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
        """Take the bar away."""
        self._bar.stop()

    def start(self, total: int) -> None:
        """Set the number of trials to come."""
        self._bar.update(self._task, total=total)

    def stage(self, text: str) -> None:
        """Say what is done now."""
        self._bar.update(self._task, description=plain(text))

    def advance(self, trials: int) -> None:
        """Count trials."""
        self._bar.advance(self._task, trials)
