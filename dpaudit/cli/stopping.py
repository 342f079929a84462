"""Signals that stop a command: what they raise, and what is said of the work that is done."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

import click

from dpaudit.core.foreign import interrupt
from dpaudit.core.messages import place

_WORDS: dict[int, str] = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}
# Where a command leaves in click's context what it keeps.
_KEPT = f"{__name__}.kept"
# Code out of which no exception is raised: an import may turn it into another one, and C drops
# what callbacks, finalizers and weak references raise. LLVM calls back after long compilations.
_CLOSED = frozenset({"importlib", "llvmlite", "weakref", "_weakrefset"})
# Seconds between two looks at whether such code has ended, and the most to wait for that.
_LOOK, _LONGEST = 0.02, 5.0


class StopSignal(KeyboardInterrupt):
    """A signal that stops the command.

    Attributes:
        number: the signal.
    """

    def __init__(self, number: int = signal.SIGINT) -> None:
        """Keep the signal."""
        super().__init__(number)
        self.number = number

    @classmethod
    def of(cls, error: BaseException) -> StopSignal | None:
        """Return the signal behind an error, if code made one of it; None if there is none."""
        cause: BaseException | None = error
        seen = set[int]()
        while cause is not None and id(cause) not in seen:
            if isinstance(cause, KeyboardInterrupt):
                return cause if isinstance(cause, cls) else cls()
            seen.add(id(cause))
            cause = cause.__cause__ or cause.__context__
        return None

    @property
    def code(self) -> int:
        """The exit code that shells give to a process that the signal ends: 130 or 143."""
        return 128 + self.number

    @property
    def word(self) -> str:
        """What the signal did to the command."""
        return _WORDS[self.number]

    def message(self, ctx: click.Context) -> str:
        """Say that the command was stopped, and what it keeps."""
        kept: Callable[[], str] | None = ctx.meta.get(_KEPT)
        return self.word + (f": {kept()}" if kept else "")


@contextmanager
def stoppable() -> Iterator[None]:
    """Raise `StopSignal` in the main thread at the first signal; a second ends the process at once.

    It is raised once the code that runs lets an exception through. A signal that the caller
    ignores, as `nohup` does, stays ignored.
    """
    heard = [signum for signum in _WORDS if signal.getsignal(signum) is not signal.SIG_IGN]
    if threading.current_thread() is not threading.main_thread():
        heard = []

    stop = _Stop(heard)
    before = {signum: signal.signal(signum, stop) for signum in heard}
    try:
        yield
    finally:
        interrupt(None)
        for signum, handler in before.items():
            # Otherwise the process is ending, at once if asked again.
            if signal.getsignal(signum) is stop:
                signal.signal(signum, handler)


@dataclass(frozen=True)
class _Stop:
    """What a signal does to this process; one that it forks ends as any other.

    Attributes:
        heard: the signals.
        process: the id of this process.
    """

    heard: Sequence[int]
    process: int = field(default_factory=os.getpid)

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Raise `StopSignal` once."""
        for signum in self.heard:
            signal.signal(signum, signal.SIG_DFL)
        if os.getpid() != self.process:  # forked so lately that it has not run what follows a fork
            signal.raise_signal(number)
        stopped = StopSignal(number)
        interrupt(stopped)
        _raise(stopped, frame, time.monotonic() + _LONGEST)


def _reset() -> None:
    """Give a forked process the handlers that it would have without this command.

    A pool of processes ends its workers by a signal, and waits for them.
    """
    for signum in _WORDS:
        if isinstance(signal.getsignal(signum), _Stop):
            default = signal.default_int_handler if signum == signal.SIGINT else signal.SIG_DFL
            signal.signal(signum, default)


_forking = threading.local()


def _hold() -> None:
    """Hold signals back until a fork is done: one that a child gets before `_reset` is lost."""
    _forking.before = signal.pthread_sigmask(signal.SIG_BLOCK, _WORDS)


def _release() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, _forking.before)


def _release_child() -> None:
    _reset()
    _release()


if sys.platform != "win32":
    os.register_at_fork(before=_hold, after_in_parent=_release, after_in_child=_release_child)


def _raise(stopped: StopSignal, frame: FrameType | None, latest: float) -> None:
    """Raise an exception, or look again later if the code that runs is closed to it."""
    if sys.platform == "win32" or not _closed(frame) or time.monotonic() > latest:
        raise stopped
    signal.signal(signal.SIGALRM, lambda _, now: _raise(stopped, now, latest))
    signal.setitimer(signal.ITIMER_REAL, _LOOK)


def _closed(frame: FrameType | None) -> bool:
    """Whether a frame, or one that called it, is closed to exceptions."""
    while frame is not None:
        module = str(frame.f_globals.get("__name__"))
        if module.partition(".")[0] in _CLOSED or frame.f_code.co_name == "__del__":
            return True
        frame = frame.f_back
    return False


def keeps_tasks(ctx: click.Context, store: Path, *, fresh: bool) -> None:
    """Let a command that is stopped say what it keeps.

    Args:
        ctx: the command.
        store: its finished tasks.
        fresh: whether the command drops what it finds there, and would again.
    """

    def said() -> str:
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
