"""A progress for tests that counts trials."""

from __future__ import annotations

import threading

from dpaudit.execution.tasks import Progress


class CountedProgress(Progress):
    """Count trials, and check that only the main thread reports them.

    Attributes:
        total: the number of trials that was announced.
        done: the number of finished trials.
        stages: the descriptions of the stages, in their order.
    """

    def __init__(self) -> None:
        self.total, self.done, self.stages = 0, 0, list[str]()

    def start(self, total: int) -> None:
        """Keep the announced total."""
        self.total = total

    def stage(self, text: str) -> None:
        """Keep the stage."""
        self.stages.append(text)

    def advance(self, trials: int) -> None:
        """Count the trials."""
        assert threading.current_thread() is threading.main_thread()
        self.done += trials
