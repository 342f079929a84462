"""Many ratings in doubt at once: every training is a test of each of them.

Each canary's value is decided by a coin of its own, a model is trained once, and every coin is
guessed from what is seen: the guesses of one training say as much as a pair of trainings for each
canary (Steinke, Nasr, Jagielski 2023, arXiv:2305.08846). Trainings with coins of their own add up.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit.attacks.base import Distinguisher
from dpaudit.auditor.games.game import CERTAIN
from dpaudit.core.errors import DataError
from dpaudit.core.observation import PreparedPair
from dpaudit.core.releases import NoisedSteps, StepsPair
from dpaudit.core.streams import Streams
from dpaudit.data.ratings import Ratings
from dpaudit.defenses.base import TrainedDefense


@dataclass(frozen=True, eq=False)
class CoinScores:
    """What is guessed of the canaries' coins.

    Attributes:
        scores: large where the canary has the greatest value of the scale `(trainings · C,)`.
        coins: 1 where it has, 0 where it has the least `(trainings · C,)`.
    """

    scores: NDArray[np.float64]
    coins: NDArray[np.int64]


def rare_ratings(ratings: Ratings, count: int) -> NDArray[np.int64]:
    """Rows that make good canaries, increasing: one of each user, those of the rarest items first.

    Raises:
        DataError: fewer users than canaries have ratings.
    """
    raters = np.bincount(ratings.item, minlength=ratings.n_items)[ratings.item]
    order = np.lexsort((ratings.item, raters))
    _, first = np.unique(ratings.user[order], return_index=True)
    rows = order[np.sort(first)[:count]]
    if len(rows) < count:
        raise DataError(
            f"{len(rows)} users have ratings and {count} canaries need one each: lower "
            "game.candidates"
        )
    return np.sort(rows)


def play_coins_game(
    defense: TrainedDefense[Any],
    observer: str,
    ratings: Ratings,
    rows: NDArray[np.int64],
    attack: Distinguisher,
    *,
    trainings: int,
    seed: int,
    threads: int = 1,
) -> CoinScores:
    """Train with fresh coins so many times, and score every canary by its steps.

    Args:
        defense: one whose steps show each rating apart.
        observer: who sees these steps.
        ratings: the audited data; their statistics count as public.
        rows: the canaries' rows, increasing `(C,)`.
        attack: reads the steps.
        trainings: how many models are trained.
        seed: decides coins and streams.
        threads: number of threads; the numbers do not depend on it.

    Raises:
        ConfigError: the defense's steps do not show each rating apart.
        RunError: a training diverged.
    """
    scale = ratings.scale
    low, high = (
        defense.prepare(_set(ratings, rows, np.full(len(rows), value)), ratings)
        for value in (scale.minimum, scale.maximum)
    )
    coins = np.random.default_rng(np.random.SeedSequence([seed, *b"coins"])).integers(
        0, 2, (trainings, len(rows))
    )
    streams = Streams.first(seed, "coins", trainings)

    views = defense.observers()[observer].views

    def scores(training: int) -> NDArray[np.float64]:
        values = np.where(coins[training], scale.maximum, scale.minimum)
        trained = defense.prepare(_set(ratings, rows, values), ratings)
        world = Streams(streams.key, streams.worlds[training : training + 1])
        parts = views(PreparedPair(low, high), trained, world)
        return np.concatenate([_apart(attack, *part, len(rows)) for part in parts])

    with ThreadPoolExecutor(max_workers=threads) as pool:
        found = list(pool.map(scores, range(trainings)))
    return CoinScores(np.concatenate(found), coins.reshape(-1))


def _set(ratings: Ratings, rows: NDArray[np.int64], values: NDArray[Any]) -> Ratings:
    """The ratings with these values in these rows."""
    column = ratings.value.copy()
    column[rows] = values
    return Ratings.build(
        ratings.user, ratings.item, column, ratings.n_users, ratings.n_items, ratings.scale
    )


def _apart(
    attack: Distinguisher, release: NoisedSteps, pair: StepsPair, count: int
) -> NDArray[np.float64]:
    """The score of each canary, whose numbers stand `count` apart, in the one world `(C,)`."""

    def each() -> Iterator[float]:
        for c in range(count):
            mine = slice(c, None, count)
            own = StepsPair(
                absent=pair.absent[:, mine],
                present=pair.present[:, mine],
                scale=pair.scale[mine],
                gaussian=pair.gaussian,
                bound=pair.bound,
            )
            yield float(attack.score(NoisedSteps(release.shown[:, mine]), own)[0])

    return np.clip(np.fromiter(each(), np.float64, count), -CERTAIN, CERTAIN)
