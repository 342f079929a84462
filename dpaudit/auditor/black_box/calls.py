"""Calls of a mechanism of which outputs alone are seen: D or D' by a fair coin, in one sequence.

A mechanism may keep state: a counter, a cache, a budget, a clock. If all outputs of D came before
those of D', or in blocks, its state would tell the worlds apart. So a coin that nothing else
depends on decides the data set of every call. Whatever the state is made of, earlier outputs and
the number of the call included, an (ε, δ)-DP answer to the data of *this* call tells its coin with
odds of at most e^ε to 1; so, given all outputs, the coins are independent with such odds, which is
all that the label test needs, and a mechanism that ignores its data leaves them fair. The score may
read all the outputs at once, since they come in an order that the coins alone made.

Two things a coin cannot mend. A mechanism that answers from the data of *earlier* calls breaks the
claim about those; its outputs then depend on other trials' coins, and the level is no longer exact:
give it fresh processes. And outputs of one call share whatever that call has of its own, an offset
say, so that the coin of one tells those of the others. A batched mechanism is therefore asked for
one output a call as long as so many calls are affordable (`MOST`), which needs no assumption;
beyond that, for as many outputs of either data set as their own coins ask for, two calls in random
order at a time. Then its promise that the outputs of a call are independent is needed, and
`blackbox_order.check_calls` refuses scores that are alike within calls. With so many calls, what it
overlooks raises the variance of a count by about 7 % at most.
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

# mechanism(data, rng), or mechanism(data, rng, n) for n independent outputs at once.
Mechanism = Callable[..., Any]

# Calls of a batched mechanism that make the outputs of one game.
MOST = 2**14


@dataclass(frozen=True)
class Trials:
    """Outputs in the order of the calls.

    Attributes:
        outputs: an array `(n, ...)` where all are numbers of one form, or a list of n.
        present: whether each was made from D'.
        calls: the number of the call that made it.
    """

    outputs: Any
    present: NDArray[np.bool_]
    calls: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.present)

    def of(self, present: bool) -> Any:
        """The outputs that were made from D', or from D."""
        chosen = self.present == present
        if isinstance(self.outputs, np.ndarray):
            return self.outputs[chosen]
        return [self.outputs[i] for i in np.flatnonzero(chosen)]


@dataclass(frozen=True)
class Calls:
    """How a mechanism is called.

    Attributes:
        mechanism: what is called.
        batched: whether it takes a number of outputs.
        seed: decides coins, order and every call's stream.
        fresh_process: whether every call is made in a process of its own.
        exact: whether outputs of different types stay apart.
    """

    mechanism: Mechanism
    batched: bool
    seed: int
    fresh_process: bool = False
    exact: bool = True

    def play(self, pair: tuple[Any, Any], purpose: str, count: int, most: int = MOST) -> Trials:
        """So many outputs, each of a data set that its own coin chose.

        Args:
            pair: the data sets D and D'.
            purpose: names the streams: equal purposes give the same outputs.
            count: the number of outputs; more of them extend the same sequence while a call makes
                one output.
            most: calls that a batched mechanism may be asked for.
        """
        coins = np.random.default_rng(stream(self.seed, f"{purpose}/coins"))
        present = coins.random(count) < 0.5
        size = -(-count // most) if self.batched else 1
        if size == 1:
            jobs = zip(present, stream(self.seed, purpose).spawn(count), strict=True)
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
        """Two calls a block, in random order, of as many outputs as its coins ask for."""
        calls = np.empty(len(present), np.int64)
        wanted: list[tuple[bool, NDArray[np.int64]]] = []
        for start in range(0, len(present), size):
            block = np.arange(start, min(start + size, len(present)))
            for world in (False, True) if coins.random() < 0.5 else (True, False):
                places = block[present[block] == world]
                if len(places):
                    calls[places] = len(wanted)
                    wanted.append((world, places))
        streams = stream(self.seed, purpose).spawn(len(wanted))
        made = self._called(
            (pair[int(world)], own, len(places))
            for (world, places), own in zip(wanted, streams, strict=True)
        )
        order = np.argsort(np.concatenate([places for _, places in wanted]))
        outputs = self._joined(made)
        if isinstance(outputs, list):
            return Trials([outputs[i] for i in order], present, calls)
        return Trials(outputs[order], present, calls)

    def of_one(self, data: Any, purpose: str, count: int) -> Any:
        """So many outputs of one data set."""
        return self.play((data, data), purpose, count).outputs

    def _called(self, jobs: Iterable[Job]) -> Iterator[tuple[Any, int | None]]:
        """What each call returned, and how many outputs it was asked for."""
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
    """What a call returned, if it is so many outputs."""
    several = isinstance(made, list | tuple) or (isinstance(made, np.ndarray) and made.ndim)
    if not several or len(made) != count:
        raise InputError(
            f"the mechanism returned {type(made).__name__} where an array of {count} outputs was "
            "asked for: its first axis must be n, or leave out batched"
        )
    return made


def _alike(outputs: NDArray[Any] | list[Any]) -> NDArray[Any] | list[Any]:
    """Outputs as an array where all are numbers, or arrays of one shape, else as they are."""
    try:
        with warnings.catch_warnings(action="ignore"):  # masked numbers become NaN
            array = np.asarray(outputs)
    except Exception:  # of several shapes, or of a kind of its own
        return outputs
    return array if numeric(array) else outputs


def numeric(output: Any) -> bool:
    """Whether it is an array of numbers."""
    return isinstance(output, np.ndarray) and output.dtype.kind in "biuf"


def stream(seed: int, purpose: str) -> np.random.SeedSequence:
    """The stream of a purpose."""
    return np.random.SeedSequence([seed, *purpose.encode()])


def same_data(d: Any, d_prime: Any) -> bool:  # noqa: PLR0911  one kind of data each
    """Whether two data sets are certainly equal: one object, or equal numbers, words, or parts."""
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
    except Exception:  # what cannot be compared is not known to be equal
        return False


@contextmanager
def unchanged(pair: tuple[Any, Any]) -> Iterator[None]:
    """Refuse a mechanism that changes a data set: what it kept there would tell the two apart.

    Data that cannot be copied, or whose copy cannot be compared with them, are not watched.

    Raises:
        InputError: a data set is no longer what it was.
    """
    try:
        before: Any = copy.deepcopy(pair)
    except Exception:
        before = None
    watched = same_data(before, pair)
    yield
    if watched and not same_data(before, pair):
        raise InputError(
            "the mechanism changes its data set in place, so that one call sees what another left: "
            "let it work on a copy"
        )
