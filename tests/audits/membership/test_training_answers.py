"""What a training's answers leave open: missing ones by hand, and repeated ones of any kind."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from membership_cases import Ignorant, small_ratings, small_table  # type: ignore[import-not-found]
from numpy.typing import NDArray
from scipy.sparse import csr_array

from dpaudit.audits.membership.design import Design
from dpaudit.audits.membership.training import (
    BESIDES,
    Training,
    has_fixed_part,
    repeated,
    unchanged,
    unpacked,
)
from dpaudit.recommenders.base import Answer, Query

DESIGN = Design.of(small_ratings(), small_table(), 3)
UNITS: Any = ("interaction", "user")
Numbers = NDArray[np.float64]


def unanswered(change: Any, unit: Any, observer: Any) -> Numbers:
    training = Training(Ignorant(change=change), DESIGN, [(unit, observer)])
    block, *_ = unpacked(training(0), 1 + BESIDES)
    column: Numbers = block[:, -2]
    return column


@pytest.mark.parametrize("unit", UNITS)
def test_scores_that_are_missing_are_counted_where_user_and_item_are_there(unit: Any) -> None:
    def hide(answer: Answer, interactions: csr_array, query: Query) -> None:
        answer.scores[query.items == 3] = np.nan

    def forget(answer: Answer, interactions: csr_array, query: Query) -> None:
        answer.scores[np.diff(interactions.indptr)[query.users] == 0] = np.nan

    lacking = unanswered(hide, unit, "scores")
    if unit == "interaction":
        there = np.isin(DESIGN.tested.users, DESIGN.ratings.user[DESIGN.kept(0)])
        assert lacking.tolist() == ((DESIGN.tested.items == 3) & there).tolist()
    else:
        of = DESIGN.tested_users
        there = np.isin(of.users, DESIGN.ratings.user[DESIGN.kept(0)])
        expected = (np.hstack((of.held, of.others)) == 3).mean(1)
        assert lacking == pytest.approx(np.where(there, expected, 0))
        assert (~there).any()
    assert lacking.sum() > 0
    # A model need not know who has no interaction.
    assert not unanswered(forget, unit, "scores").any()


@pytest.mark.parametrize("unit", UNITS)
def test_empty_lists_of_users_who_are_there_are_counted(unit: Any) -> None:
    def hide(answer: Answer, interactions: csr_array, query: Query) -> None:
        answer.lists[query.listed % 2 == 0] = -1

    there = set(DESIGN.ratings.user[DESIGN.kept(0)].tolist())
    users = DESIGN.users if unit == "user" else DESIGN.tested.users
    expected = [user % 2 == 0 and user in there for user in users.tolist()]
    assert unanswered(hide, unit, "own-list").tolist() == expected
    others = DESIGN.observed
    share = np.mean([user % 2 == 0 and user in there for user in others.tolist()])
    assert unanswered(hide, unit, "others-lists") == pytest.approx(share)

    def shorten(answer: Answer, interactions: csr_array, query: Query) -> None:
        answer.lists[:, 1:] = -1

    assert not unanswered(shorten, unit, "own-list").any()


def marks(trainings: int = 12, targets: int = 30, seed: int = 0) -> tuple[Numbers, Any]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(trainings, targets)), rng.random((trainings, targets)) < 0.5


@pytest.mark.cases(
    "copy",
    [
        lambda row: row,
        lambda row: row + 3.7,
        lambda row: 0.02 * row - 1,
        lambda row: (row + 1000).astype(np.float32),
    ],
)
@pytest.mark.cases("observer", ["scores", "factors"])
def test_the_same_scores_twice_are_found_up_to_rounding_and_a_constant(
    copy: Any, observer: Any
) -> None:
    column, present = marks()
    column = column.astype(np.float32).astype(np.float64)
    assert repeated(column, present, observer) is None
    column[9] = copy(column[4])
    assert repeated(column, present, observer) == (4, 9)
    present[9] = present[4]
    assert repeated(column, present, observer) is None


def test_every_third_training_is_enough() -> None:
    column, present = marks(64)
    column[::3] = column[0]
    pair = repeated(column, present, "scores")
    assert pair is not None
    assert [index % 3 for index in pair] == [0, 0]


def test_constant_scores_are_the_same() -> None:
    column, present = marks()
    assert repeated(np.zeros_like(column), present, "scores") is not None


@pytest.mark.parametrize("size", [1.0, 1e5])
def test_counts_that_differ_by_one_are_not_the_same(size: float) -> None:
    """The most popular items of large data: few counts change from training to training."""
    counts, present = np.round(size * np.random.default_rng(1).random(500)), marks(40)[1]
    column = np.tile(counts, (40, 1))
    column[np.arange(40), np.arange(40)] += 1
    assert repeated(column, present, "scores") is None


@pytest.mark.parametrize("observer", ["own-list", "others-lists"])
def test_lists_repeat_if_they_are_personal_or_always_the_same(observer: Any) -> None:
    rng = np.random.default_rng(2)
    lists, present = rng.integers(0, 2**32, (12, 30)).astype(float), marks()[1]
    assert repeated(lists, present, observer) is None
    lists[7] = lists[3]
    assert repeated(lists, present, observer) == (3, 7)
    # One list for everybody, which has two values: equal by chance.
    common = np.repeat(np.arange(12.0) % 2, 30).reshape(12, 30)
    assert repeated(common, present, observer) is None
    assert repeated(0 * common, present, observer) == (0, 1)


@pytest.mark.cases("noise", [0.0, 0.3, 3.0])
def test_old_scores_with_fresh_noise_do_not_change_with_the_data(noise: float) -> None:
    rng = np.random.default_rng(3)
    old, fresh = rng.normal(size=4000), rng.normal(size=(3, 4000))
    first, other, second = (old + noise * fresh).astype(np.float32)
    assert unchanged(first, other, second)
    assert unchanged(first, first, first)
    learned = (other + np.abs(noise + 0.1) * rng.normal(size=4000)).astype(np.float32)
    assert not unchanged(first, learned, second)
    assert not unchanged(first, np.nextafter(first, np.float32(9)), first)


def test_lists_that_change_with_the_data_are_no_old_ones() -> None:
    lists = np.random.default_rng(3).integers(0, 30, (20, 10))
    assert unchanged(lists, lists, lists)
    assert not unchanged(lists, 29 - lists, lists)
    assert not unchanged(lists[:0], lists[:0], lists[:0])


def test_noise_alone_has_no_fixed_part() -> None:
    """A model that learns nothing tells nothing, so its audit may pass."""
    column, _ = marks(8, 60)
    assert not has_fixed_part(column, "scores")
    assert has_fixed_part(column + 2 * column[0], "scores")
    assert not has_fixed_part(column, "own-list")
    assert has_fixed_part(0 * column, "own-list")
