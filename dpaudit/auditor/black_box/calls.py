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

import copy
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit.attacks.black_box.encoding import batch_of, joined, packed
from dpaudit.auditor.black_box.isolated import Job, called, each_in_a_process
from dpaudit.core.errors import InputError
from dpaudit.core.streams import generator, seed_sequence

# mechanism(data, rng), or mechanism(data, rng, n) for n independent outputs at once.
Mechanism = Callable[..., Any]

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
    """

    mechanism: Mechanism
    batched: bool
    seed: int
    fresh_process: bool = False
    exact: bool = True

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
            jobs = zip(present, seed_sequence(self.seed, purpose).spawn(count), strict=True)
            one = 1 if self.batched else None
            made = self._called((pair[int(coin)], own, one) for coin, own in jobs)
            return Trials(self._joined(made), present, np.arange(count))
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
        streams = seed_sequence(self.seed, purpose).spawn(len(wanted))
        made = self._called(
            (pair[int(trial)], own, len(places))
            for (trial, places), own in zip(wanted, streams, strict=True)
        )
        order = np.argsort(np.concatenate([places for _, places in wanted]))
        outputs = self._joined(made)
        if isinstance(outputs, list):
            return Trials([outputs[i] for i in order], present, calls)
        return Trials(outputs[order], present, calls)

    def of_one(self, data: Any, purpose: str, count: int) -> Any:
        """Draw `count` outputs of one data set."""
        return self.run((data, data), purpose, count).outputs

    def _called(self, jobs: Iterable[Job]) -> Iterator[tuple[Any, int | None]]:
        """Yield what each call returned, and how many outputs it was asked for."""
        jobs = list(jobs)
        answers = (
            each_in_a_process(self.mechanism, jobs)
            if self.fresh_process
            else (called(self.mechanism, job) for job in jobs)
        )
        return zip(answers, (job[2] for job in jobs), strict=True)

    def _joined(self, made: Iterator[tuple[Any, int | None]]) -> Any:
        if not self.batched:
            single = [answer for answer, _ in made]
            return packed(single) if self.exact else _alike(single)
        outputs = joined([batch_of(_checked(answer, count or 1)) for answer, count in made])
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


def same_data(d: Any, d_prime: Any) -> bool:  # noqa: PLR0911  one kind of data each
    """Whether two data sets are certainly equal: one object, or the same type with equal parts."""
    if d is d_prime:
        return True
    if type(d) is not type(d_prime):
        return False
    if isinstance(d, dict):
        return d.keys() == d_prime.keys() and all(same_data(d[key], d_prime[key]) for key in d)
    if isinstance(d, list | tuple):
        return len(d) == len(d_prime) and all(map(same_data, d, d_prime))
    try:
        if isinstance(d, np.ndarray):
            return d.dtype == d_prime.dtype and bool(np.array_equal(d, d_prime))
        if hasattr(d, "equals"):  # frames and series
            return bool(d.equals(d_prime))
        if hasattr(d, "nnz"):  # sparse arrays
            return bool(d.shape == d_prime.shape and (d != d_prime).nnz == 0)
        return bool(d == d_prime)
    except Exception:  # data that cannot be compared are not known to be equal
        return False


@contextmanager
def unchanged(pair: tuple[Any, Any]) -> Iterator[None]:
    """Refuse a mechanism that changes a data set: state kept there would reveal the coin.

    Data that cannot be copied, or cannot be compared with their copy, are not checked.

    Raises:
        InputError: a data set has changed.
    """
    try:
        before: Any = copy.deepcopy(pair)
    except Exception:
        before = None
    observed = same_data(before, pair)
    yield
    if observed and not same_data(before, pair):
        raise InputError(
            "the mechanism changes its data set in place, so that one call sees what another left: "
            "make it work on a copy"
        )
