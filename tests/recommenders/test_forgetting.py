"""Deletion: what is trained, what is forgotten, and which methods a model has."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from membership_cases import Copying, small_ratings  # type: ignore[import-not-found]
from numpy.typing import NDArray
from scipy.sparse import csr_array

from dpaudit.core.errors import ConfigError, RunError
from dpaudit.core.membership import Unlearning
from dpaudit.data.interactions import Interactions
from dpaudit.recommenders.base import Deletion, Query
from dpaudit.recommenders.forgetting import Forgetting
from dpaudit.recommenders.implicit import Implicit
from dpaudit.recommenders.most_popular import MostPopular
from dpaudit.recommenders.python_class import GivenModel

DATA = small_ratings()
SHAPE = DATA.n_users, DATA.n_items
I32 = np.int32
EVERY = np.repeat(np.arange(60, dtype=I32), 30), np.tile(np.arange(30, dtype=I32), 60)
QUERY = Query(*EVERY, np.arange(60, dtype=I32), 4)
GONE = np.arange(len(DATA)) % 7 == 0
TARGETS = csr_array((np.ones(GONE.sum()), (DATA.user[GONE], DATA.item[GONE])), shape=SHAPE)
ALL, KEPT = Interactions.of(DATA), Interactions.of(DATA, ~GONE)


def scores(trainable: Any, method: Unlearning) -> NDArray[np.float32]:
    answer = Forgetting(trainable, method, TARGETS).answer(ALL, 5, QUERY)
    return answer.scores.reshape(SHAPE)


def small(model: Any) -> Implicit:
    size: dict[str, Any] = {"K": 5} if model == "item-item" else {"factors": 4, "iterations": 3}
    return Implicit(model=model, settings=size)


def test_a_training_without_the_targets_is_one_on_what_stays() -> None:
    shown = scores(Copying(), "retrain")
    np.testing.assert_array_equal(shown > 0, KEPT.matrix.toarray() > 0)


def test_requests_are_forgotten_one_after_the_other() -> None:
    asked: list[int] = []

    class Remembers:
        def fit(self, interactions: csr_array, seed: int) -> Remembers:
            self.known = interactions.toarray()
            return self

        def forget(self, interactions: NDArray[np.int32], seed: int) -> Remembers:
            asked.append(len(interactions))
            self.known[tuple(interactions.T)] = 0
            return self

        def scores(self, users: NDArray[np.int32], items: NDArray[np.int32]) -> Any:
            return self.known[users, items]

    shown = Forgetting(GivenModel(Remembers), "own", TARGETS, 3).answer(ALL, 5, QUERY).scores
    np.testing.assert_array_equal(shown.reshape(SHAPE), KEPT.matrix.toarray())
    assert len(asked) == 3
    assert sum(asked) == GONE.sum()
    assert max(asked) - min(asked) <= 1
    asked.clear()
    Forgetting(GivenModel(Remembers), "own", csr_array(SHAPE), 3).answer(ALL, 5, QUERY)
    assert not asked


def test_a_class_gets_the_pairs_to_forget_and_is_asked_afterwards() -> None:
    class Remembers:
        def fit(self, interactions: csr_array, seed: int) -> Remembers:
            self.known = interactions.toarray()
            return self

        def forget(self, interactions: NDArray[np.int32], seed: int) -> Remembers:
            assert seed == 5
            self.known[tuple(interactions.T)] = 0
            return self

        def scores(self, users: NDArray[np.int32], items: NDArray[np.int32]) -> Any:
            return self.known[users, items]

    shown = scores(GivenModel(Remembers), "own")
    np.testing.assert_array_equal(shown, KEPT.matrix.toarray())
    # Lists leave out what stays, and no longer what was deleted.
    lists = Forgetting(GivenModel(Remembers), "own", TARGETS).answer(ALL, 5, QUERY).lists
    assert not any(KEPT.matrix[user, item] for user, row in enumerate(lists) for item in row)
    assert any(TARGETS[user, item] for user, row in enumerate(lists) for item in row)


def test_a_deletion_is_timed_beside_its_training() -> None:
    class Forgetful:
        def fit(self, interactions: csr_array, seed: int) -> Forgetful:
            self.known = interactions.toarray()
            return self

        def forget(self, interactions: NDArray[np.int32], seed: int) -> Forgetful:
            return self

        def scores(self, users: NDArray[np.int32], items: NDArray[np.int32]) -> Any:
            return self.known[users, items]

    model = GivenModel(Forgetful)
    took = Forgetting(model, "own", TARGETS).answer(ALL, 5, QUERY).took
    assert took is not None
    assert min(took) >= 0
    assert Forgetting(model, "retrain", TARGETS).answer(ALL, 5, QUERY).took is None


@pytest.mark.cases(
    ("trainable", "method", "said"),
    [
        (Copying(), "own", "forget = .own. needs a model of a library"),
        (small("bpr"), "own", "implicit does not forget by 'own'"),
        (small("item-item"), "fine-tune", "implicit does not forget by 'fine-tune'"),
    ],
    ids=["no method", "no own method", "nothing to train on"],
)
def test_a_method_that_a_model_lacks_is_refused(
    trainable: Any, method: Unlearning, said: str
) -> None:
    pytest.importorskip("implicit")
    with pytest.raises(ConfigError, match=said):
        scores(trainable, method)


class Users:
    """Scores what it was trained on, and forgets whole users alone."""

    def fit(self, interactions: csr_array, seed: int) -> Users:
        self.known, self.requests = interactions.toarray(), [0.0]
        return self

    def forget_users(self, users: NDArray[np.int32], seed: int) -> Users:
        self.known[users] = 0
        self.requests.append(len(users))
        return self

    def scores(self, users: NDArray[np.int32], items: NDArray[np.int32]) -> Any:
        return self.known[users, items]


class Both(Users):
    """It forgets single interactions too, and then scores them by -1."""

    def forget(self, interactions: NDArray[np.int32], seed: int) -> Both:
        self.known[tuple(interactions.T)] = -1
        return self


AWAY = DATA.user % 3 == 0
HISTORIES = csr_array((np.ones(AWAY.sum()), (DATA.user[AWAY], DATA.item[AWAY])), shape=SHAPE)


@pytest.mark.cases("model", [Users, Both])
@pytest.mark.cases("requests", [1, 4, 1000])
def test_whole_users_are_forgotten_by_forget_users(model: Any, requests: int) -> None:
    shown = Forgetting(GivenModel(model), "own", HISTORIES, requests).answer(ALL, 5, QUERY).scores
    kept = Interactions.of(DATA, ~AWAY).matrix.toarray()
    np.testing.assert_array_equal(shown.reshape(SHAPE), kept)


def test_a_request_with_single_interactions_is_forgotten_by_forget() -> None:
    every = csr_array(HISTORIES + TARGETS)
    shown = Forgetting(GivenModel(Both), "own", every).answer(ALL, 5, QUERY).scores.reshape(SHAPE)
    assert (shown[every.toarray() > 0] == -1).all()


def test_requests_do_not_divide_a_user_of_whom_nothing_stays() -> None:
    sizes: list[int] = []

    class Counts(Users):
        def forget_users(self, users: NDArray[np.int32], seed: int) -> Users:
            sizes.append(len(users))
            return self

    Forgetting(GivenModel(Counts), "own", HISTORIES, 4).answer(ALL, 5, QUERY)
    assert sum(sizes) == len(np.unique(DATA.user[AWAY]))
    assert len(sizes) == 4
    assert max(sizes) - min(sizes) <= 1


def test_a_class_that_cannot_forget_is_refused() -> None:
    class Plain:
        def fit(self, interactions: csr_array, seed: int) -> Plain:
            return self

        def scores(self, users: NDArray[np.int32], items: NDArray[np.int32]) -> Any:
            return np.ones(len(users))

    for model, what in ((Plain, "anything"), (Users, "single interactions")):
        said = rf"{model.__name__} cannot forget {what}: .* forget\(interactions, seed\).*"
        with pytest.raises(ConfigError, match=said + r"forget_users\(users, seed\)"):
            scores(GivenModel(model), "own")


@pytest.mark.cases("returned", [None, 7])
@pytest.mark.cases(("method", "targets"), [("forget", TARGETS), ("forget_users", HISTORIES)])
def test_a_class_returns_the_model_that_has_forgotten(
    returned: Any, method: Unlearning, targets: csr_array
) -> None:
    class Wrong(Users):
        def forget(self, interactions: NDArray[np.int32], seed: int) -> Any:
            return returned

        def forget_users(self, users: NDArray[np.int32], seed: int) -> Any:
            return returned

    said = rf"{method} returned {type(returned).__name__}, which has no method scores: return the"
    with pytest.raises(RunError, match=said):
        Forgetting(GivenModel(Wrong), "own", targets).answer(ALL, 5, QUERY)


@pytest.mark.cases("method", ["own", "retrain", "filter"])
def test_scores_before_the_deletion_are_those_of_the_same_training(method: Unlearning) -> None:
    model = GivenModel(Both) if method == "own" else MostPopular()
    asked = replace(QUERY, before=True)
    shown = Forgetting(model, method, TARGETS).answer(ALL, 5, asked)
    np.testing.assert_array_equal(shown.before, model.answer(ALL, 5, QUERY).scores)
    assert (shown.scores != shown.before).any() == (method != "filter")
    kept = Forgetting(model, method, csr_array(SHAPE)).answer(ALL, 5, asked)
    np.testing.assert_array_equal(kept.before, kept.scores)


@pytest.mark.filterwarnings("ignore")
def test_item_item_similarities_are_exact_without_the_targets() -> None:
    pytest.importorskip("implicit")
    fresh = small("item-item").fit(KEPT.matrix, 5).scores(*EVERY).reshape(SHAPE)
    np.testing.assert_array_equal(scores(small("item-item"), "own"), fresh)


@pytest.mark.filterwarnings("ignore")
def test_als_solves_the_rows_concerned_again_and_no_others() -> None:
    pytest.importorskip("implicit")
    user = int(DATA.user[0])
    pair = np.array([[user, DATA.item[0]]], I32)
    mask = (DATA.user == user) & (DATA.item == DATA.item[0])
    fitted: Any = small("als").fit(ALL.matrix, 5)
    before = fitted.users.copy(), fitted.items.copy()
    kept = Interactions.of(DATA, ~mask)
    after: Any = small("als").forgotten(fitted, Deletion("own", kept, pair), 5)
    moved = [np.flatnonzero((one != other).any(1)).tolist() for one, other in
             zip(before, (after.users, after.items), strict=True)]  # fmt: skip
    assert moved == [[user], [int(DATA.item[0])]]
    # The user's row solves the least squares of what stays, by the items before.
    items, regularization = before[1].astype(np.float64), 0.01
    confidence = kept.matrix.toarray()[user]
    liked = confidence > 0
    squares = items.T @ items + regularization * np.eye(4)
    squares += (items[liked].T * (confidence[liked] - 1)) @ items[liked]
    expected = np.linalg.solve(squares, confidence[liked] @ items[liked])
    assert after.users[user] == pytest.approx(expected, rel=1e-3)


@pytest.mark.filterwarnings("ignore")
def test_filtering_and_training_on_leave_or_move_the_parameters() -> None:
    pytest.importorskip("implicit")
    whole = small("als").fit(ALL.matrix, 5).scores(*EVERY).reshape(SHAPE)
    np.testing.assert_array_equal(scores(small("als"), "filter"), whole)
    for model in ("als", "bpr"):
        assert (scores(small(model), "fine-tune") != whole).any()
