"""Blocks of calls: tasks that run on the workers of an executor.

A call is a function of its data set and of a stream that its number decides. So the outputs are the
same on any workers, if that is all that they depend on. `parallel` finds out: it makes some calls
twice, one after the other in this process. A mechanism that gives other outputs the second time, or
does not draw from its stream, keeps a state or has noise of its own. Its calls stay in one
sequence, in this process. Workers might start from the same state, such as a generator with a fixed
seed, and their outputs would share noise: trials that are not independent accuse at random.
"""

from __future__ import annotations

import copy
import pickle
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpaudit.audits.mechanism.one_call import Job, ambient_restored, called
from dpaudit.core.errors import InputError, RunError
from dpaudit.core.streams import seed_sequence
from dpaudit.execution.executor import Executor
from dpaudit.execution.workers import ONE_THREAD, Pool

# The number of calls that are made twice.
_TWICE = 32
# The number of blocks of a game.
_BLOCKS = 64


class Block(NamedTuple):
    """Calls that follow each other.

    Attributes:
        first: the number of the first call.
        present: whether each call is on D' `(n,)`.
        sizes: the number of outputs of each call `(n,)`; empty if calls make one output each.
    """

    first: int
    present: NDArray[np.bool_]
    sizes: NDArray[np.int64]

    @property
    def trials(self) -> int:
        """The number of outputs."""
        return int(self.sizes.sum()) if len(self.sizes) else len(self.present)

    def parts(self) -> list[Block]:
        """Divide the calls into blocks of equal size."""
        size = -(-len(self.present) // _BLOCKS)
        return [self.at(start, size) for start in range(0, len(self.present), size)]

    def at(self, start: int, size: int = 1) -> Block:
        """Return the block of some of the calls."""
        chosen = slice(start, start + size)
        return Block(self.first + start, self.present[chosen], self.sizes[chosen])


@dataclass(frozen=True, eq=False)
class Caller:
    """The work of a task: calls a mechanism.

    Attributes:
        mechanism: the mechanism.
        pair: the data sets D and D'.
        seed: seed of every call's stream.
        purpose: names the streams.
        ambient: whether calls seed the generators of their process, see `one_call`; not where
            several threads call.
    """

    mechanism: Any
    pair: tuple[Any, Any]
    seed: int
    purpose: str
    ambient: bool = True

    def jobs(self, block: Block) -> list[Job]:
        """Return the arguments of a block's calls."""
        return [
            (
                self.pair[int(present)],
                seed_sequence(self.seed, self.purpose, child=block.first + i),
                int(block.sizes[i]) if len(block.sizes) else None,
            )
            for i, present in enumerate(block.present)
        ]

    def __call__(self, block: Block) -> Any:
        """Make the calls of a block, and return the list of what they return.

        Raises:
            InputError: the mechanism changes its data set.
        """
        before = self._before
        with ambient_restored() if self.ambient else nullcontext():
            outputs = [
                called(self.mechanism, job, ambient=self.ambient) for job in self.jobs(block)
            ]
        if before is not None and not same_data(before, self.pair):
            raise InputError(
                "the mechanism changes its data set in place, so that one call sees what another "
                "left: make it work on a copy"
            )
        return outputs

    @cached_property
    def _before(self) -> Any:
        """A copy of the data; None if they cannot be copied, or compared with their copy."""
        try:
            twin = copy.deepcopy(self.pair)
        except Exception:
            return None
        return twin if same_data(twin, self.pair) else None


def same_data(d: Any, d_prime: Any) -> bool:
    """Whether two data sets are certainly equal: one object, or the same type with equal parts.

    Data that cannot be compared, or are nested too deep, are not known to be equal.
    """
    try:
        return _same(d, d_prime)
    except Exception:  # a comparison of the user's types raises whatever it likes
        return False


def _same(d: Any, d_prime: Any) -> bool:  # noqa: PLR0911  one kind of data each
    if d is d_prime:
        return True
    if type(d) is not type(d_prime):
        return False
    if isinstance(d, dict):
        return d.keys() == d_prime.keys() and all(_same(d[key], d_prime[key]) for key in d)
    if isinstance(d, list | tuple):
        return len(d) == len(d_prime) and all(map(_same, d, d_prime))
    if isinstance(d, np.ndarray):
        nan = d.dtype.kind in "fc"
        return d.dtype == d_prime.dtype and bool(np.array_equal(d, d_prime, equal_nan=nan))
    if hasattr(d, "equals"):  # frames and series
        return bool(d.equals(d_prime))
    if hasattr(d, "nnz"):  # sparse arrays
        return bool(d.shape == d_prime.shape and (d != d_prime).nnz == 0)
    return bool(d == d_prime) or bool(d != d and d_prime != d_prime)  # noqa: PLR0124  NaN


def failed(words: str, culprit: str = "the mechanism") -> RunError:
    """Return the error of a mechanism that raises in every call, or of its score.

    Args:
        words: the exception.
        culprit: what raised it.
    """
    return RunError(
        f"{culprit} raised {words}; call it yourself with (data, numpy.random.default_rng(0)) to "
        "see where"
    )


def parallel(executor: Executor, caller: Caller, *, batched: bool) -> Executor:
    """Return the executor for the calls of a mechanism: the given one, or one for one sequence.

    How long calls take decides nothing, as a state that they keep unnoticed differs by worker.

    Args:
        executor: has the workers.
        caller: calls the mechanism.
        batched: whether calls ask for a number of outputs.

    Returns:
        `executor` if the outputs depend on data and stream alone, and the mechanism and the data
        can be sent to its workers.
    """
    # Noise of the process's own generators is not to repeat here: threads would share it.
    traced = replace(caller, mechanism=_traced(caller.mechanism), ambient=False)
    block = Block(0, np.arange(_TWICE) % 2 == 1, np.ones(_TWICE if batched else 0, np.int64))
    first, again = traced(block), traced(block)
    workers = executor.pool.workers
    if (
        workers != ONE_THREAD
        and all(isinstance(output, tuple) and output[1] for output in first)
        and same_bits(first, again)
        and (workers.backend == "threads" or _can_be_sent(caller))
    ):
        return executor
    return replace(executor, pool=Pool(ONE_THREAD))


def _traced(mechanism: Any) -> Any:
    """Return a mechanism that also returns whether it has drawn from its stream."""

    def traced(data: Any, rng: np.random.Generator, *count: int) -> tuple[Any, bool]:
        before = rng.bit_generator.state
        try:
            output = mechanism(data, rng, *count)
        except Exception as error:
            output = repr(error)
        return output, rng.bit_generator.state != before

    return traced


def same_bits(outputs: Any, again: Any) -> bool:
    """Whether outputs have the same types and bits."""
    try:
        return pickle.dumps(outputs) == pickle.dumps(again)
    except Exception:  # they are of a foreign type
        return False


def _can_be_sent(caller: Caller) -> bool:
    import cloudpickle

    try:
        cloudpickle.dumps(caller)
    except Exception:  # whatever the mechanism and its data hold
        return False
    return True
