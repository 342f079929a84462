"""The interface that receives a run's progress."""

from __future__ import annotations


class Progress:
    """Receive a run's progress; only the command line shows it."""

    def start(self, total: int) -> None:
        """Called once, with the total number of trials."""

    def stage(self, text: str) -> None:
        """Called with a description of the stage that begins."""

    def advance(self, trials: int) -> None:
        """Called with the number of trials finished since the last call."""
