"""Calls of a black-box mechanism: a fair coin chooses D or D' for each call of one sequence.

A mechanism may keep state: a counter, a cache, a budget, a clock. If all outputs of D came before
those of D', or in blocks, this state would reveal the data set. Therefore an independent coin
decides the data set of every call. Whatever the state contains, earlier outputs and the number of
the call included, an (ε, δ)-DP answer to the data of *this* call reveals its coin with odds of at
most e^ε to 1. So, given all outputs, the coins are independent with such odds, which is all that
the label test needs; a mechanism that ignores its data leaves them fair. The score may read all
outputs at once, as their order carries no information about the coins.

A coin does not help in two cases. First, a mechanism that answers from the data of *earlier* calls
breaks the claim about those; its outputs then depend on other trials' coins, and the level is no
longer exact: use fresh processes. Second, the outputs of one call may share something, such as an
offset, so that the coin of one reveals those of the others. A batched mechanism is therefore asked
for one output per call up to `MOST` calls, which needs no assumption. Beyond that, each block of
trials makes two calls, one for each data set, in random order, for as many outputs as the coins
ask for. This relies on the mechanism's promise that the outputs of a call are independent;
`order.check_calls` refuses scores that are correlated within calls. With so many calls, a
correlation that it overlooks raises the variance of a count by at most about 7 %.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit.attacks.black_box.encoding import batch_of, joined, packed
from dpaudit.auditor.black_box.blocks import Block, Caller, parallel
from dpaudit.auditor.black_box.isolated import each_in_a_process
from dpaudit.core.errors import InputError
from dpaudit.core.streams import generator
from dpaudit.execution.executor import INLINE, Executor
from dpaudit.execution.tasks import Task

# mechanism(data, rng), or mechanism(data, rng, n) for n independent outputs at once.
Mechanism = Callable[..., Any]
# score(outputs): one number for each output.
Score = Callable[[Any], Any]

# Most calls of a batched mechanism in one game.
MOST = 2**14


@dataclass(frozen=True)
class Trials:
    """Outputs in the order of the calls.

    Attributes:
        outputs: an array `(n, ...)` if all are numbers or arrays of one shape, else a list of n.
        present: whether each was made from D' `(n,)`.
        calls: the number of the call that made each output `(n,)`.
    """

    outputs: Any
    present: NDArray[np.bool_]
    calls: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.present)

    def of(self, present: bool) -> Any:
        """Return the outputs made from D' if `present`, else from D."""
        chosen = self.present == present
        if isinstance(self.outputs, np.ndarray):
            return self.outputs[chosen]
        return [self.outputs[i] for i in np.flatnonzero(chosen)]


