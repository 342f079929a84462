from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.linear_model import Ridge

from dpaudit.attacks.reconstruction import Reconstruction
from dpaudit.core.releases import ItemFactors
from dpaudit.data.ratings import Ratings, Scale

Numbers = NDArray[np.float64]

N, M, D = 30, 40, 3
WIDE = Scale(-50.0, 50.0, 0.5)


def drawn(noise: float = 0.0, share: float = 0.6, seed: int = 0) -> tuple[ItemFactors, Ratings]:
    """A model of two trials; the ratings come from the first."""
    source = np.random.default_rng(seed)
    factors = source.normal(size=(2, M, D + 1)).astype(np.float32)
    users = 0.5 + source.normal(size=(N, D))
    rated = source.random((N, M)) < share
    rated[0] = False
    user, item = np.nonzero(rated)
    value = 2.5 + factors[0, item, -1] + np.einsum("nf,nf->n", users[user], factors[0, item, :-1])
    value += noise * source.normal(size=len(user))
    ratings = Ratings.build(user, item, value, N, M, WIDE, sensitive=source.random(len(user)) < 0.3)
    return ItemFactors(factors, 2.5), ratings


def parts(ratings: Ratings) -> tuple[Ratings, NDArray[np.int32], NDArray[np.int32], Numbers]:
    kept = ratings.kept_private
    values = ratings.value[kept].astype(np.float64)
    return ratings.only(~kept), ratings.user[kept], ratings.item[kept], values


def test_of_a_model_without_noise_everything_is_recovered() -> None:
    release, ratings = drawn()
    shared, users, items, values = parts(ratings)
    recovered = Reconstruction(ridge=1e-6).reconstruct(release, shared, users, items)
    assert recovered.shape == (2, len(values))
    np.testing.assert_allclose(recovered[0], values, atol=1e-3)
    # The items of the other trial carry no information about these users.
    assert abs(recovered[1] - values).mean() > 0.5


@pytest.mark.parametrize("average", [False, True])
def test_every_user_is_fitted_by_ridge_regression(average: bool) -> None:
    release, ratings = drawn(noise=0.7)
    shared, users, items, _ = parts(ratings)
    attack = Reconstruction(ridge=0.8, average=average)
    recovered = attack.reconstruct(release, shared, users, items)
    for trial in range(2):
        factors = release.factors[trial, :, :-1].astype(float)
        bias = release.factors[trial, :, -1] + release.mean

        def fitted(prior: Numbers) -> Numbers:
            fits = np.zeros((N, D))
            for user in range(N):
                mine = shared.profile(user)
                fits[user] = prior
                if len(mine):
                    x = factors[mine.items]  # noqa: B023
                    y = mine.values - bias[mine.items] - x @ prior  # noqa: B023
                    fits[user] += Ridge(alpha=0.8, fit_intercept=False).fit(x, y).coef_
            return fits

        fits = fitted(np.zeros(D))
        if average:
            fits = fitted(fits[1:].mean(0))
        wanted = bias[items] + np.einsum("nf,nf->n", fits[users], factors[items])
        np.testing.assert_allclose(recovered[trial], wanted, rtol=1e-6, atol=1e-6)


def test_one_who_shares_nothing_is_taken_for_an_average_one() -> None:
    release, ratings = drawn(noise=0.3)
    user, item = np.zeros(3, np.int32), np.arange(3, dtype=np.int32)
    alone = Reconstruction(average=False).reconstruct(release, ratings, user, item)
    expected = release.factors[:, :3, -1] + release.mean
    np.testing.assert_allclose(alone, expected, rtol=1e-6)
    drawn_in = Reconstruction().reconstruct(release, ratings, user, item)
    assert (abs(drawn_in - expected) > 0.05).any()


def test_what_is_recovered_lies_on_the_scale_and_hidden_values_are_not_looked_at() -> None:
    release, ratings = drawn(noise=5.0)
    narrow = Ratings.build(
        ratings.user, ratings.item, np.clip(ratings.value, 1, 5), N, M, Scale(),
        sensitive=ratings.sensitive,
    )  # fmt: skip
    shared, users, items, _ = parts(narrow)
    recovered = Reconstruction().reconstruct(release, shared, users, items)
    assert (recovered.min(), recovered.max()) == (1, 5)
    changed = Ratings.build(
        narrow.user,
        narrow.item,
        np.where(narrow.kept_private, 6 - narrow.value, narrow.value),
        N,
        M,
        Scale(),
        sensitive=narrow.sensitive,
    )
    again = Reconstruction().reconstruct(release, *parts(changed)[:3])
    np.testing.assert_array_equal(recovered, again)


def test_blocks_of_users_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    release, ratings = drawn(noise=0.5)
    shared, users, items, _ = parts(ratings)
    whole = Reconstruction().reconstruct(release, shared, users, items)
    for size in (1, 50, 1000):
        monkeypatch.setattr("dpaudit.attacks.reconstruction._AT_ONCE", size)
        again = Reconstruction().reconstruct(release, shared, users, items)
        np.testing.assert_allclose(again, whole, rtol=1e-9)
