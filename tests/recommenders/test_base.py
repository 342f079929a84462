"""Base classes of recommenders: scores in blocks, lists, and errors that name the adapter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.sparse import csr_array

from dpaudit.core.errors import ConfigError, NoModelError, RunError
from dpaudit.data.interactions import Interactions, interactions_of
from dpaudit.data.ratings import Ratings, Scale
from dpaudit.recommenders import base
from dpaudit.recommenders.base import (
    FactorModel,
    Query,
    RowModel,
    built,
    required,
    top_lists,
    trained,
)
from dpaudit.recommenders.most_popular import MostPopular

Matrix = NDArray[np.float32]
I32 = np.int32


def slow_lists(rows: Matrix, seen: NDArray[np.bool_], k: int) -> list[list[int]]:
    lists = []
    for scored, had in zip(rows, seen, strict=True):
        able = [item for item in range(len(scored)) if not had[item] and not np.isnan(scored[item])]
        best = sorted(able, key=lambda item: (-scored[item], item))[:k]
        lists.append(best + [-1] * (k - len(best)))
    return lists


@settings(deadline=None)
@given(st.data())
def test_lists_are_those_of_a_slow_sort(data: st.DataObject) -> None:
    users = data.draw(st.integers(1, 4))
    items = data.draw(st.integers(1, 8))
    k = data.draw(st.integers(1, 10))
    # Few values, so that most are ties.
    some = st.sampled_from([-1.5, 0.0, 2.0, 2.0, 3e38, -3e38, np.nan])
    rows = np.array(
        data.draw(st.lists(some, min_size=users * items, max_size=users * items)), np.float32
    ).reshape(users, items)
    seen = np.array(
        data.draw(st.lists(st.booleans(), min_size=users * items, max_size=users * items))
    ).reshape(users, items)
    lists = top_lists(rows, csr_array(seen), k)
    assert lists.dtype == I32
    assert lists.tolist() == slow_lists(rows, seen, k)


def test_lists_leave_their_scores_unchanged() -> None:
    rows = np.array([[1.0, 2, 3]], np.float32)
    rows.setflags(write=False)
    assert top_lists(rows, csr_array(np.array([[False, False, True]])), 2).tolist() == [[1, 0]]


def test_an_item_with_a_stored_zero_counts_as_seen() -> None:
    seen = csr_array((np.zeros(1, np.float32), [2], [0, 1]), shape=(1, 3))
    rows = np.array([[1.0, 2, 3]], np.float32)
    assert top_lists(rows, seen, 3).tolist() == [[1, 0, -1]]


def data(seed: int = 4) -> Ratings:
    rng = np.random.default_rng(seed)
    user, item = np.nonzero(rng.random((9, 7)) < 0.4)
    return Ratings.build(user, item, np.ones(len(user), np.float32), 9, 7, Scale(1, 1, 1))


@dataclass(frozen=True, eq=False)
class Table(RowModel):
    every: Matrix
    asked: list[int]

    def rows(self, users: NDArray[np.int32]) -> Matrix:
        self.asked.append(len(users))
        return self.every[users]


def table() -> Table:
    every = np.random.default_rng(2).normal(size=(9, 7)).astype(np.float32)
    return Table(interactions_of(data()), every, [])


@pytest.mark.cases("together", [1, 20, 10**6])
def test_blocks_of_rows_change_no_score_and_no_list(
    monkeypatch: pytest.MonkeyPatch, together: int
) -> None:
    monkeypatch.setattr(base, "_TOGETHER", together)
    model = table()
    rng = np.random.default_rng(3)
    users, items = rng.integers(9, size=50).astype(I32), rng.integers(7, size=50).astype(I32)
    np.testing.assert_array_equal(model.scores(users, items), model.every[users, items])
    listed = rng.permutation(9)[:6].astype(I32)
    expected = slow_lists(model.every[listed], model.seen.toarray()[listed] > 0, 4)
    assert model.recommend(listed, 4).tolist() == expected
    assert max(model.asked) <= max(1, together // 7)


def test_no_pair_and_no_user_may_be_asked() -> None:
    model, none = table(), np.empty(0, I32)
    assert model.scores(none, none).shape == (0,)
    assert model.recommend(none, 3).shape == (0, 3)


def test_scores_of_factors_are_inner_products_in_any_order() -> None:
    rng = np.random.default_rng(8)
    users, items = (rng.normal(size=(n, 3)).astype(np.float32) for n in (9, 7))
    model = FactorModel(interactions_of(data()), users, items)
    u, i = rng.integers(9, size=30).astype(I32), rng.integers(7, size=30).astype(I32)
    np.testing.assert_allclose(model.scores(u, i), (users @ items.T)[u, i], rtol=1e-5, atol=1e-6)
    expected = slow_lists(users @ items.T, model.seen.toarray() > 0, 3)
    assert model.recommend(np.arange(9, dtype=I32), 3).tolist() == expected


def query(**changes: Any) -> Query:
    zero = np.zeros(1, I32)
    return Query(**{"users": zero, "items": zero, "listed": zero, "k": 2, **changes})


def test_factors_are_refused_where_none_are_published() -> None:
    with pytest.raises(ConfigError, match="most-popular publishes no factors"):
        MostPopular().answer(Interactions.of(data()), 1, query(factors=True))


def test_an_answer_holds_what_is_asked() -> None:
    answer = MostPopular().answer(Interactions.of(data()), 1, query())
    assert answer.scores.shape == (1,)
    assert answer.lists.shape == (1, 2)
    assert answer.factors is None


class _Broken(MostPopular):
    def fit(self, interactions: csr_array, seed: int) -> Any:
        return object()


def test_what_a_trained_model_raises_names_the_adapter() -> None:
    with pytest.raises(RunError, match=r"most-popular failed to train \(AttributeError.*scores"):
        _Broken().answer(Interactions.of(data()), 1, query())


def test_a_constructor_that_refuses_a_setting_names_the_model_and_the_remedy() -> None:
    with pytest.raises(ConfigError, match=r"lib \(als\) refuses.*wings.*: correct params.settings"):
        built("lib (als)", complex, wings=1)
    assert built("lib", dict, factory=1, name=2) == {"factory": 1, "name": 2}


def test_a_library_that_says_that_it_diverged_gives_no_model() -> None:
    with pytest.raises(NoModelError, match="lib failed to train"), trained("lib"):
        raise ValueError("Not all parameters are finite, your model may have diverged")
    with pytest.raises(RunError) as raised, trained("lib"):
        raise ValueError("no such loss")
    assert raised.type is RunError


def test_interrupts_are_no_failed_trainings() -> None:
    with pytest.raises(KeyboardInterrupt), trained("lib"):
        raise KeyboardInterrupt
    with pytest.raises(RunError, match=r"lib failed to train \(SystemExit"), trained("lib"):
        raise SystemExit(1)


def test_a_missing_library_names_the_command_that_installs_it() -> None:
    with pytest.raises(ConfigError, match=r"needs no_such_library.*pip install 'implicit>="):
        required("lib", "no_such_library.models", "implicit")
    assert required("lib", "math", "implicit").pi > 3
