"""A recommender that is a command of the user's, which runs in its own environment.

Its time and what is kept of its output are limited; no process and no file of it stays.
"""

from __future__ import annotations

import functools
import os
import re
import secrets
import selectors
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Annotated, Literal

from pydantic import Field, field_validator
from pydantic.dataclasses import dataclass as parameters

from dpaudit.core.errors import ConfigError, RunError
from dpaudit.core.messages import place, plain, quoted
from dpaudit.core.plugin import STRICT
from dpaudit.data.interactions import Interactions
from dpaudit.recommenders.base import Answer, Deletion, Query, Took, Trainable
from dpaudit.recommenders.exchange import Exchange, Format
from dpaudit.recommenders.saving import saved

# What a command may write, in the order in which it is checked.
Shown = Literal["scores", "lists", "factors", "histories"]
# A config gives paths as text.
Folder = Annotated[Path, Field(strict=False)]

_PLACEHOLDERS = ("task", "seed", "folder")
_BRACES = re.compile(r"\{\{(\w+)\}\}|\{(\w+)\}")
# How much of the log stands in an error: a message has at most 1000 characters.
_LINES, _CHARACTERS = 10, 600
# The number of bytes that are kept from the beginning of the output, and from its end.
_HALF = 2**19
_AT_ONCE = 2**16
# The most pieces of output that a pipe holds.
_PIECES = 16
# How often, in seconds, a command that prints nothing is checked.
_LOOK = 0.05
_ESCAPES = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)?|.)")
_CLEANUP = Path(__file__).with_name("cleanup.py")


