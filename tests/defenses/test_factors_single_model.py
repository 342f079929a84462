"""Factorisations that are trained one at a time because they are large."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from pydantic import ValidationError
from scipy.stats import chi2

from dpaudit.core.errors import ConfigError, NoModelError
from dpaudit.core.streams import Streams
from dpaudit.data.ratings import Ratings
from dpaudit.data.source_parts import SyntheticParams
from dpaudit.data.synthetic import generate
from dpaudit.defenses.factorization.sampled import SampledFactors
from dpaudit.defenses.factorization.sgd import SgdFactors
from dpaudit.defenses.factors import FactorRows, visits

RATINGS: Ratings = generate(SyntheticParams(n_users=60, n_items=2000, mean_per_user=40, seed=3))


def large(**params: object) -> SgdFactors:
    given: dict[str, object] = {
        "epsilon": 5.0,
        "dimensions": 128,
        "epochs": 8,
        "learning_rate": 0.02,
    }
    return SgdFactors(**(given | params))  # type: ignore[arg-type]


def test_visits_are_all_rows_popular_items_first_each_users_together() -> None:
    rows = FactorRows.of(RATINGS, 3.0)
    users, items, values = visits(rows, 1024)
    before = np.lexsort((rows.items, rows.users))
    after = np.lexsort((items, users))
    for one, other in ((rows.users, users), (rows.items, items), (rows.values, values)):
        assert np.array_equal(one[before], other[after])
    counts = np.bincount(rows.items, minlength=rows.n_items)
    near = 2**17 // 1024
    popular = np.argsort(-counts, kind="stable")[:near]
    first = int(np.isin(rows.items, popular).sum())
    assert np.isin(items[:first], popular).all()
    assert not np.isin(items[first:], popular).any()
    assert (np.diff(users[:first]) >= 0).all()


def test_a_large_model_learns_and_each_trial_is_its_own() -> None:
    rows = large().prepare(RATINGS)
    users, items, values = rows.users, rows.items, rows.values

    def error(defense: SgdFactors, trials: int = 1) -> NDArray[np.float64]:
        shown = defense.train(rows, Streams.first(1, "test", trials)).predict(users, items)
        roots: NDArray[np.float64] = np.sqrt(((shown - values).astype(float) ** 2).mean(axis=1))
        return roots

    before = error(large(variant="nonprivate", learning_rate=1e-9))
    plain = error(large(variant="nonprivate"))
    noised = error(large(epsilon=1e6))
    strongly = error(large(epsilon=1.0, learning_rate=0.005), trials=3)
    assert plain[0] < 0.9 * before[0]
    assert abs(noised[0] - plain[0]) < 0.02
    assert len(set(strongly.tolist())) == 3
    assert (strongly > plain).all()
    one = large().train(rows, Streams(Streams.first(1, "test", 3).key, np.array([2])))
    three = large().train(rows, Streams.first(1, "test", 3))
    assert np.array_equal(one.predict(users, items)[0], three.predict(users, items)[2])
    assert three.public(np.array([0], np.int32)).factors.shape == (3, 2000, 129)


def test_a_small_and_a_large_model_learn_the_same() -> None:
    rows = large().prepare(RATINGS)
    streams = Streams.first(1, "test", 1)

    def error(dimensions: int, spread: float) -> float:
        defense = large(
            variant="nonprivate", dimensions=dimensions, spread=spread, learning_rate=0.002
        )
        shown = defense.train(rows, streams).predict(rows.users, rows.items)
        return float(np.sqrt(((shown - rows.values) ** 2).mean()))

    # Factors that start at 0 stay there, so both models are their biases, row order aside.
    assert error(128, 0.0) == pytest.approx(error(16, 0.0), abs=2e-3)


def drawn(**params: object) -> SampledFactors:
    given: dict[str, object] = {"epsilon": 5.0, "dimensions": 128, "epochs": 400, "exponent": 0.0}
    return SampledFactors(**(given | {"accept": "any"} | params))  # type: ignore[arg-type]


def test_a_large_chain_without_information_draws_from_the_prior() -> None:
    # ε/4B is so small that ratings have no effect: each coordinate has N(0, 1/(2 (ε/4B) λ)). A
    # drift of 0.02 per epoch forgets the start in 400 epochs, and moves the variance by 1 %.
    bound = 1e6
    few = SyntheticParams(n_users=15, n_items=400, mean_per_user=25, seed=3)
    factor, decay = 1e-6, 5e5
    defense = drawn(
        epsilon=4 * bound * factor,
        loss_bound=bound,
        cap=10**6,
        decay=decay,
        learning_rate=0.02 / (factor * decay),
    )
    prepared = defense.prepare(generate(few))
    trained = defense.train(prepared, Streams.first(1, "prior", 2))
    factors = trained.public(np.empty(0, np.int32)).factors.astype(float)
    assert factors.shape == (2, 400, 129)
    rated = np.bincount(prepared.rows.items, minlength=400) > 0
    assert rated.any()
    assert not rated.all()
    for items in (rated, ~rated):
        part = factors[:, items] * np.sqrt(2 * factor * decay)
        n = part.size
        low, high = (chi2.ppf(p, n) / n for p in (1e-6 / 8, 1 - 1e-6 / 8))
        assert low - 0.03 < (part**2).mean() < high + 0.03
        # Half of the variance, as a drift of ε/2B would leave, would be noticed.
        assert not low - 0.03 < (part**2).mean() / 2 < high + 0.03
    assert abs(np.corrcoef(factors.reshape(2, -1))[0, 1]) < 5.5 / np.sqrt(factors[0].size)


def test_a_large_draw_learns_is_repeated_and_fits_each_user() -> None:
    rough = drawn(epsilon=1e3, epochs=60, learning_rate=0.5, decay=20.0, cap=500, temperature=0.01)
    prepared = rough.prepare(RATINGS)
    rows, streams = prepared.rows, Streams.first(1, "test", 2)
    models = rough.train(prepared, streams)
    shown = models.predict(rows.users, rows.items)
    constant = np.std(rows.values)
    assert (np.sqrt(((shown - rows.values) ** 2).mean(1)) < 0.9 * constant).all()
    again = rough.train(prepared, Streams(streams.key, np.array([1])))
    assert np.array_equal(again.predict(rows.users, rows.items)[0], shown[1])
    # The ridge solution of one user, in the other of its two forms.
    items, user = models.items[0][:, :, 0].astype(float), 7
    mine = rows.users == user
    variance = 0.01 * 4 * rough.largest_loss(rows.scale) / (2 * 1e3 * 20)
    blurred = np.minimum(variance, (items**2).mean(0))
    trust = np.array([0.5 / np.sqrt(128)] * 128 + [0.25])
    trust /= trust + blurred
    rated = items[rows.items[mine]]
    x = np.column_stack([rated[:, :-1], np.ones(mine.sum()), rated[:, -1]])
    y = rows.values[mine] - rows.mean - trust[-1] * rated[:, -1]
    ridges = np.array([*(20 / trust[:-1] ** 2), 4, 1 / (trust[-1] * (1 - trust[-1])) ** 2])
    expected = np.linalg.solve(x.T @ x + np.diag(ridges), x.T @ y)
    np.testing.assert_allclose(models.users[0][user, :, 0], expected[:-1], atol=1e-4)
    assert models.shares is not None
    assert models.shares[0][user, 0] == pytest.approx(trust[-1] + expected[-1], abs=1e-4)


def test_draws_of_a_large_model_leave_the_range_or_are_drawn_again() -> None:
    defense = drawn(epsilon=1.0, accept="all", epochs=2, retries=1, learning_rate=10.0, cap=500)
    with pytest.raises(NoModelError, match=r"0 of 2 draws"):
        defense.train(defense.prepare(RATINGS), Streams.first(1, "test", 1))
    flat = drawn(variant="nonprivate", accept=None, biases=False, learning_rate=0.01, epochs=5)
    trained = flat.train(flat.prepare(RATINGS), Streams.first(1, "test", 1))
    assert not trained.public(np.empty(0, np.int32)).factors[:, :, -1].any()


@pytest.mark.cases(
    ("params", "message"),
    [
        ({"dimensions": 130}, "dimensions = 130 is no multiple of 16.*use 144"),
        ({"dimensions": 2048}, "less than or equal to 1024"),
        ({"variant": "corrected"}, "corrected form has at most 127"),
    ],
)
def test_sizes_that_cannot_be_trained_are_refused(params: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        large(**params)


def test_large_models_draw_no_precisions() -> None:
    with pytest.raises(ValidationError, match="at most 127"):
        drawn(prior_shape=1.0, prior_rate=1.0)
    with pytest.raises(ValidationError, match="no multiple of 16"):
        drawn(dimensions=200)


def test_a_large_model_that_diverges_stops_and_its_steps_are_not_observed() -> None:
    rows = large().prepare(RATINGS)
    with pytest.raises(
        NoModelError, match=r"no finite numbers after epoch .*lower params.learning_rate"
    ):
        large(variant="nonprivate", learning_rate=1.0, spread=1.0).train(
            rows, Streams.first(1, "t", 1)
        )
    with pytest.raises(ConfigError, match=r"dimensions = 128.*at most 127"):
        list(large().observe(rows, rows, rows, Streams.first(1, "t", 1)))
