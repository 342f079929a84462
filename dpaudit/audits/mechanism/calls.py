"""Calls of a black-box mechanism: a fair coin chooses D or D' for each call of one sequence.

A mechanism may keep state: a counter, a cache, a budget, a clock. If all outputs of D came before
those of D', or in blocks, this state would reveal the data set. Therefore an independent coin
decides the data set of every call. Whatever the state contains, earlier outputs and the number of
the call included, an (ε, δ)-DP answer to the data of *this* call reveals its coin with odds of at
most e^ε to 1. So, given all outputs, the coins are independent with such odds, which is all that
the label test needs; a mechanism that ignores its data leaves them fair. The score may read all
outputs at once, as their order carries no information about the coins.

A coin does not help in two cases. First, an answer may depend on *earlier* calls: on their data, or
on noise that it shares with them. Then the outputs reveal more of a coin than one answer does, and
what they certify has to be repeated in fresh processes: see `planted`. Second, the outputs of
one call may share something, such as an offset, so that the coin of one reveals those of the
others. A batched mechanism is therefore asked for one output per call up to `MOST` calls, which
needs no assumption. Beyond that, each block of trials makes two calls, one for each data set, in
random order, for as many outputs as the coins ask for. This relies on the mechanism's promise that
the outputs of a call are independent; `game` refuses scores that are correlated
within calls. With so many calls, a correlation that it overlooks raises the variance of a count by
at most about 7 %.

**Workers.** A call is a function of its data set and of a stream that its number decides. So the
outputs are the same on any workers, if that is all that they depend on. `parallel` finds out: it
makes some calls twice, one after the other in this process. A mechanism that gives other outputs
the second time, or does not draw from its stream, keeps a state or has noise of its own. Its calls
stay in one sequence, in this process. Workers might start from the same state, such as a generator
with a fixed seed, and their outputs would share noise: trials that are not independent accuse at
random.
"""

from __future__ import annotations

import copy
import pickle
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpaudit.attacks.black_box.encoding import as_batch, batch_of, joined_batches
from dpaudit.audits.mechanism import one_call
from dpaudit.audits.mechanism.kept import Snapshot, may_be_noise
from dpaudit.audits.mechanism.one_call import Job, Raised, called
from dpaudit.core.errors import InputError, RunError
from dpaudit.core.streams import generator, seed_sequence
from dpaudit.execution.executor import INLINE, Executor
from dpaudit.execution.tasks import Progress, Task
from dpaudit.execution.workers import ONE_THREAD, Pool

# mechanism(data, rng), or mechanism(data, rng, n) for n independent outputs at once.
Mechanism = Callable[..., Any]
# score(outputs): one number for each output.
Score = Callable[[Any], Any]
# Most calls of a batched mechanism in one game.
MOST = 2**14
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
        with one_call.ambient_restored() if self.ambient else nullcontext():
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


@dataclass(frozen=True)
class OutputTrials:
    """Outputs in the order of the calls.

    Attributes:
        outputs: an array `(n, ...)` if all are numbers or arrays of one shape, else a list of n.
        present: whether each was made from D' `(n,)`.
        calls: the number of the call that made each output `(n,)`.
        purpose: names the streams that they were drawn from.
    """

    outputs: Any
    present: NDArray[np.bool_]
    calls: NDArray[np.int64]
    purpose: str = ""

    def __len__(self) -> int:
        return len(self.present)

    def of(self, present: bool) -> Any:
        """Return the outputs made from D' if `present`, else from D."""
        return taken(self.outputs, np.flatnonzero(self.present == present))


def taken(outputs: Any, places: NDArray[np.int64]) -> Any:
    """Return the outputs at the given places."""
    if isinstance(outputs, np.ndarray):
        return outputs[places]
    return [outputs[i] for i in places]


