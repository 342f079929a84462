"""A progress bar on standard error; hidden if that is not a terminal."""

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
    """Shows the finished trials, the stage and the elapsed time."""

    def __init__(self, *, enabled: bool = True) -> None:
        """Create a bar that is shown only on a terminal, and only if enabled."""
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
        """Remove the bar."""
        self._bar.stop()

    def start(self, total: int) -> None:
        """Set the total number of trials."""
        self._bar.update(self._task, total=total)

    def stage(self, text: str) -> None:
        """Set the name of the current stage."""
        self._bar.update(self._task, description=plain(text))

    def advance(self, trials: int) -> None:
        """Add finished trials."""
        self._bar.advance(self._task, trials)
