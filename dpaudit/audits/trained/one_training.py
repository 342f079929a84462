"""Games of many canary ratings: every training tests all of them at once.

In each training an independent coin decides whether a canary has the least or the largest value of
the scale, and the canary's own numbers in the noised steps score its coin. The scores of one
training suffice for a bound (Steinke, Nasr, Jagielski 2023, arXiv:2305.08846); those of several
trainings, with fresh coins each, are certified together.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit.attacks.base import Distinguisher
from dpaudit.auditor.games.game import CERTAIN
from dpaudit.auditor.games.outcomes import CoinScores
from dpaudit.auditor.no_model import attempted
from dpaudit.core.errors import DataError
from dpaudit.core.releases import NoisedSteps, PreparedPair, StepsPair
from dpaudit.core.streams import Streams, generator
from dpaudit.data.ratings import Ratings
from dpaudit.defenses.base import TrainedDefense
from dpaudit.execution.executor import INLINE, Executor


def rare_ratings(ratings: Ratings, count: int) -> NDArray[np.int64]:
    """Return `count` rows of good canaries, increasing: one per user, rarest items first.

    Raises:
        DataError: fewer than `count` users have ratings.
    """
    raters = np.bincount(ratings.item, minlength=ratings.n_items)[ratings.item]
    order = np.lexsort((ratings.item, raters))
    _, first = np.unique(ratings.user[order], return_index=True)
    rows = order[np.sort(first)[:count]]
    if len(rows) < count:
        raise DataError(
            f"{len(rows)} users have ratings and {count} canaries need a user each: lower "
            "game.candidates"
        )
    return np.sort(rows)


def run_coins_game(
    defense: TrainedDefense[Any],
    observer: str,
    ratings: Ratings,
    rows: NDArray[np.int64],
    attack: Distinguisher,
    *,
    trainings: int,
    seed: int,
    executor: Executor = INLINE,
) -> CoinScores:
    """Train `trainings` models with fresh coins, and score every canary by its training steps.

    A training that ends without a model shows no numbers of its canaries, and all score 0.

    Args:
        defense: a defense whose steps show each rating separately, as `Pairs.check` requires.
        observer: the observer of these steps.
        ratings: the audited data; their statistics count as public.
        rows: the canaries' rows, increasing `(C,)`.
        attack: scores the steps.
        trainings: number of trained models.
        seed: seed of coins and streams.
        executor: runs the trainings; the result does not depend on it.
    """
    scale = ratings.scale
    low, high = (
        defense.prepare(_set(ratings, rows, np.full(len(rows), value)), ratings)
        for value in (scale.minimum, scale.maximum)
    )
    coins = generator(seed, "coins").integers(0, 2, (trainings, len(rows)))
    streams = Streams.first(seed, "coins", trainings)

    views = defense.observers()[observer].views

    def scores(part: tuple[NDArray[np.int64], Streams]) -> NDArray[np.float64]:
        tossed, trial = part
        values = np.where(tossed, scale.maximum, scale.minimum)
        trained = defense.prepare(_set(ratings, rows, values), ratings)
        parts = views(PreparedPair(low, high), trained, trial)
        return attempted(
            lambda: np.concatenate([_apart(attack, *part, len(rows)) for part in parts]),
            np.zeros(len(rows)),
        )

    parts = zip(coins, streams.blocks(1), strict=True)
    results = executor.map("coins", scores, parts, lambda part: len(part[1]))
    return CoinScores(np.concatenate(results), coins.reshape(-1), trainings)


def _set(ratings: Ratings, rows: NDArray[np.int64], values: NDArray[Any]) -> Ratings:
    """Return the ratings with new values in the given rows."""
    column = ratings.value.copy()
    column[rows] = values
    return Ratings.build(
        ratings.user, ratings.item, column, ratings.n_users, ratings.n_items, ratings.scale
    )


def _apart(
    attack: Distinguisher, release: NoisedSteps, pair: StepsPair, count: int
) -> NDArray[np.float64]:
    """Score each canary in a single trial `(C,)`; a canary's numbers are `count` places apart."""

    def scores() -> Iterator[float]:
        for c in range(count):
            own_columns = slice(c, None, count)
            canary = StepsPair(
                absent=pair.absent[:, own_columns],
                present=pair.present[:, own_columns],
                scale=pair.scale[..., own_columns],
                gaussian=pair.gaussian,
                bound=pair.bound,
            )
            yield float(attack.score(NoisedSteps(release.shown[:, own_columns]), canary)[0])

    return np.clip(np.fromiter(scores(), np.float64, count), -CERTAIN, CERTAIN)
