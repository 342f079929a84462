"""Outcomes of a game: an attack's scores with the labels that they are tested with."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpaudit.bounds.frequentist.event_choice import Ends
from dpaudit.core.estimate import Estimate


@dataclass(frozen=True, eq=False)
class GameScores:
    """The scores of independent trials on two data sets.

    Attributes:
        absent: the attack's score in each trial on D `(T,)`.
        present: its score in each trial on D' `(T,)`.
        truth: the ε of this pair by the law of the mechanism, if known.
        coin_flipped: whether a fair coin chose the data set of each trial; else the numbers of
            trials are fixed.
        expected: the ends of the scores that the event takes if a pilot is not informative.
        log_odds: whether scores estimate the log-odds of D' up to a factor and a constant.
    """

    absent: NDArray[np.float64]
    present: NDArray[np.float64]
    truth: Estimate | None = None
    coin_flipped: bool = False
    expected: Ends = "top"
    log_odds: bool = False


@dataclass(frozen=True, eq=False)
class CoinScores:
    """The scores of targets whose coins decide the data of a few trainings, and these coins.

    Attributes:
        scores: large where the coin is guessed to be 1 `(trainings · targets,)`.
        coins: the coins, 0 or 1 `(trainings · targets,)`.
        trainings: number of trainings.
        guesses: the numbers of coins to guess as 1 and as 0, set without these coins; None to
            choose among a few numbers, which share the level.
        truth: the ε by the law of the mechanism, if known.
    """

    scores: NDArray[np.float64]
    coins: NDArray[np.int64] | NDArray[np.bool_]
    trainings: int
    guesses: tuple[int, int] | None = None
    truth: Estimate | None = None
