"""What users fit to a released factorisation, against least squares and in the limits of noise."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from dpaudit.core.streams import Streams
from dpaudit.data.ratings import Ratings, Scale, from_profiles
from dpaudit.defenses.factorization.sampled import SampledFactors, fitted
from dpaudit.defenses.factors import FactorModels, FactorRows
from dpaudit.kernels.lanes import LANES

STARS = Scale()
Numbers = NDArray[np.float64]
MEAN = 3.1
# The first has more ratings than coordinates, the last fewer, the second none.
RATINGS = from_profiles(
    [[(0, 5.0), (1, 2.0), (2, 1.0), (3, 4.0), (5, 5.0), (6, 3.0)], [], [(1, 2.0)]], 7, STARS
)
ROWS = FactorRows.of(RATINGS, MEAN)
ITEMS = np.random.default_rng(0).normal(size=(7, 3, LANES)).astype(np.float32)
DECAYS = np.random.default_rng(1).uniform(0.1, 30, (3, LANES))


def penalised(x: Numbers, y: Numbers, deviations: list[float]) -> Numbers:
    """The mean of coefficients with these deviations over σ."""
    padded = np.vstack((x * deviations, np.eye(len(deviations))))
    wanted = np.concatenate((y, np.zeros(len(deviations))))
    return np.asarray(np.linalg.lstsq(padded, wanted, rcond=None)[0] * deviations, np.float64)


@pytest.mark.cases("biases", [True, False])
@pytest.mark.cases("noise", [0.0, 0.1, 3.0, 1e9])
def test_the_fit_is_the_mean_of_the_stated_law(noise: float, biases: bool) -> None:
    items = ITEMS.copy()
    if not biases:
        items[:, -1] = 0
    given = noise * np.random.default_rng(2).uniform(0.5, 2, (3, LANES))
    factors, shares = fitted(ROWS, items, DECAYS, given, biases)
    for w in range(LANES):
        v, b = items[:, :2, w].astype(float), items[:, 2, w].astype(float)
        blur = np.minimum(given[:, w], [*(v**2).mean(0), (b**2).mean()])
        # The deviation of each part is half a star, of the residual a star, of factors s/√d.
        trust = np.array([0.5 / math.sqrt(2)] * 2 + [0.25])
        trust = trust / (trust + blur)
        rho = trust[2]
        deviations = [
            *(trust[:2] / np.sqrt(DECAYS[:2, w])),
            math.sqrt(max(1 / DECAYS[2, w], 0.25)),
            rho * (1 - rho),
        ]
        for u in (0, 2):
            mine = RATINGS.profile(u)
            ones = np.full(len(mine.items), float(biases))
            x = np.column_stack((v[mine.items], ones, b[mine.items]))
            y = mine.values - MEAN - rho * b[mine.items]
            want = penalised(x, y, deviations)
            np.testing.assert_allclose(factors[u, :, w], want[:3], atol=1e-5)
            np.testing.assert_allclose(shares[u, w], rho + want[3], atol=1e-5)
        assert not factors[1, :, w].any()
        np.testing.assert_allclose(shares[1, w], rho, atol=1e-6)


def test_without_noise_it_is_ridge_regression() -> None:
    factors, shares = fitted(ROWS, ITEMS, 0.7)
    assert (shares == 1).all()
    for u in (0, 2):
        mine = RATINGS.profile(u)
        for w in range(LANES):
            x = ITEMS[mine.items, :, w].astype(float)
            y = mine.values - MEAN - x[:, 2]
            x[:, 2] = 1
            want = penalised(x, y, [1 / math.sqrt(0.7)] * 3)
            np.testing.assert_allclose(factors[u, :, w], want, atol=1e-5)


def test_where_all_is_noise_the_users_mean_is_left() -> None:
    items = 1e4 * ITEMS
    factors, shares = fitted(ROWS, items, 20.0, 1e10)
    shown = FactorModels([factors], [items], LANES, MEAN, STARS, [shares]).predict(
        np.zeros(7, np.int32), np.arange(7, dtype=np.int32)
    )
    values = RATINGS.profile(0).values
    # The prior of c counts like four ratings of b_0.
    mean = MEAN + (values - MEAN).sum() / (len(values) + 4)
    np.testing.assert_allclose(shown, mean, atol=0.02)


def test_users_count_biases_for_their_share_of_them() -> None:
    factors, shares = fitted(ROWS, ITEMS, 5.0, 0.3)
    users, items = np.array([0, 2, 1], np.int32), np.array([4, 1, 0], np.int32)
    shown = FactorModels([factors], [ITEMS], LANES, MEAN, STARS, [shares]).predict(users, items)
    for w in range(LANES):
        u, v = factors[users, :, w].astype(float), ITEMS[items, :, w].astype(float)
        guess = MEAN + u[:, 2] + shares[users, w] * v[:, 2] + (u[:, :2] * v[:, :2]).sum(1)
        np.testing.assert_allclose(shown[w], np.clip(guess, 1, 5), atol=1e-5)


@pytest.mark.parametrize("dimensions", [3, 128])
def test_a_model_that_is_mostly_noise_predicts_better_than_a_constant(dimensions: int) -> None:
    source = np.random.default_rng(3)
    user, item = (part.ravel() for part in np.indices((40, 30)))
    likes = 3 + source.normal(0, 0.8, 40)[user] + source.normal(0, 0.2, 30)[item]
    value = np.clip(np.rint(likes + source.normal(0, 0.5, len(user))), 1, 5)
    held = source.random(len(user)) < 0.2
    learned, test = (
        Ratings.build(user[part], item[part], value[part], 40, 30, STARS) for part in (~held, held)
    )
    model = SampledFactors(
        1.0, accept="any", cap=30, epochs=10, dimensions=dimensions, decay=20.0, learning_rate=0.2
    )
    prepared = model.prepare(learned)
    trained = model.train(prepared, Streams.first(1, "test", 2))
    shown = trained.predict(test.user, test.item)
    error = math.sqrt(np.square(shown - test.value).mean())
    assert trained.shares is not None
    assert max(share.max() for share in trained.shares) < 0.5
    assert error < 0.85 * float(test.value.std())
