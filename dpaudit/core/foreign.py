"""Code that is not dpaudit's: its import, its exceptions, and what it leaves in this process."""

from __future__ import annotations

import importlib
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import dropwhile
from pathlib import Path
from threading import Lock, current_thread, main_thread
from typing import Any, TextIO

from dpaudit.core.errors import ConfigError, DpauditError, RunError, said
from dpaudit.core.messages import place, plain
from dpaudit.core.processes import current_folder
from dpaudit.core.standard import ERR, OUT, streams

_SIGNALS = [signal.SIGINT, signal.SIGTERM]
if sys.platform != "win32":
    _SIGNALS += [signal.SIGALRM, signal.SIGCHLD]


@contextmanager
def foreign(failure: Callable[[str], DpauditError]) -> Iterator[None]:
    """Convert exceptions of third-party code into a `DpauditError`; interrupts pass unchanged.

    Standard streams and the current folder are put back afterwards, as `lent` does.

    Args:
        failure: makes the error from a one-line description of the exception.
    """
    try:
        with lent():
            yield
    except (KeyboardInterrupt, DpauditError):
        raise
    except BaseException as error:
        raise failure(said(error)) from error


@contextmanager
def lent() -> Iterator[None]:
    """Lend this process to code of others, and put back what it changes.

    Each call gets `sys.stdout`, `sys.stderr` and the descriptors 1 and 2 back as they were before
    the first one that has not ended, whoever closed or replaced them; the last one that ends gets
    back the current folder, the mask of new files and what left `sys.path`. In the main thread, so
    are signals. A process that the code forked, and that returns here, ends: all that follows
    belongs to its parent.

    Raises:
        RunError: the current folder is gone.
        BaseException: what a signal has raised, if the code caught it.
    """
    streams.lend()
    process = os.getpid()
    _lease.begin()
    try:
        with _signals():
            yield
    except BaseException as error:
        _end_fork(process, error)
        raise
    else:
        _end_fork(process, None)
    finally:
        _lease.end()


@contextmanager
def _signals() -> Iterator[None]:
    """Put back handlers of signals, end an alarm that the code leaves, raise what it caught."""
    if current_thread() is not main_thread():  # only that one has handlers
        yield
        return
    before, stop = {number: signal.getsignal(number) for number in _SIGNALS}, _lease.stop
    idle = sys.platform == "win32" or not signal.getitimer(signal.ITIMER_REAL)[0]
    try:
        yield
    finally:
        if sys.platform != "win32" and idle:
            signal.setitimer(signal.ITIMER_REAL, 0)
        if _lease.stop is not None and _lease.stop is not stop:
            raise _lease.stop
        for number, handler in before.items():
            if handler is not None and handler is not signal.getsignal(number):
                signal.signal(number, handler)


def interrupt(error: BaseException | None) -> None:
    """Let the main thread's call of code of others end with this error, even if the code caught it.

    Training loops catch Ctrl-C and return the model as it is: that is no training to audit.
    """
    _lease.stop = error


def _end_fork(process: int, error: BaseException | None) -> None:
    """End this process if it is not the one of this id, as Python ends at such an exception."""
    if os.getpid() == process:
        return
    code = 0 if error is None else 1
    if isinstance(error, SystemExit):
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    elif error is not None:
        sys.stderr.write(f"{said(error)}\n")
    with suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code & 0xFF)


def _copied(number: int) -> int:
    """Return a duplicate of a descriptor, which leads to the null device if it was closed."""
    with suppress(OSError):
        return os.dup(number)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, number)
    if null != number:
        os.close(null)
    return os.dup(number)


class _Lease:
    """What overlapping calls of several threads share: what the first of them found."""

    def __init__(self) -> None:
        self.stop: BaseException | None = None
        self.renew()

    def renew(self) -> None:
        """Forget the calls of the process that this one was forked from; one may hold the lock."""
        self._lock, self._calls = Lock(), 0

    def begin(self) -> None:
        """Note that a call begins, and what the first one finds."""
        with self._lock:
            if not self._calls:
                self._out, self._err = sys.stdout, sys.stderr
                self._copies = {number: _copied(number) for number in (OUT, ERR)}
                self._folder, self._path = current_folder(), [*sys.path]
                self._mask = os.umask(0o077)  # the only way to read it is to set it
                os.umask(self._mask)
            self._calls += 1

    def end(self) -> None:
        """Put back what the calls have changed."""
        with self._lock:
            self._calls -= 1
            for number, copy in self._copies.items():
                with suppress(OSError):  # the code may have closed all
                    os.dup2(copy, number)
                    if not self._calls:
                        os.close(copy)
            self._out = sys.stdout = _open(self._out, OUT)
            self._err = sys.stderr = _open(self._err, ERR)
            if self._calls:
                return
            os.umask(self._mask)
            sys.path += [place for place in self._path if place not in sys.path]
            if self._folder != current_folder():
                _enter(self._folder)


def _open(stream: TextIO, number: int) -> TextIO:
    """Return a stream, or another one on its descriptor if it is closed or detached."""
    with suppress(ValueError):
        if not getattr(stream, "closed", False):
            return stream
    return streams.lent(number)


def _enter(folder: str | None) -> None:
    try:
        if folder is not None:
            os.chdir(folder)
    except OSError as error:
        raise RunError(
            f"the current folder {place(Path(folder or ''))} cannot be entered again "
            f"({error.strerror}): let the code that the config names leave it where it is"
        ) from error


_lease = _Lease()
if sys.platform != "win32":
    os.register_at_fork(after_in_child=_lease.renew)


def import_object(reference: str, key: str) -> Any:
    """Import the object that `package.module:name` refers to.

    Args:
        reference: the reference.
        key: the key of the config that holds it, for the error.

    Raises:
        ConfigError: the reference is malformed or cannot be imported.
    """
    module, colon, name = reference.partition(":")
    if not (module and colon and name) or module.startswith("."):
        package, _, last = reference.replace(":", ".").rpartition(".")
        example = f"{package}:{last}" if package and last else "module:Class"
        raise ConfigError(
            f"{key} = {reference!r} is not package.module:name: give one, such as {example!r}"
        )

    def failure(words: str) -> ConfigError:
        fault = f"{key} = {reference!r} cannot be imported ({words})"
        return ConfigError(f"{fault}: {_remedy(module)}")

    with foreign(failure):
        return getattr(importlib.import_module(module), name)


def raised_at(error: BaseException, file: str | None) -> str:
    """Say in which file and line an exception was raised.

    Args:
        error: the exception.
        file: the file that the user knows; its innermost line is named, if it has any.
    """
    frames = traceback.extract_tb(error.__traceback__)
    known = [frame for frame in frames if frame.filename == file] or frames
    return f"{plain(Path(known[-1].filename).name)}, line {known[-1].lineno}"


def _remedy(module: str) -> str:
    """Say what to do about the exception that is handled now: a module could not be imported."""
    error = sys.exception()
    loaded = sys.modules.get(module)
    if loaded is not None:
        return f"define it in {getattr(loaded, '__file__', None) or module}, or correct the name"
    if isinstance(error, SyntaxError):  # its words hold file and line
        return "correct that line"
    missing = error.name if isinstance(error, ModuleNotFoundError) else None
    if error is None or (missing and f"{module}.".startswith(f"{missing}.")):
        return "put the module beside the config, or install its package"
    files = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    imported = dropwhile(lambda file: "importlib" not in file, files)
    source = next((file for file in imported if "importlib" not in file), None)
    needed = ", or install what it needs" if missing else ""
    return f"correct {raised_at(error, source)}{needed}"
