"""A training that ends without a model is an outcome of a game."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dpaudit.attacks.distinguishing import LikelihoodRatio
from dpaudit.attacks.membership.inference import Canary
from dpaudit.auditor.games import NO_MODEL, DistinguishingGame, GameScores
from dpaudit.audits.trained.pairs import DataPair, trained_game
from dpaudit.bounds.frequentist.labels import label_epsilon
from dpaudit.core.errors import NoModelError
from dpaudit.core.releases import (
    NoisedSteps,
    Observer,
    Predictions,
    PreparedPair,
    Profile,
    StepsPair,
    TargetUser,
    View,
)
from dpaudit.core.streams import Streams, generator
from dpaudit.data.ratings import Scale, from_profiles
from dpaudit.defenses.factorization.sgd import SgdFactors

ITEMS = np.arange(2, dtype=np.int32)
EMPTY = Profile(ITEMS[:0], np.empty(0, np.float32))


def uniform(streams: Streams) -> NDArray[np.float64]:
    """A number of each trial, whatever trials are beside it."""
    return np.array([generator(int(trial), "uniform").random() for trial in streams.trials])


def shows(fails: float, streams: Streams) -> NDArray[np.float64]:
    """Fail with this probability in each trial; else return numbers of no interest `(W, 2)`."""
    draws = uniform(Streams(streams.key, streams.trials + int(streams.key[0]) % 2**31))
    if (draws < fails).any():
        raise NoModelError("it diverged")
    return np.column_stack([draws, draws**2])


def steps(pair: PreparedPair[float], fails: float, streams: Streams) -> Iterator[View]:
    shown = shows(fails, streams)
    nothing = np.zeros_like(shown)
    yield View(NoisedSteps(shown), StepsPair(nothing, nothing, np.ones(2), gaussian=True))


def values(pair: PreparedPair[float], fails: float, streams: Streams) -> Iterator[View]:
    shown = shows(fails, streams).astype(np.float32)
    yield View(Predictions(np.broadcast_to(ITEMS, shown.shape), shown), TargetUser(1, EMPTY, EMPTY))


def run(fails: tuple[float, float], learned: bool = False, trials: int = 200) -> GameScores:
    attack: Any = Canary(calibration=64) if learned else LikelihoodRatio()
    reads = (Predictions, TargetUser) if learned else (NoisedSteps, StepsPair)
    observer = Observer(reads, values if learned else steps, "it", purpose="test", block=16)
    pair = PreparedPair(*fails)
    return DistinguishingGame(observer, pair, attack).run(trials=trials, seed=5)


@pytest.mark.cases("learned", [False, True])
@pytest.mark.cases("fails", [(0.0, 0.9), (0.9, 0.0), (0.2, 0.95)])
def test_a_failure_that_depends_on_the_data_is_certified(
    learned: bool, fails: tuple[float, float]
) -> None:
    scores = run(fails, learned)
    for part, rate in zip((scores.absent, scores.present), fails, strict=True):
        assert (part == NO_MODEL).mean() == pytest.approx(rate, abs=0.08)
    estimate, test = label_epsilon(scores.absent, scores.present, seed=1)
    # The truth is infinite, or ln(0.8/0.05).
    assert 1.2 < estimate.lower < 8
    assert "no model (the training diverges)" in str(test)


@pytest.mark.cases("learned", [False, True])
@pytest.mark.cases("rate", [0.0, 0.3, 1.0])
def test_a_failure_that_does_not_depend_on_the_data_certifies_nothing(
    learned: bool, rate: float
) -> None:
    # Each with probability 5 %: of these six none.
    scores = run((rate, rate), learned)
    assert label_epsilon(scores.absent, scores.present, seed=1)[0].lower == 0


@pytest.mark.long
def test_a_published_form_that_diverges_with_a_busy_user_shows_them() -> None:
    source = np.random.default_rng(0)
    rows: list[list[tuple[int, float]]] = [
        [(int(i), float(source.integers(1, 6))) for i in source.choice(60, count, False)]
        for count in [3] * 10 + [50]
    ]
    before, after = (from_profiles(profiles, 60, Scale()) for profiles in ([*rows[:-1], []], rows))
    defense = SgdFactors(
        1.0, dimensions=4, epochs=10, learning_rate=0.05, spread=1.0, error_bound=100.0
    )
    target = TargetUser(0, before.profile(10), after.profile(10))
    pair = DataPair(before, after, after, "a user of 50 ratings leaves")
    game = trained_game(defense, pair, Canary(16), "public", target)
    scores = game.run(trials=64, seed=1)
    assert (scores.present == NO_MODEL).mean() > 0.9
    assert (scores.absent == NO_MODEL).mean() < 0.1
    assert label_epsilon(scores.absent, scores.present, seed=1)[0].lower > 2