@parameters(frozen=True, config=STRICT)
class Command(Trainable):
    """Run a command for each training; no shell reads it.

    The command reads `task.json` and the tables that it names, trains, and writes the tables that
    are asked (docs/guides/own-models.md). Its environment has `DPAUDIT_TASK`, the path of that
    file, and `DPAUDIT_SEED`. When it ends, so do all processes of its group, and its folder is
    removed.

    To forget, it runs again in the same folder for each request, where it may have kept its model;
    the task then names the pairs to forget, and what stays. How long a call takes has the start
    of the program and the answers in it.

    Attributes:
        command: the program and its arguments, quoted as for a shell. `{task}` is the path of
            `task.json`, `{seed}` the seed and `{folder}` the folder of that file; `{{task}}` is
            the text `{task}`.
        format: of all tables, read and written: `csv` or `parquet`.
        shows: what it writes: `scores`, `lists`, `factors`, and `histories` for scores after these.
        predicts_ratings: whether scores are predicted ratings; otherwise only their order counts.
        timeout: the limit on one call, in seconds.
        retries: how often a training that fails, or whose model fails to forget, is run again as a
            whole, with the same seed.
        keep_logs: the folder to which each call's output is written, its first and last half MiB;
            None for none.
        cwd: the folder in which the command runs, and from which a relative `keep_logs` counts.
        env: variables that are added to the environment.
    """

    command: str
    format: Format = "csv"
    shows: list[Shown] = field(default_factory=lambda: ["scores", "lists"])
    predicts_ratings: bool = False
    timeout: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 3600.0
    retries: Annotated[int, Field(ge=0, le=100)] = 0
    keep_logs: Folder | None = None
    cwd: Folder = Path()
    env: Mapping[str, str] = field(default_factory=dict)

    @field_validator("command")
    @classmethod
    def _can_be_read(cls, command: str) -> str:
        _words(command, dict.fromkeys(_PLACEHOLDERS, ""))
        return command

    @property
    def leaves_out(self) -> Collection[str]:
        """What it does not write."""
        return {"scores", "lists"} - set(self.shows)

    @property
    def answers_histories(self) -> bool:
        """Whether it says that it writes scores after histories."""
        return "histories" in self.shows

    def answer(self, interactions: Interactions, seed: int, query: Query) -> Answer:
        """Train on interactions, and show what is asked; see `Trainable.answer`.

        Raises:
            ConfigError: the command cannot be started, or does not show what is asked.
            RunError: every try failed: the command ended with an error or reached its limit, or
                what it wrote is missing or wrong.
        """
        return self._tried(interactions, seed, query)

    def answer_without(
        self, interactions: Interactions, requests: Sequence[Deletion], seed: int, query: Query
    ) -> Answer:
        """Train, forget, and show what is asked; see `Trainable.answer_without`.

        What it writes is read after the last request alone; old tables are removed before each.
        """
        if requests[0].method != "own":
            return super().answer_without(interactions, requests, seed, query)
        return self._tried(interactions, seed, query, requests=requests)

    def answer_saved(
        self, interactions: Interactions, seed: int, query: Query, folder: Path
    ) -> Answer:
        """Do as `answer`, and keep all files that the command writes beside its task."""
        return self._tried(interactions, seed, query, folder)

    def _tried(
        self,
        interactions: Interactions,
        seed: int,
        query: Query,
        folder: Path | None = None,
        requests: Sequence[Deletion] = (),
    ) -> Answer:
        asked = {"scores": len(query.users), "lists": len(query.listed), "factors": query.factors}
        asked["histories"] = query.after is not None
        for name, some in asked.items():
            if some and name not in self.shows:
                raise ConfigError(
                    f"{self._name} does not show {name}, which are asked: let it write them and "
                    f"add {name!r} to params.shows, or remove what asks for them"
                )
        once = functools.partial(self._once, interactions, seed, query, folder, requests)
        for tried in range(1, self.retries + 1):
            with suppress(RunError):
                return once(tried)
        return once(self.retries + 1)

    def _once(
        self,
        interactions: Interactions,
        seed: int,
        query: Query,
        saves: Path | None,
        requests: Sequence[Deletion],
        tried: int,
    ) -> Answer:
        again = f", try {tried} of {self.retries + 1}" if self.retries else ""
        answers, seconds = [], []
        with scratch_folder() as folder:
            # Each call is asked the same.
            asked = replace(query, before=False)
            files = Exchange(folder, self.format, interactions.shape, asked)
            for place, request in enumerate((None, *requests)):
                try:
                    files.write(interactions, seed, request)
                except OSError as error:
                    raise RunError(
                        f"{self._name} with seed {seed}: its folder cannot be written "
                        f"({error.strerror or error}): let each call leave the folder in place"
                    ) from error
                given = {path.name for path in files.folder.iterdir()}
                log = f"try-{tried}" + (f"-request-{place}" if place else "")
                words = f", request {place} of {len(requests)}" if place else ""
                start = time.perf_counter()
                with self._called(files, seed, log, f"{words}{again}"):
                    seconds.append(time.perf_counter() - start)
                    if place == len(requests) or (query.before and not place):
                        answers.append(files.read())
                    if saves is not None:
                        with saved(saves) as draft:
                            _copy(files.folder, draft, given)
        return answers[-1]._replace(
            before=answers[0].scores if query.before else None,
            took=Took(seconds[0], sum(seconds[1:])) if requests else None,
        )

    @contextmanager
    def _called(self, files: Exchange, seed: int, name: str, words: str) -> Iterator[None]:
        """Run the command; name it, this call and its log in errors, of what it wrote too."""
        status, log = self._run(files, seed)
        if self.keep_logs is not None:
            logs = self.cwd / self.keep_logs
            try:
                logs.mkdir(parents=True, exist_ok=True)
                path = logs / f"seed-{seed}-{name}-{secrets.token_hex(4)}.log"
                with path.open("xb") as file:
                    file.write(log.kept())
            except OSError as error:
                raise ConfigError(
                    f"params.keep_logs = '{place(self.keep_logs)}' cannot be written "
                    f"({error.strerror}): name another folder"
                ) from error
        try:
            if status is None:
                raise RunError(
                    f"it was stopped after {self.timeout:g} seconds: set params.timeout higher"
                )
            if status < 0:
                raise RunError(f"signal {-status} ended it: give it more memory, or see its log")
            if status > 0:
                raise RunError(f"it ended with exit code {status}: correct what its log says")
            yield
        except RunError as error:
            tail = log.tail(_LINES, _CHARACTERS)
            last = f"its log ends: {tail}" if tail else "it printed nothing"
            raise RunError(f"{self._name} with seed {seed}{words}: {error}; {last}") from error

    def _run(self, files: Exchange, seed: int) -> tuple[int | None, Log]:
        values = dict(zip(_PLACEHOLDERS, (files.task, seed, files.folder), strict=True))
        words = _words(self.command, {name: str(value) for name, value in values.items()})
        parameters = {"DPAUDIT_TASK": str(files.task), "DPAUDIT_SEED": str(seed)}
        environment = {**os.environ, **self.env, **parameters}
        try:
            return run(words, self.cwd, environment, self.timeout, files.folder)
        except (OSError, ValueError) as error:
            problem = str(error)
            if isinstance(error, OSError):
                file = f": {place(Path(error.filename))}" if error.filename else ""
                problem = f"{error.strerror}{file}"
            raise ConfigError(
                f"{self._name} cannot be started ({problem}): correct the command, params.cwd or "
                "params.env"
            ) from error

    @property
    def _name(self) -> str:
        return f"the command '{quoted(self.command, 100)}'"


def _words(command: str, values: Mapping[str, str]) -> list[str]:
    """Split a command into words, and then replace its placeholders.

    Raises:
        ValueError: it is empty, a quotation does not end, or a placeholder is unknown.
    """

    def replaced(match: re.Match[str]) -> str:
        if match[1]:
            return f"{{{match[1]}}}"
        if match[2] not in values:
            known = ", ".join(f"{{{name}}}" for name in _PLACEHOLDERS)
            raise ValueError(
                f"{match[0]} is no placeholder: use {known}, or write {{{match[0]}}} for this text"
            )
        return values[match[2]]

    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ValueError(f"{error}: end it, or quote it with a backslash") from error
    if not words or "\0" in command:
        raise ValueError("the command is empty or holds a null character: name a program")
    return [_BRACES.sub(replaced, word) for word in words]


