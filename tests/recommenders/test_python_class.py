"""A recommender that is the user's own class: what it shows, and one sentence on what is wrong."""

from __future__ import annotations

import sys
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pytest
from pydantic import ValidationError
from scipy.sparse import csr_array

import dpaudit
from dpaudit.core.errors import ConfigError, DpauditError, RunError
from dpaudit.data.interactions import Interactions
from dpaudit.data.ratings import Ratings, Scale
from dpaudit.execution.executor import Executor
from dpaudit.execution.workers import Workers, started
from dpaudit.recommenders.base import Answer, Query
from dpaudit.recommenders.histories import Histories
from dpaudit.recommenders.python_class import PythonClass
from tests.support.trained_on import trained_on

N_USERS, N_ITEMS, K = 6, 5, 3
USERS = np.arange(N_USERS, dtype=np.int32)
MODULE = """
    import sys
    import numpy as np

    class Counts:
        def __init__(self, weight=1.0):
            if weight < 0:
                raise ValueError("weight must not be negative")
            self.weight = weight

        def fit(self, interactions, seed):
            self.counts = interactions.sum(axis=0) * self.weight + seed
            interactions.data[:] = 0
            interactions.eliminate_zeros()
            return self

        def scores(self, users, items):
            users += 1
            return self.counts[items]

    class Lists(Counts):
        def recommend(self, users, k):
            return np.tile(np.arange(k), (len(users), 1))

        def factors(self):
            return np.eye(5), None

        def scores_after(self, histories, items):
            histories += 1
            return histories[:, -1:] - items

    class Returns(Lists):
        def __init__(self, name, code):
            self.name, self.code = name, code

        def scores(self, users, items):
            if self.name == "scores":
                return self.made("scores", users, items)
            return super().scores(users, items)

        def fit(self, interactions, seed):
            self.weight = 1
            super().fit(interactions, seed)
            return self.made("fit") if self.name == "fit" else self

        def recommend(self, users, k):
            if self.name == "recommend":
                return self.made("recommend", users, k)
            return super().recommend(users, k)

        def factors(self):
            return self.made("factors") if self.name == "factors" else super().factors()

        def made(self, name, *arguments):
            return eval(self.code, {"np": np, "sys": sys, "n": len(arguments and arguments[0])})

    def closed():
        return open

    NUMBER = 3
"""


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_module(tmp_path, monkeypatch, textwrap.dedent(MODULE))


def write_module(folder: Path, patch: pytest.MonkeyPatch, text: str) -> None:
    (folder / "my_class.py").write_text(text)
    patch.syspath_prepend(folder)
    patch.delitem(sys.modules, "my_class", raising=False)


def data() -> csr_array:
    return csr_array(np.arange(N_USERS * N_ITEMS).reshape(N_USERS, N_ITEMS) % 4, dtype=np.float32)


def query(factors: bool = False) -> Query:
    return Query(USERS.copy(), USERS % N_ITEMS, USERS[:2].copy(), K, factors)


def answer(name: str, asked: Query | None = None, /, **settings: Any) -> Answer:
    return PythonClass(f"my_class:{name}", settings).answer(trained_on(data()), 7, asked or query())


ORDERED = """
{imports}
import numpy as np


class Last:
    def fit(self, interactions{annotation}, seed):
        self.given = interactions
        return self

    def scores(self, users, items):
        last = np.full(self.given.shape[0], -1)
        table = self.given.table
        last[table.user] = table.item
        return (last[users] == items).astype(float)
"""
FORMS = [
    ("import dpaudit", ": dpaudit.Interactions"),
    ("from __future__ import annotations; import dpaudit", ": dpaudit.Interactions"),
    ("from dpaudit import Interactions", ": Interactions"),
    ("from dpaudit import Interactions", ": 'Interactions'"),
    ("from dpaudit import Interactions", ": Interactions | None"),
    ("from __future__ import annotations", ": Interactions"),
    ("from __future__ import annotations", ": dpaudit.Interactions | None"),
]


@pytest.mark.cases(("imports", "annotation"), FORMS)
def test_a_class_that_says_so_gets_the_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, imports: str, annotation: str
) -> None:
    text = ORDERED.format(imports=imports, annotation=annotation)
    write_module(tmp_path, monkeypatch, text)
    user, item = np.array([0, 0, 1]), np.array([0, 1, 1])
    times = np.array([2.0, 1.0, 1.0])
    ratings = Ratings.build(user, item, np.ones(3), N_USERS, N_ITEMS, Scale(1, 1, 1), time=times)
    shown = PythonClass("my_class:Last").answer(Interactions(ratings), 7, query())
    expected = [(0, 0), (1, 1)]
    asked = query()
    assert shown.scores.tolist() == [
        float(pair in expected) for pair in zip(asked.users, asked.items, strict=True)
    ]


