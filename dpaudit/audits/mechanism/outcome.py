"""What a call of a mechanism gives: a copy of its output, or the exception that it raised.

An exception is an output: whoever calls the mechanism sees it, and one that is raised on one data
set only tells it from the other. Every fresh process loads this module, so it imports little.
"""

from __future__ import annotations

import copy
import re
from collections.abc import ItemsView, Iterator, KeysView, ValuesView
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from dpaudit.audits.mechanism.ambient import seed_ambient
from dpaudit.core.errors import shortened

# The arguments of a call: the data set, the random stream, and a batched mechanism's number of
# outputs.
Job = tuple[Any, np.random.SeedSequence, int | None]

# Most entries of an iterator, which may have no end.
_MOST = 100_000
_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]+")
_VIEWS = (KeysView, ValuesView, ItemsView)


@dataclass(frozen=True)
class Raised:
    """The exception that a call raised, as its output.

    Attributes:
        kind: the name of its type.
        message: its text, which may tell something of the data; addresses of memory, which differ
            from process to process, are left out.
    """

    kind: str
    message: str

    def __str__(self) -> str:
        return shortened(f"{self.kind}: {self.message}" if self.message else self.kind)


def called(mechanism: Any, job: Job, *, ambient: bool = True) -> Any:
    """Call the mechanism for a job, and return what its caller receives.

    Args:
        mechanism: the mechanism.
        job: the arguments of the call.
        ambient: whether to seed the generators of this process from the job's stream; not where
            other threads draw from them.
    """
    data, stream, count = job
    rng = np.random.default_rng(stream)
    if ambient:
        seed_ambient(stream)
    try:
        output = mechanism(data, rng) if count is None else mechanism(data, rng, count)
        return received(output)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # also SystemExit, by which a mechanism may answer
        return _raised(error)


def received(output: Any) -> Any:  # noqa: PLR0911  one kind of output each
    """Return a copy of an output, which no later call can change.

    Iterators and views, which show what is there when they are read, become lists, and views of
    memory become bytes. What cannot be copied is returned as it is.
    """
    if isinstance(output, Iterator):
        return [received(entry) for entry in islice(output, _MOST)]
    if isinstance(output, _VIEWS):
        return [received(entry) for entry in output]
    if isinstance(output, memoryview):
        return bytes(output)
    try:
        return copy.deepcopy(output)
    except RecursionError:  # it is nested too deep, so all its parts are
        return output
    except Exception:  # some part cannot be copied: copy the others
        if type(output) is dict:
            return {key: received(value) for key, value in output.items()}
        if type(output) in (list, tuple):
            return type(output)(received(entry) for entry in output)
        return output


def _raised(error: BaseException) -> Raised:
    try:
        message = _ADDRESS.sub("0x…", str(error))
    except KeyboardInterrupt:
        raise
    except BaseException:  # its own __str__ failed
        return Raised(type(error).__name__, "")
    return Raised(type(error).__name__, message)
