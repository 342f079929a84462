"""Told what a run is doing."""

from __future__ import annotations


class Progress:
    """Told what is being done; the command line shows it, nothing else reads it."""

    def start(self, total: int) -> None:
        """The number of trials to come."""

    def stage(self, text: str) -> None:
        """What is done now."""

    def advance(self, trials: int) -> None:
        """So many trials are done."""