OWN = """
import numpy as np


class Interactions:
    pass


class Own:
    def fit(self, interactions: Interactions, seed):
        self.count = interactions.nnz
        return self

    def scores(self, users, items):
        return np.full(len(users), self.count)
"""


def test_an_annotation_of_another_type_gets_the_matrix(tmp_path: Path) -> None:
    (tmp_path / "my_class.py").write_text(OWN)
    shown = PythonClass("my_class:Own").answer(trained_on(data()), 7, query())
    assert set(shown.scores) == {data().nnz}


def test_scores_are_those_of_the_class_and_its_changes_stay_with_it() -> None:
    asked, given = query(), data()
    shown = PythonClass("my_class:Counts", {"weight": 2.0}).answer(trained_on(given), 7, asked)
    counts = data().sum(axis=0) * 2 + 7
    np.testing.assert_array_equal(shown.scores, counts[asked.items])
    assert shown.scores.dtype == np.float32
    assert shown.factors is None
    np.testing.assert_array_equal(asked.users, USERS)
    np.testing.assert_array_equal(given.todense(), data().todense())


def test_without_recommend_lists_are_the_best_scores_of_items_that_were_not_seen() -> None:
    lists = answer("Counts").lists
    assert lists.shape == (2, K)
    assert lists.dtype == np.int32
    # Each of these users has left out items whose rating is 0.
    for user, row in enumerate(lists):
        unseen = np.flatnonzero(data().todense()[user] == 0)
        assert set(row[row >= 0]) == set(unseen[:K])


def test_lists_and_factors_of_the_class_are_shown() -> None:
    shown = answer("Lists", query(factors=True))
    np.testing.assert_array_equal(shown.lists, [[0, 1, 2], [0, 1, 2]])
    assert shown.factors is not None
    np.testing.assert_array_equal(shown.factors.items, np.eye(5))
    assert shown.factors.users is None


def test_nothing_is_asked_that_the_query_does_not_hold() -> None:
    none = np.empty(0, np.int32)
    shown = answer("Returns", Query(none, none, USERS, K), name="scores", code="1 / 0")
    assert shown.scores.shape == (0,)
    shown = answer("Returns", Query(USERS, USERS % 5, none, K), name="recommend", code="1 / 0")
    assert shown.lists.shape == (0, K)


@pytest.mark.cases(
    ("name", "code", "words"),
    [
        ("fit", "1 / 0", ["my_class:Returns with seed 7: ", "raised ZeroDivisionError", "params"]),
        ("fit", "sys.exit(0)", ["raised SystemExit: 0"]),
        ("fit", "next(iter(()))", ["raised StopIteration"]),
        ("fit", "np.linalg.inv(np.zeros((2, 2)))", ["my_class.py, line", "raised LinAlgError"]),
        ("fit", "None", ["fit returned NoneType, which has no method scores"]),
        ("scores", "np.zeros(n + 1)", ["scores have shape (7,), and (6,) was asked"]),
        ("scores", "np.zeros((n, 1))", ["scores have shape (6, 1)"]),
        ("scores", "None", ["scores are of type NoneType"]),
        ("scores", "['a'] * n", ["scores have type <U1: return numbers"]),
        ("scores", "[[1], [1, 2]]", ["scores have rows of different lengths"]),
        ("scores", "np.full(n, np.inf)", ["scores[0] = inf is no finite number"]),
        ("scores", "np.full(n, 1e300)", ["scores[0] = inf is no finite number"]),
        ("scores", "np.full(n, np.nan)", ["all 6 scores are NaN"]),
        ("recommend", "np.zeros((n, 2), int)", ["lists have shape (2, 2), and (2, 3) was asked"]),
        ("recommend", "np.zeros((n, 3))", ["lists have type float64: return whole numbers"]),
        ("recommend", "np.zeros((n, 3), int)", ["a list holds an item twice"]),
        ("recommend", "np.tile([0, 1, 5], (n, 1))", ["a list holds the item 5: use 0 to 4"]),
        ("recommend", "np.tile([0, 1, 2**32 + 2], (n, 1))", ["a list holds the item 4294967298"]),
        ("recommend", "[[1], [1, 2]]", ["lists have rows of different lengths"]),
        ("factors", "np.eye(5)", ["factors() returned no pair"]),
        ("factors", "(np.eye(4), None)", ["factors of items have shape (4, 4)"]),
        ("factors", "(np.eye(5), np.eye(5))", ["factors of users have shape (5, 5)"]),
        ("factors", "(np.eye(5) * 1e300, None)", ["factors of items hold NaN or infinity"]),
    ],
)
def test_what_cannot_be_used_is_one_sentence(name: str, code: str, words: list[str]) -> None:
    with pytest.raises(RunError) as raised:
        answer("Returns", query(factors=True), name=name, code=code)
    for word in words:
        assert word in str(raised.value)
    assert "\n" not in str(raised.value)