@dataclass(frozen=True)
class Calls:
    """The caller of a mechanism.

    Attributes:
        mechanism: the mechanism.
        batched: whether it takes a number of outputs.
        seed: seed of the coins, the order and every call's stream.
        fresh_process: whether every call runs in its own process.
        exact: whether outputs keep their types; else numbers of different types are merged into
            one array.
        executor: runs blocks of calls, or says how many processes run at a time; None makes all
            calls in one sequence, and has a process per core.
    """

    mechanism: Mechanism
    batched: bool
    seed: int
    fresh_process: bool = False
    exact: bool = True
    executor: Executor | None = None

    def on_workers(self, pair: tuple[Any, Any], count: int) -> Calls:
        """Return the same calls, but in one sequence unless they may run on several workers.

        Args:
            pair: a pair of data sets.
            count: the number of calls.
        """
        if self.executor is None or self.fresh_process:
            return self
        caller = Caller(self.mechanism, pair, self.seed, "twice")
        chosen = parallel(self.executor, caller, batched=self.batched, calls=count)
        return replace(self, executor=chosen)

    def run(self, pair: tuple[Any, Any], purpose: str, count: int, most: int = MOST) -> Trials:
        """Draw `count` outputs, each from a data set chosen by its own coin.

        Args:
            pair: the data sets D and D'.
            purpose: names the streams: equal purposes give the same outputs.
            count: the number of outputs. As long as a call makes one output, a larger count extends
                the same sequence.
            most: most calls of a batched mechanism.
        """
        coins = generator(self.seed, f"{purpose}/coins")
        present = coins.random(count) < 0.5
        size = -(-count // most) if self.batched else 1
        if size == 1:
            sizes = np.ones(count if self.batched else 0, np.int64)
            made = self._called(pair, purpose, Block(0, present, sizes))
            return Trials(self._joined(made, sizes), present, np.arange(count))
        return self._in_blocks(pair, purpose, present, 2 * size, coins)

    def _in_blocks(
        self,
        pair: tuple[Any, Any],
        purpose: str,
        present: NDArray[np.bool_],
        size: int,
        coins: np.random.Generator,
    ) -> Trials:
        """Make one call per data set and block, in random order, as large as its coins ask for."""
        calls = np.empty(len(present), np.int64)
        wanted: list[tuple[bool, NDArray[np.int64]]] = []
        for start in range(0, len(present), size):
            block = np.arange(start, min(start + size, len(present)))
            for dataset in (False, True) if coins.random() < 0.5 else (True, False):
                places = block[present[block] == dataset]
                if len(places):
                    calls[places] = len(wanted)
                    wanted.append((dataset, places))
        datasets = np.array([dataset for dataset, _ in wanted])
        sizes = np.array([len(places) for _, places in wanted])
        made = self._called(pair, purpose, Block(0, datasets, sizes))
        order = np.argsort(np.concatenate([places for _, places in wanted]))
        outputs = self._joined(made, sizes)
        if isinstance(outputs, list):
            return Trials([outputs[i] for i in order], present, calls)
        return Trials(outputs[order], present, calls)

    def of_one(self, data: Any, purpose: str, count: int) -> Any:
        """Draw `count` outputs of one data set."""
        return self.run((data, data), purpose, count).outputs

    def _called(self, pair: tuple[Any, Any], purpose: str, calls: Block) -> list[Any]:
        """Return what each call returned."""
        executor = self.executor or INLINE
        sent = executor.pool.workers.backend != "threads"
        caller = Caller(self.mechanism, pair, self.seed, purpose, sent)
        if not self.fresh_process:
            tasks = (Task(caller, block, block.trials) for block in calls.parts())
            return [answer for answers in executor.run(tasks) for answer in answers]
        found: list[Any] = []
        jobs = caller.jobs(calls)
        at_once = self.executor.pool.workers.count if self.executor else 0
        for answer in each_in_a_process(self.mechanism, jobs, at_once):
            executor.progress.advance(jobs[len(found)][2] or 1)
            found.append(answer)
        return found

    def _joined(self, made: list[Any], sizes: NDArray[np.int64]) -> Any:
        if not self.batched:
            return packed(made) if self.exact else _alike(made)
        batches = [_checked(*each) for each in zip(made, sizes.tolist(), strict=True)]
        outputs = joined([batch_of(batch) for batch in batches])
        return outputs if self.exact else _alike(outputs)


def _checked(made: Any, count: int) -> Any:
    """Return what a call returned, or refuse it if it is not `count` outputs."""
    several = isinstance(made, list | tuple) or (isinstance(made, np.ndarray) and made.ndim)
    if not several or len(made) != count:
        raise InputError(
            f"the mechanism returned {type(made).__name__} where an array of {count} outputs was "
            "asked for: its first axis must be n, or leave out batched"
        )
    return made


def _alike(outputs: NDArray[Any] | list[Any]) -> NDArray[Any] | list[Any]:
    """Turn outputs into an array if all are numbers or arrays of one shape."""
    try:
        with warnings.catch_warnings(action="ignore"):  # masked numbers become NaN
            array = np.asarray(outputs)
    except Exception:  # different shapes, or a foreign type
        return outputs
    return array if numeric(array) else outputs


def numeric(output: Any) -> bool:
    """Whether `output` is an array of numbers."""
    return isinstance(output, np.ndarray) and output.dtype.kind in "biuf"