def _copy(folder: Path, to: Path, but: Collection[str]) -> None:
    """Copy what a folder holds, but for some names, to another one that is empty."""
    for path in folder.iterdir():
        if path.name in but:
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.copytree(path, to / path.name, symlinks=True)
        else:
            shutil.copy2(path, to / path.name, follow_symlinks=False)


@dataclass
class Log:
    """What a command printed: its first and last half MiB.

    Attributes:
        total: the number of bytes that it printed.
    """

    total: int = 0
    _first: bytearray = field(default_factory=bytearray)
    _last: bytearray = field(default_factory=bytearray)

    def add(self, piece: bytes) -> None:
        """Take the next bytes."""
        self.total += len(piece)
        room = _HALF - len(self._first)
        self._first += piece[:room]
        self._last += piece[room:]
        if len(self._last) > 2 * _HALF:
            del self._last[:-_HALF]

    def kept(self) -> bytes:
        """Return the output; a line in its middle says how many bytes were dropped."""
        last = self._last[-_HALF:]
        dropped = self.total - len(self._first) - len(last)
        middle = f"\n[dpaudit dropped {dropped} bytes here]\n".encode() if dropped else b""
        return bytes(self._first + middle + last)

    def tail(self, lines: int, characters: int) -> str:
        """Return the last lines that hold text, joined by ` | `, as one line.

        Bytes that are not UTF-8 are replaced; control characters are removed. Of a line that was
        written over, such as a progress bar, the last state counts.
        """
        text = self.kept()[-_AT_ONCE:].decode(errors="replace")
        states = (line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))
        shown = (plain(_ESCAPES.sub("", state)).strip() for state in states)
        joined = " | ".join([line for line in shown if line][-lines:])
        return joined if len(joined) <= characters else f"…{joined[-characters:]}"


def run(
    words: Sequence[str], cwd: Path, environment: Mapping[str, str], seconds: float, scratch: Path
) -> tuple[int | None, Log]:
    """Run a command to its end, or to its limit; its standard input is empty.

    The command leads a process group of its own. The group is killed when the command ends, when it
    reaches its limit, and when this process is interrupted or killed.

    Args:
        words: the program and its arguments.
        cwd: the folder in which it runs.
        environment: its whole environment.
        seconds: the limit on its time.
        scratch: the folder of its files; a folder serves one command at a time.

    Returns:
        Its exit code, -n if signal n ended it, None if it was stopped at its limit; and what it
        printed to standard output and standard error.

    Raises:
        OSError, ValueError: the command cannot be started.
    """
    child = subprocess.Popen(  # noqa: S603  the command is the user's, and no shell reads it
        words,
        cwd=cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        note(scratch, child.pid)
        log = Log()
        return _status(child, log, time.monotonic() + seconds), log
    finally:
        # The command and all processes of its group.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
        child.kill()
        if child.stdout is not None:
            child.stdout.close()
        child.wait()


def _status(child: subprocess.Popen[bytes], log: Log, end: float) -> int | None:
    """Read the output until the command ends; None if it reaches the time `end` first.

    What the command started may hold the other end of the pipe, so its end is not waited for.
    """
    output = child.stdout
    if output is None:
        raise TypeError("the command has no output")
    os.set_blocking(output.fileno(), False)
    with selectors.DefaultSelector() as ready:
        ready.register(output, selectors.EVENT_READ)
        while True:
            left = end - time.monotonic()
            if ready.select(min(_LOOK, max(0.0, left))) and not _read(output, log):
                break
            if child.poll() is not None:
                for _ in range(_PIECES):
                    _read(output, log)
                return child.returncode
            if left <= 0:
                return None
    try:
        return child.wait(max(0.0, end - time.monotonic()))
    except subprocess.TimeoutExpired:
        return None


def _read(output: IO[bytes], log: Log) -> bool:
    """Read what is there; False at the end of the output."""
    try:
        piece = os.read(output.fileno(), _AT_ONCE)
    except BlockingIOError:
        return True
    log.add(piece)
    return bool(piece)


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Make a temporary folder, and remove it at the end, even if this process is killed."""
    _cleanup_pipe(os.getpid())
    temporary = tempfile.TemporaryDirectory(prefix="dpaudit-", ignore_cleanup_errors=True)
    folder = Path(temporary.name).resolve()
    try:
        with temporary:
            note(folder, "")
            yield folder
    finally:
        note(folder, "end")


def note(folder: Path, state: int | str) -> None:
    """Tell the cleanup script which process group works in a folder, or that this is its `end`."""
    with suppress(BrokenPipeError):  # the script has ended
        os.write(_cleanup_pipe(os.getpid()), os.fsencode(folder) + b"\0%b\n" % str(state).encode())


@functools.lru_cache(maxsize=1)
def _cleanup_pipe(process: int) -> int:
    """Start the cleanup script of this process; return the pipe to it, which is never closed.

    Args:
        process: the id of this process; a fork needs a script of its own.
    """
    there, here = os.pipe()
    # The script leaves a process that is no child of this one, and ends at once.
    subprocess.run(  # noqa: S603  the interpreter that runs already
        [sys.executable, "-I", "-S", str(_CLEANUP)],
        stdin=there,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        check=False,
    )
    os.close(there)
    return here
