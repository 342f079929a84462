"""Signals that stop a command: what they raise, and what is said of the work that is done."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

_WORDS: dict[int, str] = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}
# Where a command leaves in click's context what it keeps.
_KEPT = f"{__name__}.kept"


class Stopped(KeyboardInterrupt):
    """A signal stops the command.

    Attributes:
        number: the signal.
    """

    def __init__(self, number: int = signal.SIGINT) -> None:
        """Keep the signal."""
        super().__init__(number)
        self.number = number

    @classmethod
    def of(cls, error: BaseException) -> Stopped | None:
        """Return the signal behind an error; None if there is none."""
        cause = error.__context__ if isinstance(error, click.Abort) else error
        if isinstance(cause, cls):
            return cause
        return cls() if isinstance(cause, KeyboardInterrupt) else None

    @property
    def code(self) -> int:
        """The exit code that shells give to a process that the signal ends: 130 or 143."""
        return 128 + self.number

    @property
    def word(self) -> str:
        """What the signal did to the command."""
        return _WORDS[self.number]

    def told(self, ctx: click.Context) -> str:
        """Say that the command was stopped, and what it keeps."""
        kept: Callable[[], str] | None = ctx.meta.get(_KEPT)
        return self.word + (f": {kept()}" if kept else "")


@contextmanager
def stoppable() -> Iterator[None]:
    """Raise `Stopped` in the main thread at the first signal; a second ends the process at once.

    A signal that the caller ignores, as `nohup` does, stays ignored.
    """
    heard = [each for each in _WORDS if signal.getsignal(each) is not signal.SIG_IGN]
    if threading.current_thread() is not threading.main_thread():
        heard = []

    def stop(number: int, _: Any) -> None:
        for each in heard:
            signal.signal(each, signal.SIG_DFL)
        raise Stopped(number)

    before = {each: signal.signal(each, stop) for each in heard}
    try:
        yield
    finally:
        for each, handler in before.items():
            if signal.getsignal(each) is stop:  # else the process is ending, at once if asked again
                signal.signal(each, handler)


def keeps_tasks(ctx: click.Context, store: Path, *, fresh: bool) -> None:
    """Let a command that is stopped say what it keeps.

    Args:
        ctx: the command.
        store: its finished tasks.
        fresh: whether the command drops what it finds there, and would again.
    """

    def said() -> str:
        from dpaudit.core.messages import place
        from dpaudit.execution.store import count

        tasks = count(store)
        if not tasks:
            return "nothing is kept, as no task has finished"
        same = "the same command without --fresh" if fresh else "the same command"
        word = "task is" if tasks == 1 else "tasks are"
        return f"{tasks} finished {word} kept in {place(store.parent)}; {same} goes on"

    ctx.meta[_KEPT] = said


def keeps_nothing(ctx: click.Context, why: str) -> None:
    """Let a command that is stopped say that it keeps nothing, and why."""
    ctx.meta[_KEPT] = lambda: f"nothing is kept, {why}"
