"""One training: utility by hand, the packed features, and what a bad answer says."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from membership_cases import Copying, Ignorant, small_ratings, small_table  # type: ignore[import-not-found]
from scipy.sparse import csr_array

from dpaudit.auditor.trainings import ndcg
from dpaudit.audits.membership.design import Design
from dpaudit.audits.membership.training import (
    BESIDE,
    BESIDES,
    Training,
    Utility,
    measures,
    packed,
    unpacked,
)
from dpaudit.core.errors import RunError
from dpaudit.core.membership import Observer
from dpaudit.data.ratings import Ratings, Scale
from dpaudit.recommenders.base import Answer, Query

DATA = small_ratings()
DESIGN = Design.of(DATA, small_table(), 3)
BLOCKS: Any = [("interaction", "scores"), ("user", "own-list"), ("interaction", "others-lists")]


def test_matrices_survive_packing() -> None:
    matrices = [np.arange(6.0).reshape(2, 3), np.empty((0, 4)), np.ones((1, 1)), np.empty((3, 0))]
    blocks = unpacked(packed(matrices), 4)
    for before, after in zip(matrices, blocks, strict=True):
        assert after.shape == before.shape
        np.testing.assert_array_equal(after, before)


def test_a_training_is_a_function_of_its_index() -> None:
    training = Training(Ignorant(), DESIGN, BLOCKS)
    np.testing.assert_array_equal(training(2), training(2))
    assert not np.array_equal(training(2), training(3))


def test_features_stand_in_the_order_of_the_blocks() -> None:
    matrices = unpacked(Training(Copying(), DESIGN, BLOCKS)(1), len(BLOCKS) + BESIDES)
    targets, held = len(DESIGN.rows), len(DESIGN.held)
    assert [part.shape for part in matrices] == [
        (targets + held, 1 + BESIDE),
        (24, 3 + BESIDE),
        (targets + held, 2 + BESIDE),
        (3, 2),  # of factors, which nobody sees
        (1, 2),
        (2, 0),  # no groups are named
        (1, 0),  # no model is kept
        (21, 8),  # of all held-out interactions, and of each fold
    ]
    assert np.isnan(matrices[3]).all()
    present = DESIGN.present(2, "interaction")[1]
    # A copy scores 1 for what it was trained on: the present targets, and nothing held out.
    assert matrices[0][:targets, 0].tolist() == present.tolist()
    assert not matrices[0][targets:, 0].any()


def test_predicted_ratings_have_errors_as_a_second_feature() -> None:
    matrices = unpacked(Training(Ignorant(rated=True), DESIGN, BLOCKS[:1])(0), 1 + BESIDES)
    values = DATA.value[np.concatenate((DESIGN.rows, DESIGN.held))]
    assert matrices[0][:, 1] == pytest.approx(-np.abs(matrices[0][:, 0] - values), rel=1e-6)


def test_a_groups_gain_is_that_of_its_own_lists() -> None:
    everyone = np.ones(DATA.n_users, np.bool_)
    some, nobody = np.arange(DATA.n_users) % 2 == 0, ~everyone
    groups = {"all": everyone, "some": some, "none": nobody}
    training = Training(Ignorant(rated=True), replace(DESIGN, groups=groups), [])
    *_, gains, _, utility = unpacked(training(4), BESIDES)
    answer = training.answer(DESIGN.data(4), DESIGN.training_seed(4))
    held = DESIGN.held[some[DATA.user[DESIGN.held]]]
    owners, items = DATA.user[held], DATA.item[held]
    users = np.unique(owners)
    own = ndcg(answer.lists[None, np.searchsorted(DESIGN.listed, users)], users, owners, items)
    assert gains[0] == pytest.approx([utility[0][0], own[0], math.nan], nan_ok=True)


def test_utility_is_that_of_a_loop_over_users() -> None:
    training = Training(Ignorant(rated=True), DESIGN, [])
    utility = Utility(*unpacked(training(4), BESIDES)[-1][0])
    ndcg, recall, rmse, precision, mae = utility[:5]
    answer = training.answer(DESIGN.data(4), DESIGN.training_seed(4))
    items: dict[int, set[int]] = defaultdict(set)
    for row in DESIGN.held:
        items[int(DATA.user[row])].add(int(DATA.item[row]))
    gains, recalls, hits, ranks = [], [], [], []
    for user, held in items.items():
        shown = answer.lists[DESIGN.listed.tolist().index(user)].tolist()
        got = sum(1 / math.log2(2 + place) for place, item in enumerate(shown) if item in held)
        best = sum(1 / math.log2(2 + place) for place in range(min(len(held), DESIGN.k)))
        gains.append(got / best)
        hits.append(len(held & set(shown)))
        recalls.append(hits[-1] / len(held))
        places = [1 + place for place, item in enumerate(shown) if item in held]
        ranks.append(1 / places[0] if places else 0)
    assert ndcg == pytest.approx(np.mean(gains))
    assert recall == pytest.approx(np.mean(recalls))
    assert 0 < recall < 1
    assert utility.hits == np.mean([count > 0 for count in hits])
    assert utility.mrr == pytest.approx(np.mean(ranks))
    assert utility.coverage == len(np.unique(answer.lists)) / DATA.n_items
    assert precision == pytest.approx(np.mean(hits) / DESIGN.k)
    # These predictions are normal numbers around 0, below the scale of 1 to 5.
    errors = np.clip(answer.scores[60:100].astype(float), 1, 5) - DATA.value[DESIGN.held]
    assert rmse == pytest.approx(math.sqrt(np.mean(errors**2)))
    assert mae == pytest.approx(np.mean(abs(errors)))


def test_ratings_without_a_prediction_have_the_largest_error() -> None:
    """But for those of users and items that the training does not have."""

    def hide(given: Answer, interactions: csr_array, query: Query) -> None:
        given.scores[60:90] = np.nan

    training = Training(Ignorant(rated=True, change=hide), DESIGN, [])
    utility = Utility(*unpacked(training(4), BESIDES)[-1][0])
    answer = training.answer(DESIGN.data(4), DESIGN.training_seed(4))
    values, kept = DATA.value[DESIGN.held].astype(float), DESIGN.kept(4)
    scores = answer.scores[60:100].astype(float)
    errors = np.where(
        np.isnan(scores), np.maximum(values - 1, 5 - values), np.clip(scores, 1, 5) - values
    )
    there = np.isin(DATA.user[DESIGN.held], DATA.user[kept])
    errors = errors[~np.isnan(scores) | (there & np.isin(DATA.item[DESIGN.held], DATA.item[kept]))]
    assert utility.rmse == pytest.approx(math.sqrt(np.mean(errors**2)))
    assert utility.mae == pytest.approx(np.mean(abs(errors)))


def without_numbers(training: Training) -> set[str]:
    numbers = Utility(*unpacked(training(0), BESIDES)[-1][0])._asdict()
    return {name for name, number in numbers.items() if math.isnan(number)}


def test_scores_that_are_no_ratings_have_no_error() -> None:
    assert without_numbers(Training(Ignorant(), DESIGN, [])) == {"rmse", "mae"}


def test_purchases_have_no_error() -> None:
    ones = np.ones(len(DATA), np.float32)
    bought = Ratings.build(DATA.user, DATA.item, ones, DATA.n_users, DATA.n_items, Scale(1, 1, 1))
    training = Training(Ignorant(rated=True), Design.of(bought, small_table(), 3), [])
    assert without_numbers(training) == {"rmse", "mae"}


LISTED = {"ndcg", "recall", "precision", "hits", "mrr", "coverage"}


@pytest.mark.cases(
    ("rated", "omitted", "observers", "expected"),
    [
        (True, (), (), LISTED | {"rmse", "mae"}),
        (False, (), ("scores",), LISTED),
        (True, ("scores",), (), LISTED),
        (True, ("lists",), ("scores",), {"rmse", "mae"}),
        # What an observer sees is asked, so it is there.
        (True, ("lists",), ("own-list",), LISTED | {"rmse", "mae"}),
    ],
)
def test_utility_is_that_of_what_a_model_shows(
    rated: bool, omitted: tuple[str, ...], observers: tuple[Observer, ...], expected: set[str]
) -> None:
    class Partly(Ignorant):  # type: ignore[misc]
        leaves_out = omitted

    assert measures(Partly(rated=rated), observers) == expected


def valued(value: float, first: int = 0, rated: bool = False) -> Ignorant:
    """Gives 40 scores, from `first` on, one value."""

    def change(answer: Answer, interactions: csr_array, query: Query) -> None:
        answer.scores[first : first + 40] = value

    return Ignorant(rated=rated, change=change)


def test_unknown_held_out_pairs_leave_the_error_out() -> None:
    unknown = Training(valued(np.nan, len(DESIGN.rows), rated=True), DESIGN, BLOCKS)
    parts = unpacked(unknown(0), len(BLOCKS) + BESIDES)
    assert math.isnan(parts[-1][0, 2])
    assert np.isfinite(parts[0]).all()


def test_an_infinite_score_stops_the_training() -> None:
    with pytest.raises(RunError, match=r"scores\[0\] = inf "):
        Training(valued(np.inf), DESIGN, BLOCKS)(0)


def test_the_largest_single_precision_scores_are_kept() -> None:
    for value in (3e38, -3e38, 1e-45):
        parts = unpacked(
            Training(valued(value, rated=True), DESIGN, BLOCKS)(0), len(BLOCKS) + BESIDES
        )
        shown = [*parts[: len(BLOCKS)], parts[-1][:1]]
        assert all(np.isfinite(part).all() for part in shown)


def test_further_scores_are_asked_for_their_observer_and_change_nothing_for_others() -> None:
    seen: tuple[list[Observer], ...] = ["scores"], ["scores", "asked-rows"]
    few, more = (Training.of(Copying(), DESIGN, ["interaction", "user"], one) for one in seen)
    assert {block for block in more.blocks if block[1] != "asked-rows"} == set(few.blocks)
    size, (users, items) = len(few.query.users), DESIGN.questions.asked
    assert more.query.users[size:].tolist() == users.tolist()
    assert more.query.items[size:].tolist() == items.tolist()
    shown, others = (
        dict(zip(one.blocks, unpacked(one(0), len(one.blocks) + BESIDES), strict=False))
        for one in (few, more)
    )
    for block, features in shown.items():
        np.testing.assert_array_equal(features, others[block])
    tested = len(DESIGN.tested.users)
    for unit, count in (("interaction", tested), ("user", len(DESIGN.users))):
        assert others[unit, "asked-rows"].shape == (count, 6 + BESIDE)  # type: ignore[index]


def test_whoever_sees_scores_before_a_deletion_may_ask_for_rows_too() -> None:
    class Same(Copying):  # type: ignore[misc]
        def answer(self, interactions: Any, seed: int, query: Query) -> Any:
            answer = super().answer(interactions, seed, query)
            return answer._replace(before=answer.scores)

    blocks: Any = [("interaction", "before-and-after"), ("interaction", "asked-rows")]
    change, rows, *_ = unpacked(Training(Same(), DESIGN, blocks)(0), len(blocks) + BESIDES)
    assert not change[:, 0].any()
    assert len(rows) == len(change)


def test_factors_are_asked_only_for_their_observer() -> None:
    seen: list[bool] = []

    def change(answer: Answer, interactions: csr_array, query: Query) -> None:
        seen.append(query.factors)

    Training(Ignorant(change=change), DESIGN, BLOCKS)(0)
    assert seen == [False]
    with pytest.raises(RunError, match="factors are missing"):
        Training(Ignorant(change=change), DESIGN, [("interaction", "factors")])(0)
    assert seen == [False, True]
