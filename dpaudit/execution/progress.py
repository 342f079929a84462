"""The interface that receives a run's progress."""

from __future__ import annotations


class Progress:
    """Receive a run's progress; only the command line shows it."""

    def start(self, total: int) -> None:
        """Called once, with the total number of trials."""

    def expect(self, trials: int) -> None:
        """Called when more trials turn out to be needed than the total says."""

    def stage(self, text: str) -> None:
        """Called with a description of the stage that begins."""

    def advance(self, trials: int) -> None:
        """Called with the number of trials finished since the last call."""

    def stored(self, trials: int) -> None:
        """Called with the number of trials whose results were in the store."""
        self.advance(trials)

    def workers(self, text: str, count: int = 1) -> None:
        """Called with a description of the workers that are alive, and the tasks at a time."""

    def note(self, text: str) -> None:
        """Called with a sentence that the user should read."""
