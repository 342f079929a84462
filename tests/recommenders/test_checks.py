"""Checks of what a recommender shows: each error says what is wrong and what to return."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from dpaudit.core.errors import NoModelError, RunError
from dpaudit.recommenders.base import Answer, Factors, Query
from dpaudit.recommenders.checks import checked_answer
from dpaudit.recommenders.histories import Histories

I32, F32 = np.int32, np.float32
QUERY = Query(np.array([0, 1, 2], I32), np.array([4, 3, 2], I32), np.array([0, 2], I32), 2, True)
SHAPE = (3, 5)


def factors(items: Any, users: Any = None) -> Factors:
    return Factors(items, users)


GOOD: dict[str, Any] = {
    "scores": np.array([0.5, np.nan, -1e38]),
    "lists": np.array([[4, 0], [1, -1]]),
    "factors": factors(np.ones((5, 2)), np.ones((3, 2))),
}


def check(**changes: Any) -> Answer:
    return checked_answer(Answer(**{**GOOD, **changes}), QUERY, SHAPE)


def test_a_good_answer_gets_its_final_types() -> None:
    answer = check()
    assert answer.scores.dtype == F32
    assert answer.lists.dtype == I32
    assert answer.scores.tolist()[0] == 0.5
    assert np.isnan(answer.scores[1])
    assert answer.lists.tolist() == [[4, 0], [1, -1]]
    assert answer.factors is not None
    assert answer.factors.items.dtype == F32
    unasked = replace(QUERY, factors=False)
    assert checked_answer(Answer(**{**GOOD, "factors": None}), unasked, SHAPE).factors is None
    alone = check(factors=factors(np.ones((5, 2)))).factors
    assert alone is not None
    assert alone.users is None


@pytest.mark.cases(
    "scores", [[1, 2, 3], [True, False, True], np.array([1, 2, 3], np.uint8), (0.5, 1.0, 2.0)]
)
def test_numbers_of_any_type_are_scores(scores: Any) -> None:
    assert check(scores=scores).scores.tolist() == [float(score) for score in scores]


@pytest.mark.cases(
    "scores",
    [
        np.array([1, 0, -np.inf]),
        np.ma.masked_array([1.0, 0.0, 7.0], [False, False, True]),
        np.ma.masked_array([1, 0, 7], [False, False, True]),
    ],
)
def test_masked_scores_and_minus_infinity_are_missing(scores: Any) -> None:
    np.testing.assert_array_equal(check(scores=scores).scores, [1, 0, np.nan])


def test_masked_items_of_a_list_are_padding() -> None:
    lists = np.ma.masked_array([[4, 0], [1, 2]], [[False, False], [False, True]])
    assert check(lists=lists).lists.tolist() == [[4, 0], [1, -1]]


@pytest.mark.cases(
    "changes",
    [
        {"scores": np.full(3, np.nan)},
        {"scores": np.array([np.inf, np.nan, -np.inf])},
        {"factors": factors(np.full((5, 2), np.nan))},
        {"factors": factors(np.full((5, 2), 1e39))},
    ],
)
def test_a_training_without_a_finite_number_has_no_model(changes: dict[str, Any]) -> None:
    with pytest.raises(NoModelError):
        check(**changes)


@pytest.mark.cases(
    ("changes", "said"),
    [
        ({"scores": np.ones(2)}, r"scores have shape \(2,\), and \(3,\) was asked"),
        ({"scores": np.ones((3, 1))}, r"scores have shape \(3, 1\), .* return one dimension"),
        ({"scores": np.ones((3, 5))}, "return one score for each of the 3 pairs of users"),
        ({"scores": (np.ones(3), np.ones(3))}, "return one score for each of the 3 pairs"),
        ({"scores": csr_array(np.ones((1, 3)))}, "scores are of type csr_array: return an array"),
        ({"scores": None}, "scores are of type NoneType: return an array of shape"),
        ({"scores": ["a", "b", "c"]}, "scores have type <U1: return numbers"),
        ({"scores": np.ones(3, complex)}, "scores have type complex128: return numbers"),
        ({"scores": [[1], [1, 2], [3]]}, "rows of different lengths"),
        ({"scores": np.array([1, np.inf, 0])}, r"scores\[1\] = inf is no finite number"),
        # Too large for the 32 bits that are kept.
        ({"scores": np.array([1, 1e39, 0])}, r"scores\[1\] = inf"),
        ({"scores": np.array([1, -1e39, 0])}, r"scores\[1\] = -inf"),
        ({"scores": np.full(3, np.nan)}, "all 3 scores are NaN"),
        ({"lists": np.zeros((2, 3), int)}, r"\(2, 3\), and \(2, 2\) .* cut the lists to k = 2"),
        ({"lists": np.zeros((2, 1), int)}, "fill up shorter lists with -1 to k = 2"),
        ({"lists": [[1], [1, 2]]}, r"different lengths, .* fill up shorter lists with -1 to k = 2"),
        ({"lists": np.array([[1], [1, 2]], object)}, "lists are of type ndarray: return an array"),
        ({"lists": (np.zeros((2, 2), int), np.ones((2, 2)))}, "return the ids alone, without"),
        ({"lists": [[(1, 0.5), (2, 0.1)], [(1, 0.5), (2, 0.1)]]}, "return the ids alone, without"),
        (
            {"lists": np.zeros((3, 2), int)},
            "return one list of k = 2 items for each of the 2 users",
        ),
        ({"lists": np.zeros(4, int)}, "return one list of k = 2 items for each of the 2 users"),
        ({"lists": np.array([[0.0, 1.0], [1.0, 2.0]])}, "lists have type float64: return whole"),
        ({"lists": np.array([[5, 0], [1, 2]])}, "a list holds the item 5: use 0 to 4"),
        ({"lists": np.array([[-2, 0], [1, 2]])}, "a list holds the item -2"),
        # It is 0 in 32 bits.
        ({"lists": np.array([[2**32, 1], [1, 2]])}, f"a list holds the item {2**32}"),
        ({"lists": np.array([[2, 2], [1, 0]])}, "a list holds an item twice"),
        ({"factors": None}, "factors are missing"),
        ({"factors": factors(np.ones((4, 2)))}, "factors of items have shape"),
        ({"factors": factors(np.ones(5))}, "one row for each of 5 items"),
        ({"factors": factors(np.ones((5, 2)), np.ones((5, 2)))}, "each of 3 users"),
        ({"factors": factors(np.full((5, 2), np.nan))}, "factors of items hold NaN or infinity"),
        ({"factors": factors(np.full((5, 2), 1e39))}, "factors of items hold NaN or infinity"),
        ({"factors": factors(np.full((5, 2), "x"))}, "return numbers"),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_sentence(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(RunError, match=said) as caught:
        check(**changes)
    assert "\n" not in str(caught.value)


def test_lists_may_be_empty_and_unsigned() -> None:
    assert (check(lists=np.full((2, 2), -1)).lists == -1).all()
    assert check(lists=np.array([[4, 0], [1, 2]], np.uint8)).lists.tolist() == [[4, 0], [1, 2]]


def test_scores_before_a_deletion_are_scores_and_are_there_if_they_are_asked() -> None:
    asked = replace(QUERY, factors=False, before=True)
    earlier = np.array([1, np.nan, -np.inf], F32)
    shown = Answer(np.ones(3, F32), np.array([[4, 0], [1, 2]], I32), None, earlier)
    before = checked_answer(shown, asked, (3, 5)).before
    np.testing.assert_array_equal(before, np.array([1, np.nan, np.nan], np.float32))
    with pytest.raises(RunError, match="scores before the deletion are missing"):
        checked_answer(shown._replace(before=None), asked, (3, 5))
    with pytest.raises(RunError, match=r"scores have shape \(2,\)"):
        checked_answer(shown._replace(before=np.ones(2, F32)), asked, (3, 5))


def after(given: Any) -> Answer:
    sent = Histories(np.zeros((2, 3), I32), np.zeros((2, 4), I32))
    return checked_answer(Answer(**GOOD, after=given), replace(QUERY, after=sent), SHAPE)


def test_scores_after_histories_have_a_row_for_each() -> None:
    shown = after([[1, 2, -np.inf, 4]] * 2).after
    assert shown is not None
    assert shown.dtype == F32
    np.testing.assert_array_equal(shown, [[1, 2, np.nan, 4]] * 2)
    with pytest.raises(RunError, match="are missing: return them, or remove the observer 'asked-"):
        after(None)
    with pytest.raises(RunError, match=r"\(4, 2\), and \(2, 4\) was asked: return a row for each"):
        after(np.ones((4, 2)))
    with pytest.raises(RunError, match="is no finite number"):
        after([[1, 2, np.inf, 4]] * 2)
