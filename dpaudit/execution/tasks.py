"""Tasks: what is run, what identifies it and its results, shards of a run, and its progress.

Versions and the machine type identify results; never the name of a machine or a person.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import platform
import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.errors import ConfigError
from dpaudit.core.streams import Streams

_SCIPY = {"scipy", "scipy.libs"}
_LIBRARIES = ("numpy", "numba", "scipy", "statsmodels")


def tool_version() -> str:
    """Return the version of dpaudit."""
    return version("dpaudit")


def environment() -> dict[str, str]:
    """Return the versions of Python and of the numeric libraries, and the machine type.

    `blas` is numpy's linear algebra library, which fits learned scores. `instructions` are the
    widest vector instructions that numpy computes logarithms and powers with.
    """
    return {
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
        "blas": _blas(),
        "instructions": _instructions(),
        **{name: version(name) for name in _LIBRARIES},
    }


def _blas() -> str:
    """Return the name and version of numpy's BLAS and the processor type of its kernel."""
    from threadpoolctl import threadpool_info

    libraries = [library for library in threadpool_info() if library["user_api"] == "blas"]
    # scipy may have loaded another BLAS, from scipy.libs or scipy/.dylibs.
    of_numpy = [x for x in libraries if not _SCIPY & set(Path(x["filepath"]).parts[-3:-1])]
    if not of_numpy:
        built = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
        return f"{built['name']} {built['version']}"
    keys = ("internal_api", "version", "architecture")
    return " ".join(str(of_numpy[0][key]) for key in keys if of_numpy[0].get(key))


def _instructions() -> str:
    simd = np.show_config(mode="dicts")["SIMD Extensions"]
    names = [*simd.get("baseline", ()), *simd.get("found", ())]
    return names[-1] if names else "none"


# The parts of an identity that only the last digits of results depend on.
MACHINE = {"machine", "blas", "instructions"}
# The most shards of a run.
_MOST_SHARDS = 100_000
# What a task returns: an array without objects, or text; anything, if no store keeps it.
Result = NDArray[Any] | str


@runtime_checkable
class Named(Protocol):
    """A part that names itself in the key of its task."""

    @property
    def words(self) -> str:
        """What distinguishes this part from the others of its scope."""


class Task(NamedTuple):
    """A pure function of one part, such as a block of trials.

    Attributes:
        work: the function, with the inputs that many tasks share. It can be pickled by cloudpickle,
            and does not change its inputs.
        part: what is this task's own: streams, numbers, texts, arrays, `Named` parts, or a tuple of
            these.
        size: number of trials that it finishes.
        name: distinguishes the function from others in the same scope.
        dear: whether the result is kept even if it takes longer to keep than to compute. Trainings
            are: whoever states a claim later trusts that nothing runs again.
    """

    work: Callable[[Any], Result]
    part: Any
    size: int
    name: str = ""
    dear: bool = False


def digest_of(*words: Any) -> str:
    """Return a digest of parts of tasks; equal parts have equal digests on any machine.

    Raises:
        TypeError: a part is of a type that has no digest.
    """
    state = hashlib.blake2b(digest_size=16)
    _update(state, words)
    return state.hexdigest()


def _update(state: Any, part: Any) -> None:
    if isinstance(part, tuple):
        state.update(f"({len(part)}".encode())
        for element in part:
            _update(state, element)
    elif isinstance(part, Streams):
        _update(state, (part.key, part.trials))
    elif isinstance(part, np.ndarray) and part.dtype.kind in "biuf":
        state.update(f"a{part.dtype.str}{part.shape}".encode())
        state.update(np.ascontiguousarray(part).tobytes())
    elif isinstance(part, str | int | float | np.integer):
        text = (part if isinstance(part, str) else repr(part)).encode()
        state.update(f"{type(part).__name__[0]}{len(text)}:".encode() + text)
    elif isinstance(part, Named):
        _update(state, part.words)
    else:
        raise TypeError(f"{type(part).__name__} cannot be a part of a task")


def identity_of(modules: Iterable[str] = ()) -> dict[str, str]:
    """Return the digest of the code, and the versions and the machine type of `environment`.

    Args:
        modules: names of modules, such as those of plug-ins; of those outside this package, all
            source files of the distribution or folder that they are in belong to the code. None is
            imported.
    """
    state = hashlib.blake2b(_package().encode(), digest_size=16)
    names = {name.partition(".")[0] for name in modules} - {"dpaudit", "builtins"}
    for name in sorted(names):
        state.update(_sources(name).encode())
    return {"code": state.hexdigest(), **environment()}


@functools.cache
def _package() -> str:
    """Digest of this package's source files, and of what these read as TOML."""
    files = Path(__file__).parents[1].rglob("*")
    return _digest(path for path in files if path.suffix in {".py", ".toml"})


def _sources(name: str) -> str:
    """Digest of the source files of a package, or of a module and those beside it."""
    file = getattr(sys.modules.get(name), "__file__", None)
    if file is None and name.isidentifier() and name not in sys.modules:
        spec = importlib.util.find_spec(name)
        file = spec.origin if spec else None
    if file is None:
        return name
    path = Path(file)
    return _digest(
        path.parent.rglob("*.py") if path.stem == "__init__" else path.parent.glob("*.py")
    )


def _digest(paths: Iterable[Path]) -> str:
    state = hashlib.blake2b(digest_size=16)
    for path in sorted(paths):
        state.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return state.hexdigest()


@dataclass(frozen=True)
class Shard:
    """One of several parts into which a run is divided without a scheduler.

    Attributes:
        index: its number, from 1.
        count: the number of shards.
    """

    index: int
    count: int

    @classmethod
    def parse(cls, text: str) -> Shard:
        """Read `i/n`.

        Raises:
            ConfigError: it is not such a fraction.
        """
        match = re.fullmatch(r"([0-9]{1,6})/([0-9]{1,6})", text)
        if not match or not 1 <= int(match[1]) <= int(match[2]) <= _MOST_SHARDS:
            raise ConfigError(f"the option --shard {text!r} is not i/n with i from 1 to n, as 3/16")
        return cls(int(match[1]), int(match[2]))

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"

    def has(self, number: int, *scope: str) -> bool:
        """Whether this shard runs task `number` of a scope; scopes start at different shards."""
        first = int(digest_of(*scope)[:8], 16)
        return (first + number) % self.count == self.index - 1


# Runs no task: all results must be in the store.
NOTHING = Shard(0, 1)


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
