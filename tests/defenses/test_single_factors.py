"""Factorisations that are trained one at a time because they are large."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from pydantic import ValidationError

from dpaudit.data.ratings import Ratings
from dpaudit.data.source import SyntheticParams
from dpaudit.data.synthetic import generate
from dpaudit.defenses.factors import FactorRows
from dpaudit.defenses.sgd_factors import SgdFactors
from dpaudit.defenses.single_factors import visits
from dpaudit.errors import ConfigError, RunError
from dpaudit.releases import Streams

RATINGS: Ratings = generate(SyntheticParams(n_users=60, n_items=2000, mean_per_user=40, seed=3))


def large(**params: object) -> SgdFactors:
    given: dict[str, object] = {"epsilon": 5.0, "dimensions": 128, "passes": 8, "rate": 0.02}
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


def test_a_large_model_learns_and_each_world_is_its_own() -> None:
    rows = large().prepare(RATINGS)
    users, items, values = rows.users, rows.items, rows.values

    def error(defense: SgdFactors, worlds: int = 1) -> NDArray[np.float64]:
        shown = defense.train(rows, Streams.first(1, "test", worlds)).predict(users, items)
        roots: NDArray[np.float64] = np.sqrt(((shown - values).astype(float) ** 2).mean(axis=1))
        return roots

    before = error(large(variant="nonprivate", rate=1e-9))
    plain = error(large(variant="nonprivate"))
    noised = error(large(epsilon=1e6))
    strongly = error(large(epsilon=1.0, rate=0.005), worlds=3)
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
        defense = large(variant="nonprivate", dimensions=dimensions, spread=spread, rate=0.002)
        shown = defense.train(rows, streams).predict(rows.users, rows.items)
        return float(np.sqrt(((shown - rows.values) ** 2).mean()))

    # Factors that start at 0 stay there, so both models are their biases, row order aside.
    assert error(128, 0.0) == pytest.approx(error(16, 0.0), abs=2e-3)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"dimensions": 130}, "dimensions = 130 is no multiple of 16.*give 144"),
        ({"dimensions": 2048}, "less than or equal to 1024"),
        ({"variant": "corrected"}, "corrected form has at most 127 dimensions"),
    ],
)
def test_sizes_that_cannot_be_trained_are_refused(params: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        large(**params)


def test_a_large_model_that_diverges_stops_and_its_steps_are_not_watched() -> None:
    rows = large().prepare(RATINGS)
    with pytest.raises(RunError, match=r"no finite numbers after pass .*lower params.rate"):
        large(variant="nonprivate", rate=1.0, spread=1.0).train(rows, Streams.first(1, "t", 1))
    with pytest.raises(ConfigError, match=r"dimensions = 128.*at most 127"):
        list(large().watch(rows, rows, rows, Streams.first(1, "t", 1)))
