from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpaudit.data import DataSource, Ratings, RatingScale, SyntheticParams, generate, load


def test_default_has_the_marginals_of_a_rating_site() -> None:
    ratings = generate(SyntheticParams())
    per_user = np.diff(ratings.by_user.start)
    per_item = np.sort(np.diff(ratings.by_item.start))
    assert (ratings.n_users, ratings.n_items) == (600, 300)
    assert per_user.min() == 20
    assert 40 < per_user.mean() < 50
    assert per_user.max() > 100
    # A tenth of the items gets about a third of the ratings; a tenth of them at random would not.
    assert 0.25 < per_item[-30:].sum() / len(ratings) < 0.45
    assert 3.2 < ratings.value.mean() < 3.8
    assert set(np.unique(ratings.value)) == {1, 2, 3, 4, 5}


def test_ratings_hold_a_signal_beyond_noise() -> None:
    def share_of_items(noise: float) -> float:
        ratings = generate(SyntheticParams(noise=noise))
        start, _, value = ratings.by_item
        means = np.add.reduceat(value, start[:-1]) / np.diff(start)
        return float(np.var(means[ratings.item]) / np.var(ratings.value))

    assert share_of_items(0.0) > 0.2 > share_of_items(3.0)


def test_seed_decides() -> None:
    params = SyntheticParams(n_users=50, n_items=60, seed=3)
    assert generate(params).digest == generate(params).digest
    other = params.model_copy(update={"seed": 4})
    assert generate(params).digest != generate(other).digest


def test_blocks_do_not_change_the_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = generate(SyntheticParams())
    monkeypatch.setattr("dpaudit.data.synthetic._BLOCK_CELLS", 7 * 300)
    assert generate(SyntheticParams()).digest == whole.digest


@pytest.mark.parametrize("per_user", [1, 30])
def test_equal_activity(per_user: int) -> None:
    params = SyntheticParams(
        n_users=9, n_items=30, mean_per_user=per_user, minimum_per_user=per_user
    )
    assert (np.diff(generate(params).by_user.start) == per_user).all()


@settings(deadline=None, max_examples=25, derandomize=True)
@given(
    st.integers(1, 30),
    st.integers(1, 30),
    st.integers(1, 8),
    st.sampled_from([(1.0, 5.0, 1.0), (0.5, 4.0, 0.5), (-10.0, 10.0, 0.1), (1.0, 1.0, 1.0)]),
    st.integers(0, 2**40),
)
def test_is_always_on_the_scale(
    n_users: int, n_items: int, rank: int, levels: tuple[float, float, float], seed: int
) -> None:
    minimum, maximum, step = levels
    params = SyntheticParams(
        n_users=n_users,
        n_items=n_items,
        mean_per_user=(1 + n_items) / 2,
        minimum_per_user=1,
        rank=rank,
        scale=RatingScale(minimum=minimum, maximum=maximum, step=step),
        seed=seed,
    )
    ratings = generate(params)  # `Ratings.build` checks the range and that items are distinct
    assert np.isin(ratings.value, ratings.scale.values).all()
    assert np.diff(ratings.by_user.start).min() >= 1


def test_load_generates_and_binarizes() -> None:
    ratings = load(DataSource())
    assert ratings.digest == generate(SyntheticParams()).digest
    liked = load(DataSource(binarize=4))
    assert len(liked) == (ratings.value >= 4).sum()
    assert (liked.value == 1).all()
    assert (liked.scale.minimum, liked.scale.maximum) == (1, 1)
    assert (liked.n_users, liked.n_items) == (ratings.n_users, ratings.n_items)


def agreement(ratings: Ratings, left: np.ndarray, right: np.ndarray) -> float:
    """Mean absolute difference of two users' ratings of common items, item means subtracted."""
    given = np.full((ratings.n_users, ratings.n_items), np.nan)
    given[ratings.user, ratings.item] = ratings.value
    given -= np.nanmean(given, axis=0)
    return float(np.nanmean(np.abs(given[left] - given[right])))


def test_friends_are_alike_and_as_many_as_asked() -> None:
    params = SyntheticParams(mean_friends=8)
    ratings = generate(params)
    assert ratings.friends is not None
    counts = np.diff(ratings.friends.start)
    # Poisson: mean 8, variance 8, here of 600 users.
    assert 7.5 < counts.mean() < 8.5
    assert 6 < counts.var() < 10
    rng = np.random.default_rng(0)
    left, right = ratings.friends.users, ratings.friends.friend
    near, far = agreement(ratings, left, right), agreement(ratings, left, rng.permutation(right))
    assert near < far - 0.03


def test_friends_do_not_change_ratings() -> None:
    plain, social = generate(SyntheticParams()), generate(SyntheticParams(mean_friends=3))
    assert plain.friends is None
    for name in ("user", "item", "value"):
        assert getattr(plain, name).tolist() == getattr(social, name).tolist()
    assert generate(SyntheticParams(mean_friends=3)).digest == social.digest != plain.digest
    other = generate(SyntheticParams(mean_friends=3, seed=1))
    assert social.friends is not None
    assert other.friends is not None
    assert other.friends.friend.tolist() != social.friends.friend.tolist()


def test_blocks_do_not_change_friends(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = generate(SyntheticParams(mean_friends=5))
    monkeypatch.setattr("dpaudit.data.synthetic._BLOCK_CELLS", 7 * 600)
    assert generate(SyntheticParams(mean_friends=5)).digest == whole.digest


def test_everybody_can_be_a_friend() -> None:
    params = SyntheticParams(n_users=4, mean_friends=3)
    friends = generate(params).friends
    assert friends is not None  # `Friends.build` refuses repeats and self-links
    assert np.diff(friends.start).max() <= 3
    assert load(DataSource(synthetic=params)).friends is not None
    assert load(DataSource(synthetic=params, binarize=4)).friends is not None
    assert generate(SyntheticParams(n_users=1)).friends is None
