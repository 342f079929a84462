"""The random choice of each trial's user, rating and prediction.

Trial `t` depends only on the seed and `t`: more trials extend the same sequence, and the order of
execution does not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.streams import Key, Streams, stream_key
from dpaudit.execution.executor import Executor
from dpaudit.kernels import noise

Number = TypeVar("Number", np.bool_, np.float64)

# Trials per block; fixed, so that results do not depend on the number of threads.
BLOCK = 256
# The least number of trials of a task whose trials take microseconds.
TOGETHER = 1024


@dataclass(frozen=True, eq=False)
class TrialDraws:
    """The draws of `T` trials.

    Attributes:
        user: position in the list of audited users `(T,)`.
        draws: three further independent uniform draws in [0, 1) per trial `(T, 3)`.
        key: the noise source's key for the releases of these trials.
    """

    user: NDArray[np.int64]
    draws: NDArray[np.float64]
    key: Key

    def blocks(self) -> Iterator[tuple[int, Streams]]:
        """Yield blocks of trials that share a user: the user's position, the trials' streams."""
        order = np.argsort(self.user, kind="stable")
        bounds = np.flatnonzero(np.diff(self.user[order])) + 1
        for trials in np.split(order, bounds):
            for start in range(0, len(trials), BLOCK):
                part = trials[start : start + BLOCK]
                yield int(self.user[part[0]]), Streams(self.key, part)


def draw_trials(
    seed: int,
    purpose: str,
    trials: int,
    users: int,
    weights: NDArray[np.int64] | None = None,
) -> TrialDraws:
    """Draw the trials of one game: a user each, and uniform draws for further choices.

    Args:
        seed: the run's seed.
        purpose: name of the random streams; different purposes have independent draws.
        trials: number of trials.
        users: number of users.
        weights: positive weights `(users,)`, in proportion to which users are drawn; uniform if
            None.
    """
    draws = np.empty((trials, 8), np.float32)
    noise.uniform(
        draws, np.arange(trials, dtype=np.int64), 0, stream_key(seed, f"{purpose}/trials")
    )
    # Two draws of 23 bits make one of 46, so that choices among many items stay uniform.
    fine = draws[:, ::2] + (draws[:, 1::2].astype(np.float64) - 0.5) * 2.0**-23
    if weights is None:
        user = choose(fine[:, 0], users)
    else:
        user = np.searchsorted(
            np.cumsum(weights), choose(fine[:, 0], int(weights.sum())), side="right"
        )
    return TrialDraws(user, fine[:, 1:], stream_key(seed, f"{purpose}/noise"))


def choose(uniform: NDArray[np.float64], count: int) -> NDArray[np.int64]:
    """Map uniform draws in [0, 1) to uniform integers in [0, count)."""
    return (uniform * count).astype(np.int64)


# A block of one user's trials: the user's position, and the trials' streams.
Block = tuple[int, Streams]


def run_blocks(
    draws: TrialDraws,
    run: Callable[[int, Streams], NDArray[Number]],
    executor: Executor,
    together: int = 1,
) -> NDArray[Number]:
    """Run every block and return the outcomes `(D, T)` in the order of the trials.

    Args:
        draws: the trials.
        run: returns the outcomes `(D, W)` of a block of one user's trials, for each of D defenses.
        executor: runs the blocks; the result does not depend on it.
        together: the least number of trials of a task, which consists of whole blocks.
    """
    blocks = list(draws.blocks())

    def work(joined: tuple[Block, ...]) -> NDArray[Number]:
        return np.concatenate([run(*block) for block in joined], axis=1)

    parts = executor.map("blocks", work, _joined(blocks, together), _trials)
    order = np.concatenate([streams.trials for _, streams in blocks])
    return np.concatenate(parts, axis=1)[:, np.argsort(order)]


def _joined(blocks: Sequence[Block], least: int) -> Iterator[tuple[Block, ...]]:
    """Yield runs of blocks of at least `least` trials together; the last may have fewer."""
    joined: tuple[Block, ...] = ()
    for block in blocks:
        joined = (*joined, block)
        if _trials(joined) >= least:
            yield joined
            joined = ()
    if joined:
        yield joined


def _trials(blocks: tuple[Block, ...]) -> int:
    return sum(len(streams) for _, streams in blocks)
