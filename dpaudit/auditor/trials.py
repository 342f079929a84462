"""Which user, rating and prediction each trial of a game is about.

Trial `t` is decided by the seed and `t` alone: more trials extend the same sequence, and its order
of execution does not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.profile import Profile
from dpaudit.core.streams import Key, Streams, stream_key
from dpaudit.kernels import noise

Number = TypeVar("Number", np.bool_, np.float64)

# Worlds handled at a time: fixed, so that nothing depends on the number of threads.
BLOCK = 256


@dataclass(frozen=True, eq=False)
class Plan:
    """The draws of `T` trials.

    Attributes:
        user: position in the list of audited users `(T,)`.
        draws: three further independent uniform draws in [0, 1) a trial `(T, 3)`.
        key: the noise source's key for the releases of these trials.
    """

    user: NDArray[np.int64]
    draws: NDArray[np.float64]
    key: Key

    def blocks(self) -> Iterator[tuple[int, Streams]]:
        """Blocks of trials about one user: her position, and the trials' indices as worlds."""
        order = np.argsort(self.user, kind="stable")
        bounds = np.flatnonzero(np.diff(self.user[order])) + 1
        for trials in np.split(order, bounds):
            for start in range(0, len(trials), BLOCK):
                worlds = trials[start : start + BLOCK]
                yield int(self.user[worlds[0]]), Streams(self.key, worlds)


def plan(
    seed: int,
    purpose: str,
    trials: int,
    users: int,
    weights: NDArray[np.int64] | None = None,
) -> Plan:
    """Draw the trials of one game: a user each, and the draws for what they are asked.

    Args:
        seed: the run's seed.
        purpose: what the draws are for; other purposes have other draws.
        trials: number of trials.
        users: number of users.
        weights: each user is drawn with probability in proportion to these positive numbers
            `(users,)`; uniformly where there are none.
    """
    draws = np.empty((trials, 8), np.float32)
    worlds = np.arange(trials, dtype=np.int64)
    noise.uniform(draws, worlds, 0, stream_key(seed, f"{purpose}/trials"))
    # Two draws of 23 bits make one of 46: choices among many items stay uniform.
    fine = draws[:, ::2] + (draws[:, 1::2].astype(np.float64) - 0.5) * 2.0**-23
    if weights is None:
        user = choose(fine[:, 0], users)
    else:
        user = np.searchsorted(
            np.cumsum(weights), choose(fine[:, 0], int(weights.sum())), side="right"
        )
    return Plan(user, fine[:, 1:], stream_key(seed, f"{purpose}/noise"))


def choose(uniform: NDArray[np.float64], count: int) -> NDArray[np.int64]:
    """Uniform choices among `count` things from uniform draws in [0, 1)."""
    return (uniform * count).astype(np.int64)


def play_blocks(
    games: Plan,
    play: Callable[[int, Streams], NDArray[Number]],
    threads: int,
    advance: Callable[[int], None],
) -> NDArray[Number]:
    """Play every block, on some threads; the outcomes `(D, T)` in the trials' order.

    Args:
        games: the trials.
        play: the outcomes `(D, W)` of a block about one user, of each of D defenses.
        threads: number of threads; it does not change the result.
        advance: told the number of trials done.
    """
    blocks, parts = list(games.blocks()), []
    with ThreadPoolExecutor(max_workers=threads) as pool:
        for (_, streams), part in zip(
            blocks, pool.map(lambda block: play(*block), blocks), strict=True
        ):
            parts.append(part)
            advance(len(streams))
    order = np.concatenate([streams.worlds for _, streams in blocks])
    return np.concatenate(parts, axis=1)[:, np.argsort(order)]


def eligible(profiles: Sequence[Profile], least: int, most: int) -> list[Profile]:
    """The profiles with at least and at most so many ratings."""
    return [profile for profile in profiles if least <= len(profile) <= most]