def test_scores_of_lists_are_checked_too() -> None:
    none = np.empty(0, np.int32)
    with pytest.raises(RunError, match=r"scores\[0\] = inf"):
        answer("Counts", Query(none, none, USERS, K), weight=float("inf"))


@pytest.mark.cases(
    ("name", "settings", "words"),
    [
        ("Counts", {"weight": -1.0}, ["my_class:Counts refuses its settings (ValueError: weight"]),
        ("Counts", {"wieght": 1.0}, ["refuses its settings (TypeError", "correct params.settings"]),
        ("Counts", {"factory": 1}, ["refuses its settings (TypeError"]),
        ("NoSuch", {}, ["recommender.target = 'my_class:NoSuch' cannot be imported"]),
        ("NUMBER", {}, ["recommender.target = 'my_class:NUMBER' cannot be called: name a class"]),
        ("closed", {}, ["makes builtin_function_or_method, which has no method fit"]),
    ],
)
def test_a_class_that_cannot_be_made_is_a_config_error(
    name: str, settings: dict[str, Any], words: list[str]
) -> None:
    with pytest.raises(ConfigError) as raised:
        answer(name, **settings)
    for word in words:
        assert word in str(raised.value)


def test_factors_that_are_asked_of_a_class_without_are_a_config_error() -> None:
    with pytest.raises(ConfigError, match=r"my_class:Counts publishes no factors: remove"):
        answer("Counts", query(factors=True))


def test_a_class_is_sent_histories_that_are_its_own() -> None:
    sent, items = np.array([[-1, 3], [2, 4]], np.int32), np.array([[0, 1, 2]] * 2, np.int32)
    for factors in (False, True):
        asked = replace(query(factors), after=Histories(sent, items))
        shown = answer("Lists", asked)
        assert shown.after is not None
        np.testing.assert_array_equal(shown.after, [[4, 3, 2], [5, 4, 3]])
        assert sent[0, 0] == -1
    with pytest.raises(ConfigError, match=r"my_class:Counts answers no histories: .* scores_after"):
        answer("Counts", replace(query(), after=Histories(sent, items)))


def test_it_is_frozen_typed_and_refuses_unknown_parameters() -> None:
    kind: Any = PythonClass
    recommender = kind("a:b")
    assert recommender.predicts_ratings is False
    assert kind("a:b", predicts_ratings=True).predicts_ratings is True
    with pytest.raises(AttributeError):
        recommender.target = "c:d"
    for wrong in ({}, {"target": 1}, {"target": "a:b", "x": 1}, {"target": "a:b", "settings": 1}):
        with pytest.raises(ValidationError):
            kind(**wrong)


@pytest.mark.long
def test_a_worker_process_runs_it_and_reports_its_errors() -> None:
    assert cloudpickle.loads(cloudpickle.dumps(PythonClass("a:b"))) == PythonClass("a:b")
    asked = query()

    def work(weight: float) -> Any:
        return (
            PythonClass("my_class:Counts", {"weight": weight})
            .answer(trained_on(data()), 7, asked)
            .scores
        )

    with started(Workers(2, "processes")) as pool:
        (there,) = Executor(pool).map("scores", work, [2.0], lambda _: 1)
        with pytest.raises(DpauditError, match="weight must not be negative"):
            Executor(pool).map("scores", work, [-2.0], lambda _: 1)
    np.testing.assert_array_equal(there, work(2.0))


def test_the_example_can_be_audited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path(dpaudit.__file__).parents[1] / "examples" / "own-model")
    monkeypatch.delitem(sys.modules, "model", raising=False)
    recommender = PythonClass("model:Recommender", {"factors": 4})
    shown = recommender.answer(trained_on(data()), 7, query(factors=True))
    again = recommender.answer(trained_on(data()), 7, query(factors=True))
    np.testing.assert_array_equal(shown.scores, again.scores)
    np.testing.assert_allclose(shown.scores, data().todense()[USERS, USERS % N_ITEMS], atol=1)
    assert shown.factors is not None
    assert shown.factors.items.shape == (N_ITEMS, 4)
