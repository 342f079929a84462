"""A Newton step comes near the optimum without some pairs; an ascent raises their loss."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from membership_cases import small_ratings  # type: ignore[import-not-found]
from scipy.optimize import minimize
from scipy.sparse import csr_array

from dpaudit.core.errors import ConfigError
from dpaudit.core.membership import Unlearning
from dpaudit.data.interactions import Interactions
from dpaudit.recommenders import forgetting
from dpaudit.recommenders.base import Deletion, FactorModel, Query
from dpaudit.recommenders.forgetting import Forgetting, Pair, ascended, newton_step
from dpaudit.recommenders.implicit import Implicit

N, M, D, LAMBDA = 8, 6, 2, 0.3
DATA = small_ratings()
USER = int(DATA.user[0])


def confidences(seed: int = 3) -> csr_array:
    rng = np.random.default_rng(seed)
    return csr_array((rng.random((N, M)) < 0.5) * rng.integers(1, 5, (N, M)).astype(float))


def loss(vector: Any, matrix: csr_array) -> tuple[float, Any]:
    """The loss of Hu, Koren and Volinsky as they write it, over all pairs, and its gradient."""
    x, y = vector[: N * D].reshape(N, D), vector[N * D :].reshape(M, D)
    dense = matrix.toarray()
    weight = np.where(dense != 0, abs(dense), 1.0)
    error = x @ y.T - (dense > 0)
    total = float((weight * error**2).sum() + LAMBDA * (vector**2).sum())
    slope = 2 * weight * error
    return total, np.concatenate((slope @ y, slope.T @ x), axis=None) + 2 * LAMBDA * vector


def optimum(matrix: csr_array, start: Any) -> Any:
    return minimize(loss, start, matrix, method="BFGS", jac=True, options={"gtol": 1e-8}).x


def scores(vector: Any) -> Any:
    return vector[: N * D].reshape(N, D) @ vector[N * D :].reshape(M, D).T


def newton(vector: Any, seen: csr_array, kept: csr_array) -> Any:
    pair = Pair(vector[: N * D].reshape(N, D), vector[N * D :].reshape(M, D))
    return np.concatenate(newton_step(pair, seen, kept, LAMBDA), axis=None)


def test_the_newton_step_errs_by_the_square_of_the_change(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forgetting, "ITERATIONS", 200)
    seen = confidences()
    trained = optimum(seen, np.random.default_rng(1).normal(size=(N + M) * D) * 0.5)
    user, item = (int(index[3]) for index in seen.nonzero())
    errors, before = [], []
    # The weight of an interaction falls a little, and half of it.
    for share in (0.1, 0.05):
        kept = seen.copy()
        kept[user, item] = seen[user, item] * (1 - share)
        again = scores(optimum(kept, trained))
        errors.append(np.abs(scores(newton(trained, seen, kept)) - again).max())
        before.append(np.abs(scores(trained) - again).max())
    assert errors[0] < before[0] / 10
    assert errors[1] == pytest.approx(errors[0] / 4, rel=0.3)
    assert before[1] == pytest.approx(before[0] / 2, rel=0.2)


def test_the_newton_step_without_a_pair_comes_nearer_to_a_new_training() -> None:
    seen = confidences()
    trained = optimum(seen, np.random.default_rng(1).normal(size=(N + M) * D) * 0.5)
    kept = seen.copy()
    kept[seen.nonzero()[0][3], seen.nonzero()[1][3]] = 0
    kept.eliminate_zeros()
    again = scores(optimum(kept, trained))
    left = np.abs(scores(newton(trained, seen, kept)) - again).max()
    assert left < np.abs(scores(trained) - again).max() / 1.5


def test_an_ascent_follows_the_gradient_and_leaves_constant_columns() -> None:
    rng = np.random.default_rng(2)
    pair = Pair(rng.normal(size=(N, D)), rng.normal(size=(M, D)))
    losses = []

    def slopes(factors: Pair) -> csr_array:
        s = factors.users @ factors.items.T
        losses.append((s**2).sum())
        return csr_array(2 * s)

    after = ascended(pair, slopes, (np.array([1, 0]), np.array([1, 1])))
    assert len(losses) == forgetting.ASCENTS
    assert (np.diff(losses) > 0).all()
    np.testing.assert_array_equal(after.users[:, 1], pair.users[:, 1])
    assert (after.items != pair.items).all()


def small(model: Any) -> Implicit:
    return Implicit(model=model, settings={"factors": 4, "iterations": 3})


def without(mask: Any, method: str) -> Deletion:
    pairs = np.stack((DATA.user[mask], DATA.item[mask]), axis=1)
    return Deletion(method, Interactions.of(DATA, ~mask), pairs)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.cases("model", ["als", "bpr", "lmf"])
def test_an_ascent_lowers_the_scores_of_what_is_forgotten(model: Any) -> None:
    pytest.importorskip("implicit")
    mask = np.arange(len(DATA)) % 7 == 0
    deletion = without(mask, "ascent")
    fitted: Any = small(model).fit(Interactions.of(DATA).matrix, 5)
    before = fitted.scores(DATA.user, DATA.item)
    ones = [(part == 1).all(0) for part in (fitted.users[fitted.users.any(1)], fitted.items)]
    after: Any = small(model).forgotten(fitted, deletion, 5)
    change = after.scores(DATA.user, DATA.item) - before
    assert change[mask].mean() < min(0, change[~mask].mean())
    again = (part == 1 for part in (after.users[after.users.any(1)], after.items))
    assert all(part[:, one].all() for one, part in zip(ones, again, strict=True))
    assert after.seen.nnz == (~mask).sum()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("alpha", [1.0, 2.0])
def test_the_newton_step_of_als_comes_near_a_training_that_converges(alpha: float) -> None:
    pytest.importorskip("implicit")
    settings = {"factors": 2, "iterations": 200, "alpha": alpha, "regularization": 1.0}
    adapter = Implicit(settings=settings)
    mask = np.arange(len(DATA)) == 5
    deletion = without(mask, "influence")
    rows = np.arange(DATA.n_users, dtype=np.int32)
    fitted: Any = adapter.fit(Interactions.of(DATA).matrix, 5)
    before = fitted.rows(rows)
    again: Any = adapter.fit(deletion.kept.matrix, 5)
    after: Any = adapter.forgotten(fitted, deletion, 5)
    errors = [np.abs(shown - again.rows(rows)).max() for shown in (before, after.rows(rows))]
    assert errors[1] < errors[0] / 3


@pytest.mark.filterwarnings("ignore")
def test_rows_of_users_without_interactions_are_dropped_and_no_others() -> None:
    pytest.importorskip("implicit")
    fitted: Any = small("bpr").fit(Interactions.of(DATA).matrix, 5)
    mask = DATA.user == USER
    mask[-1] = True
    after: Any = small("bpr").forgotten(fitted, without(mask, "drop-rows"), 5)
    assert not after.users[[USER, 7]].any()  # user 7 never had an interaction
    others = np.delete(np.arange(DATA.n_users), [USER, 7])
    np.testing.assert_array_equal(after.users[others], fitted.users[others])
    np.testing.assert_array_equal(after.items, fitted.items)


def test_constants_of_dropped_users_are_dropped() -> None:
    rng = np.random.default_rng(1)
    users, items = (rng.normal(size=(n, 2)).astype(np.float32) for n in DATA_SHAPE)
    model = FactorModel(Interactions.of(DATA).matrix, users, items, np.ones(60, np.float32))
    after: Any = small("als").forgotten(model, without(DATA.user == USER, "drop-rows"), 5)
    assert not after.rows(np.array([USER], np.int32)).any()


DATA_SHAPE = DATA.n_users, DATA.n_items


@pytest.mark.filterwarnings("ignore")
def test_requests_of_own_read_no_stale_squares() -> None:
    pytest.importorskip("implicit")
    first, second = (np.arange(len(DATA)) % 7 == place for place in (0, 1))
    adapter = small("als")
    model: Any = adapter.fit(Interactions.of(DATA).matrix, 5)
    model = adapter.forgotten(model, without(first, "own"), 5)
    fresh: Any = adapter.fit(Interactions.of(DATA).matrix, 5)
    fresh.state.user_factors[:] = model.users
    fresh.state.item_factors[:] = model.items
    last = without(first | second, "own")
    one: Any = adapter.forgotten(model, last, 5)
    other: Any = adapter.forgotten(fresh, last, 5)
    np.testing.assert_array_equal(one.users, other.users)


@pytest.mark.parametrize(("model", "method"), [("bpr", "influence"), ("item-item", "ascent")])
@pytest.mark.filterwarnings("ignore")
def test_a_model_without_the_method_refuses_it(model: Any, method: Unlearning) -> None:
    pytest.importorskip("implicit")
    mask = np.arange(len(DATA)) % 7 == 0
    targets = csr_array((mask * 1.0, (DATA.user, DATA.item)), shape=DATA_SHAPE)
    targets.eliminate_zeros()
    nobody = np.array([], np.int32)
    adapter = Implicit(model=model, settings={"K": 3} if model == "item-item" else {"factors": 2})
    with pytest.raises(ConfigError, match=f"implicit does not forget by '{method}'"):
        Forgetting(adapter, method, targets).answer(
            Interactions.of(DATA), 5, Query(nobody, nobody, nobody, 2)
        )
