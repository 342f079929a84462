"""Tasks: what is run, and the words that identify it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.streams import Streams

# What a task returns: an array without objects, or text; anything, if no store keeps it.
Result = NDArray[Any] | str


@runtime_checkable
class Named(Protocol):
    """A part that names itself in the key of its task."""

    @property
    def words(self) -> str:
        """What distinguishes this part from the others of its scope."""
        ...


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
