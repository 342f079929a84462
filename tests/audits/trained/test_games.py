"""A training of many canaries that ends without a model."""

from __future__ import annotations

import numpy as np

from dpaudit.attacks.distinguishing import LikelihoodRatio
from dpaudit.audits.trained.games import rare_ratings, run_coins_game
from dpaudit.bounds.frequentist.one_run import one_run_scores_epsilon
from dpaudit.data.ratings import Ratings, Scale
from dpaudit.defenses.factorization.sgd import SgdFactors


def test_a_training_that_diverges_guesses_nothing() -> None:
    source = np.random.default_rng(0)
    user, item = np.nonzero(source.random((40, 12)) < 0.5)
    value = source.integers(1, 6, len(user)).astype(np.float32)
    ratings = Ratings.build(user, item, value, 40, 12, Scale())
    rows = rare_ratings(ratings, 30)
    attack, few = LikelihoodRatio(), {"dimensions": 2, "epochs": 3, "error_bound": 1e6}
    wild = SgdFactors(1.0, **few, learning_rate=1.0, spread=10.0)  # type: ignore[arg-type]
    result = run_coins_game(wild, ratings, rows, attack, trainings=4, seed=1)
    assert not result.scores.any()
    assert one_run_scores_epsilon(result.scores, result.coins, seed=1).lower == 0
    calm = SgdFactors(50.0, **few)  # type: ignore[arg-type]
    result = run_coins_game(calm, ratings, rows, attack, trainings=4, seed=1)
    assert ((result.scores > 0) == (result.coins == 1)).mean() > 0.9
