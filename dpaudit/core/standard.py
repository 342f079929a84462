"""The standard streams of a command, apart from those that the code of others prints to or closes.

A command writes to duplicates of the descriptors 1 and 2. From the first call of code that is not
dpaudit's, `sys.stdout` and descriptor 1 lead to standard error, for this process and its children:
standard output holds nothing but the command's result.
"""

from __future__ import annotations

import io
import os
import sys
from select import select
from typing import Any, TextIO

OUT, ERR = 1, 2


class _Lasting(io.FileIO):
    """An output that drops what nobody can read: after the reader has closed the pipe.

    Attributes:
        must: whether another failure, such as a full disk, is raised, once: Python would report it
            again at exit. Otherwise what cannot be written is dropped.
    """

    def __init__(self, number: int, *, must: bool, closefd: bool) -> None:
        super().__init__(number, "w", closefd=closefd)
        self._must, self._lost = must, False

    def write(self, data: Any) -> int:
        try:
            if self._lost:
                return len(data)
            # Code of others, or a program that shares a terminal, may let writes return at once.
            while (written := super().write(data)) is None:
                select([], [self], [])
            return written
        except OSError as error:
            self._lost = True
            if self._must and not isinstance(error, BrokenPipeError):
                raise
            return len(data)


class Streams:
    """The streams of this process: sys's, until a command separates its own."""

    def __init__(self) -> None:
        """Take sys's streams."""
        self._own: dict[int, TextIO] = {}
        self._lent = False

    @property
    def output(self) -> TextIO:
        """Where a command writes its result."""
        return self._own.get(OUT) or sys.stdout

    @property
    def errors(self) -> TextIO:
        """Where a command writes progress and messages."""
        return self._own.get(ERR) or sys.stderr

    def separate(self) -> None:
        """Give the command streams of its own, before any thread starts.

        A standard descriptor that is closed, as by `2>&-`, leads to the null device, so that no
        file takes its number. What cannot be written to standard error is dropped.
        """
        for number in (0, OUT, ERR):
            try:
                os.fstat(number)
            except OSError:
                os.open(os.devnull, os.O_RDWR)  # takes the lowest free number
        for number, given in ((OUT, sys.stdout), (ERR, sys.stderr)):
            raw = _Lasting(os.dup(number), must=number == OUT, closefd=True)
            self._own[number] = _text(raw, given)
        sys.stdout, sys.stderr = self._own[OUT], self._own[ERR]

    def lend(self) -> None:
        """Give code of others streams that lead to standard error; once, if a command asks."""
        if self._lent or not self._own:
            return
        self._lent = True
        self.output.flush()
        os.dup2(ERR, OUT)
        sys.stdout, sys.stderr = self.lent(OUT), self.lent(ERR)

    def lent(self, number: int) -> TextIO:
        """Return a stream for code of others on a standard descriptor, which it cannot close."""
        return _text(_Lasting(number, must=False, closefd=False), self._own.get(ERR), lines=True)


def _text(raw: io.FileIO, like: TextIO | None, *, lines: bool = False) -> TextIO:
    """Return a text stream that writes as another one, in lines if asked; it escapes the rest."""
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=like.encoding if like else "utf-8",
        errors="backslashreplace",
        line_buffering=lines or getattr(like, "line_buffering", False),
        write_through=getattr(like, "write_through", False),
    )


streams = Streams()