class CallPlan(NamedTuple):
    """Which calls make which outputs.

    Attributes:
        block: the calls.
        present: whether each output is made from D' `(n,)`.
        calls: the number of the call that makes each output `(n,)`.
    """

    block: Block
    present: NDArray[np.bool_]
    calls: NDArray[np.int64]


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
        snapshot: the mechanism before its first call, for fresh processes.
    """

    mechanism: Mechanism
    batched: bool
    seed: int
    fresh_process: bool = False
    exact: bool = True
    executor: Executor | None = None
    snapshot: Snapshot | None = None

    def __post_init__(self) -> None:
        if self.snapshot is None:
            object.__setattr__(self, "snapshot", Snapshot.of(self.mechanism))

    @property
    def kept(self) -> Snapshot:
        """The mechanism before its first call."""
        assert self.snapshot is not None  # noqa: S101
        return self.snapshot

    @property
    def progress(self) -> Progress:
        """What receives the finished calls."""
        return (self.executor or INLINE).progress

    def on_workers(self, pair: tuple[Any, Any]) -> Calls:
        """Return the same calls, but in one sequence unless they may run on several workers.

        Args:
            pair: a pair of data sets.
        """
        if self.executor is None or self.fresh_process:
            return self
        caller = Caller(self.mechanism, pair, self.seed, "twice")
        return replace(self, executor=parallel(self.executor, caller, batched=self.batched))

    def run(
        self, pair: tuple[Any, Any], purpose: str, count: int, most: int = MOST
    ) -> OutputTrials:
        """Draw `count` outputs, each from a data set chosen by its own coin.

        Args:
            pair: the data sets D and D'.
            purpose: names the streams: equal purposes give the same outputs.
            count: the number of outputs. As long as a call makes one output, a larger count extends
                the same sequence.
            most: most calls of a batched mechanism.
        """
        plan = self._plan(purpose, count, most)
        return self._trials(purpose, plan, self._answers(self._caller(pair, purpose), plan.block))

    def growing(
        self, pair: tuple[Any, Any], purpose: str, ends: Sequence[int]
    ) -> Iterator[OutputTrials]:
        """Draw the outputs of `run` part by part, one a call.

        Args:
            pair: the data sets D and D'.
            purpose: names the streams.
            ends: increasing numbers of outputs, at most `MOST` if calls are batched.

        Yields:
            For each of these numbers, as many outputs of `run`, from the first on.
        """
        plan, caller = self._plan(purpose, ends[-1], MOST), self._caller(pair, purpose)
        answers: list[Any] = []
        for end in ends:
            start = len(answers)
            answers += self._answers(caller, plan.block.at(start, end - start))
            begun = CallPlan(plan.block.at(0, end), plan.present[:end], plan.calls[:end])
            yield self._trials(purpose, begun, answers)

    def fresh(
        self, pair: tuple[Any, Any], purpose: str, count: int, *, own_hash: bool
    ) -> OutputTrials:
        """Draw outputs as `run` does, each in a fresh process, and one a call.

        Args:
            pair: the data sets D and D'.
            purpose: names the streams.
            count: the number of outputs.
            own_hash: whether each process has a seed of hashes of its own.

        Raises:
            InputError: the mechanism or its data cannot be sent to a process.
        """
        self.progress.expect(count)
        plan = self._plan(purpose, count, count)
        caller = self._caller(pair, purpose)
        return self._trials(purpose, plan, self._alone(caller, plan.block, own_hash=own_hash))

    def repeats(
        self, trials: OutputTrials, pair: tuple[Any, Any], count: int, *, own_hash: bool
    ) -> bool:
        """Whether some calls of `run` give the same outputs again in fresh processes.

        Args:
            trials: the outputs.
            pair: the data sets D and D'.
            count: the number of calls, which are chosen from the later half; each has a process of
                its own.
            own_hash: whether each has a seed of hashes of its own too.

        Raises:
            InputError: the mechanism or its data cannot be sent to a process.
        """
        block = self._plan(trials.purpose, len(trials), MOST).block
        caller = self._caller(pair, trials.purpose)
        last = len(block.present) - 1
        numbers = np.linspace(last // 2, last, count).astype(int).tolist()
        parts = [[job] for number in numbers for job in caller.jobs(block.at(number))]
        answers = [answer for unit in self._processes(parts, own_hash=own_hash) for answer in unit]
        places = [np.flatnonzero(trials.calls == number) for number in numbers]
        return all(
            _same_outputs(trials.outputs, here, self._outputs(answer, len(here)))
            for here, answer in zip(places, answers, strict=True)
        )

    def may_be_noise(self, *, constant: bool) -> list[str]:
        """Return the names of values that copies of the mechanism hold and that may be its noise.

        Args:
            constant: whether the mechanism's outputs on each data set are constant.

        Raises:
            InputError: the mechanism cannot be sent to a process, or its state cannot be read.
        """
        self._check_sendable()
        search = pickle.dumps(partial(may_be_noise, constant=constant))
        job = (self.kept.work, seed_sequence(self.seed, "kept"), None)
        ((names,),) = one_call.each_in_a_process(search, [[job]], 1)
        if isinstance(names, Raised):
            raise InputError(f"a fresh process cannot read what the mechanism keeps ({names})")
        return list(names)

    def _plan(self, purpose: str, count: int, most: int) -> CallPlan:
        coins = generator(self.seed, f"{purpose}/coins")
        present = coins.random(count) < 0.5
        size = -(-count // most) if self.batched else 1
        if size == 1:
            sizes = np.ones(count if self.batched else 0, np.int64)
            return CallPlan(Block(0, present, sizes), present, np.arange(count))
        return _in_blocks(present, 2 * size, coins)

    def _caller(self, pair: tuple[Any, Any], purpose: str) -> Caller:
        workers = (self.executor or INLINE).pool.workers
        alone = workers == ONE_THREAD or workers.backend != "threads"
        return Caller(self.mechanism, pair, self.seed, purpose, ambient=alone)

    def _answers(self, caller: Caller, block: Block) -> list[Any]:
        """Return what each call of a block returned."""
        if self.fresh_process:
            return self._alone(caller, block, own_hash=False)
        tasks = (Task(caller, piece, piece.trials) for piece in block.parts())
        return [output for answer in (self.executor or INLINE).run(tasks) for output in answer]

    def _alone(self, caller: Caller, block: Block, *, own_hash: bool) -> list[Any]:
        """Return what each call returned, each in its own process."""
        progress, answers = self.progress, []
        for (answer,) in self._processes([[job] for job in caller.jobs(block)], own_hash=own_hash):
            answers.append(answer)
            progress.advance(block.at(len(answers) - 1).trials)
        return answers

    def _processes(self, units: list[list[Any]], *, own_hash: bool) -> Any:
        self._check_sendable()
        at_once = self.executor.pool.workers.count if self.executor else 0
        return one_call.each_in_a_process(self.kept.work, units, at_once, own_hash=own_hash)

    def _check_sendable(self) -> None:
        if not self.kept.work:
            raise InputError(
                f"the mechanism cannot be sent to a fresh process ({self.kept.obstacle}): define "
                "it at the top of a module, without locks and open files"
            )

    def _trials(self, purpose: str, plan: CallPlan, answers: list[Any]) -> OutputTrials:
        if not self.batched:
            outputs = as_batch(answers) if self.exact else alike(answers)
            return OutputTrials(outputs, plan.present, plan.calls, purpose)
        sizes = plan.block.sizes.tolist()
        sized = zip(answers, sizes, strict=True)
        outputs = joined_batches([self._outputs(answer, size) for answer, size in sized])
        outputs = outputs if self.exact else alike(outputs)
        # The calls made their outputs one after the other: put these at their trials' places.
        order = np.argsort(np.argsort(plan.calls, kind="stable"))
        return OutputTrials(taken(outputs, order), plan.present, plan.calls, purpose)

    def _outputs(self, answer: Any, count: int) -> Any:
        """Return the outputs of one call."""
        return batch_of(_checked(answer, count)) if self.batched else [answer]


def _in_blocks(present: NDArray[np.bool_], size: int, coins: np.random.Generator) -> CallPlan:
    """Plan one call per data set and block, in random order, as large as its coins ask for."""
    calls = np.empty(len(present), np.int64)
    wanted: list[tuple[bool, int]] = []
    for start in range(0, len(present), size):
        block = np.arange(start, min(start + size, len(present)))
        for dataset in (False, True) if coins.random() < 0.5 else (True, False):
            places = block[present[block] == dataset]
            if len(places):
                calls[places] = len(wanted)
                wanted.append((dataset, len(places)))
    datasets = np.array([dataset for dataset, _ in wanted])
    return CallPlan(Block(0, datasets, np.array([count for _, count in wanted])), present, calls)


def _same_outputs(outputs: Any, places: NDArray[np.int64], answers: Any) -> bool:
    """Whether a call made the outputs at these places."""
    if isinstance(outputs, np.ndarray):
        try:
            return same_data(outputs[places], np.asarray(answers, outputs.dtype))
        except Exception:  # other types than numbers, or other shapes
            return False
    # Where their types compare identities, outputs are equal if their states are.
    return len(answers) == len(places) and all(
        same_data(outputs[i], answer)
        or (type(outputs[i]) is type(answer) and same_bits(outputs[i], answer))
        for i, answer in zip(places, answers, strict=True)
    )


def _checked(answer: Any, count: int) -> Any:
    """Return what a call returned, or refuse it if it is not `count` outputs."""
    if isinstance(answer, Raised):
        return [answer] * count
    several = isinstance(answer, list | tuple) or (isinstance(answer, np.ndarray) and answer.ndim)
    if not several or len(answer) != count:
        raise InputError(
            f"the mechanism returned {type(answer).__name__} where an array of {count} outputs was "
            "asked for: its first axis must be n, or leave out batched"
        )
    return answer


def alike(outputs: NDArray[Any] | list[Any]) -> NDArray[Any] | list[Any]:
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
