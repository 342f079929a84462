"""Trainings in blocks: every training is the one that is trained by itself."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from dpaudit.audits.membership.config import Membership
from dpaudit.audits.membership.design import Design
from dpaudit.audits.membership.training import Training
from dpaudit.audits.models.subject import DefenseRecommender
from dpaudit.core import registry
from dpaudit.core.errors import ConfigError
from dpaudit.core.streams import Streams, stream_key
from dpaudit.data.interactions import Interactions
from dpaudit.data.ratings import Ratings, Scale
from dpaudit.defenses.base import TrainedDefense
from dpaudit.defenses.factorization.sgd import SgdFactors
from dpaudit.recommenders.base import Answer, Query, Trainable

N, M = 60, 30


def small_ratings() -> Ratings:
    source = np.random.default_rng(4)
    user, item = np.nonzero(source.random((N, M)) < 0.5)
    value = source.integers(1, 6, len(user)).astype(np.float32)
    return Ratings.build(user, item, value, N, M, Scale())


DATA = small_ratings()
TABLE = Membership(
    units=["interaction", "user"], interactions=100, users=24, held_out=40, rates=[0.5], k=5
)
DESIGN = Design.of(DATA, TABLE, 3)
BLOCKS: Any = [("interaction", "scores"), ("interaction", "own-list"), ("user", "own-list")]


def training(defense: TrainedDefense[Any]) -> Training:
    return Training(DefenseRecommender(defense, DATA), DESIGN, BLOCKS)


def factors(variant: str) -> SgdFactors:
    epsilon = math.inf if variant == "nonprivate" else 5.0
    return SgdFactors(epsilon, variant, dimensions=2, epochs=2)  # type: ignore[arg-type]


def slow() -> TrainedDefense[Any]:
    """A defense that trains on one data set at a time."""
    params = {"epsilon": 5.0, "variant": "corrected", "steps": 2, "more_than": 2}
    defense: TrainedDefense[Any] = registry.create("defenses", "dpsgd-pnbm", "model.0", params)
    return defense


@pytest.mark.cases("variant", ["nonprivate", "published", "corrected"])
def test_an_answer_does_not_depend_on_what_is_trained_beside_it(variant: str) -> None:
    trained = DefenseRecommender(factors(variant), DATA)
    kept = np.stack([DESIGN.kept(index) for index in range(18)])
    seeds = [DESIGN.training_seed(index) for index in range(18)]
    answers = [
        answer
        for part in (slice(16), slice(16, 18))
        for answer in trained.answers(DATA, kept[part], seeds[part], DESIGN.query)
    ]
    for index in (0, 5, 15, 16, 17):
        alone = trained.answer(DESIGN.data(index), seeds[index], DESIGN.query)
        np.testing.assert_array_equal(answers[index].scores, alone.scores)
        np.testing.assert_array_equal(answers[index].lists, alone.lists)
    assert not np.array_equal(answers[0].scores, answers[1].scores)


@pytest.mark.cases("variant", ["nonprivate", "published", "corrected"])
def test_scores_are_the_predictions_of_the_defense_with_the_seed_as_trial(variant: str) -> None:
    defense = factors(variant)
    trained = DefenseRecommender(defense, DATA)
    public = DATA if defense.claim() else None
    seed, kept = DESIGN.training_seed(2), DESIGN.kept(2)
    answer = trained.answer(Interactions.of(DATA, kept), seed, DESIGN.query)
    rows = defense.prepare(DATA.only(kept), public)
    streams = Streams(stream_key(0, "membership"), np.array([seed]))
    model = defense.train(rows, streams)
    expected = model.predict(DESIGN.query.users, DESIGN.query.items)[0]
    np.testing.assert_array_equal(answer.scores, expected)


@pytest.mark.parametrize("defense", [factors("published"), slow()], ids=["together", "alone"])
def test_a_block_has_the_rows_of_its_trainings(defense: TrainedDefense[Any]) -> None:
    work = training(defense)
    rows = work.together((3, 0, 17))
    for row, index in zip(rows, (3, 0, 17), strict=True):
        np.testing.assert_array_equal(row, work(index))


def test_more_trainings_extend_the_blocks_of_fewer() -> None:
    work = training(factors("nonprivate"))
    few, many = work.parts(40), work.parts(100)
    assert [len(part) for part in few] == [16, 16, 8]
    assert many[:2] == few[:2]
    assert [index for part in many for index in part] == list(range(100))
    assert training(slow()).parts(3) == [(0,), (1,), (2,)]
    large = SgdFactors(math.inf, "nonprivate", dimensions=128)
    assert training(large).parts(2) == [(0,), (1,)]


class Noting(Trainable):
    """Notes what it is trained on."""

    predicts_ratings = False

    def __init__(self) -> None:
        self.given: list[tuple[Interactions, int]] = []

    def answer(self, interactions: Interactions, seed: int, query: Query) -> Answer:
        self.given.append((interactions, seed))
        scores = np.full(len(query.users), float(seed), np.float32)
        return Answer(scores, np.full((len(query.listed), query.k), -1, np.int32), None)


def test_other_recommenders_train_on_one_subset_after_the_other() -> None:
    noting, kept = Noting(), np.stack([DESIGN.kept(0), DESIGN.kept(1)])
    assert noting.together == 1
    answers = noting.answers(DATA, kept, [7, 8], DESIGN.query)
    assert next(answers).scores[0] == 7
    assert len(noting.given) == 1
    assert next(answers).scores[0] == 8
    for index, (interactions, _) in enumerate(noting.given):
        assert (interactions.matrix != DESIGN.data(index).matrix).nnz == 0


@pytest.mark.parametrize("defense", [factors("published"), slow()], ids=["together", "alone"])
def test_factors_are_refused(defense: TrainedDefense[Any]) -> None:
    asked = Query(DESIGN.query.users, DESIGN.query.items, DESIGN.listed, 5, factors=True)
    trained = DefenseRecommender(defense, DATA)
    with pytest.raises(ConfigError, match="publishes no factors"):
        next(trained.answers(DATA, DESIGN.kept(0)[None], [1], asked))
    with pytest.raises(ConfigError, match="publishes no factors"):
        trained.answer(DESIGN.data(0), 1, asked)
