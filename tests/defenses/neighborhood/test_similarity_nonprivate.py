"""Neighbourhood models without privacy against references written with numpy alone."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from pydantic import ValidationError

from dpaudit.core.errors import ConfigError, DataError, InputError
from dpaudit.core.streams import Streams
from dpaudit.data import DataSource, Ratings, Scale, load
from dpaudit.data.folds import files_folds
from dpaudit.data.ratings import from_profiles
from dpaudit.defenses.neighborhood.similarity import Neighborhood, item_means
from dpaudit.kernels import neighborhood as kernels

STARS = Scale()
TRIALS = Streams.first(1, "test", 3)
Matrix = NDArray[np.float64]
quick = settings(deadline=None, max_examples=60, derandomize=True)


def drawn(seed: int, n_users: int = 12, n_items: int = 9, share: float = 0.5) -> Ratings:
    """Random ratings; item 0 and user 0 have none."""
    source = np.random.default_rng(seed)
    rated = source.random((n_users, n_items)) < share
    rated[0] = rated[:, 0] = False
    rated[1, 1] = True
    user, item = np.nonzero(rated)
    value = source.integers(1, 6, len(user)).astype(float)
    return Ratings.build(user, item, value, n_users, n_items, STARS)


def table(ratings: Ratings) -> Matrix:
    """NaN where unrated."""
    full = np.full((ratings.n_users, ratings.n_items), np.nan)
    full[ratings.user, ratings.item] = ratings.value
    return full


def reference_similarity(full: Matrix, kind: str, shrinkage: float = 0.0) -> Matrix:
    n_items = full.shape[1]
    result = np.zeros((n_items, n_items))
    for i in range(n_items):
        for j in range(n_items):
            both = ~np.isnan(full[:, i]) & ~np.isnan(full[:, j])
            if i == j or not both.any():
                continue
            a, b = full[both, i], full[both, j]
            if kind == "cosine":
                norms = np.sqrt(np.nansum(full[:, i] ** 2) * np.nansum(full[:, j] ** 2))
                value = a @ b / norms
            elif np.ptp(a) == 0 or np.ptp(b) == 0:
                value = 0.0
            else:
                value = np.corrcoef(a, b)[0, 1]
            result[i, j] = value * both.sum() / (both.sum() + shrinkage)
    return result


def reference_prediction(
    full: Matrix,
    similarity: Matrix,
    means: Matrix,
    user: int,
    item: int,
    neighbors: int,
    centred: bool = True,
) -> float:
    rated = [j for j in range(full.shape[1]) if not np.isnan(full[user, j]) and j != item]
    chosen = sorted(rated, key=lambda j: (-abs(similarity[item, j]), j))[:neighbors]
    top = sum(similarity[item, j] * (full[user, j] - centred * means[j]) for j in chosen)
    bottom = sum(abs(similarity[item, j]) for j in chosen)
    guess = centred * means[item] + top / bottom if bottom else means[item]
    return float(np.clip(guess, 1, 5))


def every_pair(ratings: Ratings) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    users, items = np.indices((ratings.n_users, ratings.n_items), np.int32)
    return users.ravel(), items.ravel()


def predictions(ratings: Ratings, **parameters: Any) -> NDArray[np.float32]:
    defense = Neighborhood(**parameters)
    model = defense.train(defense.prepare(ratings), TRIALS)
    return model.predict(*every_pair(ratings))


# --- similarities


@pytest.mark.cases("kind", ["pearson", "cosine"])
@pytest.mark.cases("shrinkage", [0.0, 3.0])
@pytest.mark.cases("seed", range(4))
def test_similarities_equal_the_definition(kind: Any, shrinkage: float, seed: int) -> None:
    ratings = drawn(seed)
    similarity = Neighborhood(similarity=kind, shrinkage=shrinkage).prepare(ratings).similarity
    expected = reference_similarity(table(ratings), kind, shrinkage)
    assert similarity.dtype == np.float32
    np.testing.assert_allclose(similarity, expected, atol=2e-7)
    np.testing.assert_array_equal(similarity, similarity.T)
    assert not similarity[0].any()
    assert np.abs(expected).max() > 0.2


def test_pearson_is_scipys_where_the_scale_has_no_exact_steps() -> None:
    from scipy import stats

    source = np.random.default_rng(5)
    value = source.uniform(0.1, 0.7, (40, 2)).astype(np.float32)
    user, item = np.indices(value.shape)
    scale = Scale(0.1, 0.7, 0.1)
    ratings = Ratings.build(user.ravel(), item.ravel(), value.ravel(), 40, 2, scale)
    similarity = Neighborhood(similarity="pearson").prepare(ratings).similarity[0, 1]
    assert similarity == pytest.approx(stats.pearsonr(*value.astype(float).T).statistic, abs=1e-6)


@pytest.mark.cases("level", [0.1, 0.3, 0.7])
def test_equal_ratings_have_no_correlation_though_rounding_leaves_a_variance(level: float) -> None:
    # Sums of 0.1 and 0.3 are not exact: n Σa² − (Σa)² is rarely 0.
    profiles = [[(0, level), (1, 0.1 if user % 2 else 0.7)] for user in range(31)]
    ratings = from_profiles(profiles, 2, Scale(0.1, 0.7, 0.1))
    prepared = Neighborhood(similarity="pearson").prepare(ratings)
    assert prepared.similarity.tolist() == [[0, 0], [0, 0]]


def test_one_deviating_rating_among_many_is_a_variance() -> None:
    # The least variance that ratings on a scale can have: one of 20000 differs, by one step.
    profiles = [[(0, 3.0), (1, 2.0)]] * 19_999 + [[(0, 4.0), (1, 3.0)]]
    prepared = Neighborhood(similarity="pearson").prepare(from_profiles(profiles, 2, STARS))
    assert prepared.similarity[0, 1] == pytest.approx(1.0, abs=1e-6)


def test_the_cosine_is_that_of_whole_columns() -> None:
    # Items 0 and 1 share user 0 alone: over co-raters the cosine would be 1.
    ratings = from_profiles([[(0, 3.0), (1, 4.0)], [(0, 4.0)], [(1, 3.0)]], 2, STARS)
    similarity = Neighborhood(similarity="cosine").prepare(ratings).similarity
    assert similarity[0, 1] == pytest.approx(3 * 4 / (5 * 5))


def test_item_means_fall_back_to_the_mean_of_all_ratings() -> None:
    ratings = from_profiles([[(0, 1.0), (1, 4.0)], [(0, 2.0)]], 3, STARS)
    assert item_means(ratings).tolist() == pytest.approx([1.5, 4.0, 7 / 3])


# --- predictions


@pytest.mark.cases(("kind", "centred"), [("pearson", True), ("cosine", True), ("cosine", False)])
@pytest.mark.cases("neighbors", [1, 2, 3, 900])
def test_predictions_equal_equation_2(kind: Any, centred: bool, neighbors: int) -> None:
    ratings = drawn(7)
    predicted = predictions(ratings, similarity=kind, neighbors=neighbors, centred=centred)
    full = table(ratings)
    # The kernel's own float32 similarities decide ties.
    similarity = Neighborhood(similarity=kind).prepare(ratings).similarity.astype(float)
    means = item_means(ratings).astype(float)
    expected = [
        reference_prediction(full, similarity, means, user, item, neighbors, centred)
        for user, item in zip(*every_pair(ratings), strict=True)
    ]
    assert predicted.shape == (3, len(expected))
    assert predicted.dtype == np.float32
    np.testing.assert_allclose(predicted, [expected] * 3, atol=1e-5)
    # One neighbour gives raw ratings alone.
    assert np.unique(np.round(expected, 3)).size > (20 if centred else 4)


@quick
@given(st.integers(0, 10_000), st.integers(1, 8), st.floats(0.0, 1.0))
def test_any_matrix_predicts_by_its_rows_and_absolute_values(
    seed: int, neighbors: int, zeros: float
) -> None:
    ratings = drawn(seed, n_users=6, n_items=7, share=0.8)
    source = np.random.default_rng(seed)
    # Few levels, so that ties are frequent; not symmetric; a diagonal that must not be read.
    similarity = source.choice([-1.0, -0.5, 0.5, 2.0], (7, 7)).astype(np.float32)
    similarity[source.random((7, 7)) < zeros] = 0
    np.fill_diagonal(similarity, 100)
    means = item_means(ratings)
    users, items = every_pair(ratings)
    shuffled = source.permutation(len(users))
    users, items = users[shuffled], items[shuffled]
    predicted = kernels.predict(
        users, items, ratings.by_user, similarity, means, True, neighbors, 1.0, 5.0
    )
    expected = [
        reference_prediction(
            table(ratings), similarity.astype(float), means.astype(float), user, item, neighbors
        )
        for user, item in zip(users, items, strict=True)
    ]
    np.testing.assert_allclose(predicted, expected, atol=1e-5)


def test_of_equal_neighbours_those_of_the_lowest_index_count() -> None:
    ratings = from_profiles([[(1, 5.0), (2, 1.0), (3, 3.0)], [(1, 1.0), (2, 5.0)]], 4, STARS)
    similarity = np.zeros((4, 4), np.float32)
    similarity[0] = [0, -0.5, 0.5, 0.25]
    means = np.full(4, 3.0, np.float32)

    def predicted(neighbors: int) -> float:
        pair = np.zeros(1, np.int32), np.zeros(1, np.int32)
        values = kernels.predict(
            *pair, ratings.by_user, similarity, means, True, neighbors, -9.0, 9.0
        )
        return float(values[0])

    # Deviations 2, −2, 0 with weights −.5, .5, .25.
    assert predicted(1) == pytest.approx(3 - 2)
    assert predicted(2) == pytest.approx(3 - 2)
    assert predicted(3) == pytest.approx(3 - 2 / 1.25)


def test_a_nan_similarity_is_seen_in_the_prediction() -> None:
    ratings = from_profiles([[(1, 5.0), (2, 1.0), (3, 3.0)]], 4, STARS)
    similarity = np.ones((4, 4), np.float32)
    similarity[0, 2] = np.nan
    pair = np.zeros(1, np.int32), np.zeros(1, np.int32)
    for neighbors in (1, 2, 9):
        predicted = kernels.predict(
            *pair, ratings.by_user, similarity, item_means(ratings), True, neighbors, 1.0, 5.0
        )
        assert math.isnan(predicted[0])


@pytest.mark.parametrize("centred", [True, False])
def test_users_and_items_without_ratings_get_means(centred: bool) -> None:
    ratings = drawn(11)
    predicted = predictions(ratings, centred=centred)[0].reshape(ratings.n_users, ratings.n_items)
    full = table(ratings)
    np.testing.assert_allclose(predicted[:, 0], np.nanmean(full), atol=1e-6)
    np.testing.assert_allclose(predicted[0, 1:], np.nanmean(full[:, 1:], axis=0), atol=1e-6)


def test_predictions_are_clipped_to_the_scale() -> None:
    profiles = [[(0, 5.0), (1, 5.0)], [(0, 4.0), (1, 1.0)], [(0, 4.0), (1, 1.0)], [(1, 5.0)]]
    ratings = from_profiles(profiles, 2, STARS)
    # r̄_0 = 13/3, r_31 − r̄_1 = 2: 6.3 without clipping.
    assert predictions(ratings)[0, 3 * 2] == 5.0


def test_public_data_decide_the_means_alone() -> None:
    ratings, public = drawn(1), drawn(2)
    both = Neighborhood().prepare(ratings, public)
    np.testing.assert_array_equal(both.means, item_means(public))
    np.testing.assert_array_equal(both.similarity, Neighborhood().prepare(ratings).similarity)


def test_trials_share_one_array_and_epsilon_changes_nothing() -> None:
    ratings = drawn(3)
    predicted = predictions(ratings)
    assert predicted.strides[0] == 0
    np.testing.assert_array_equal(predicted, predictions(ratings, epsilon=0.5))


# --- what is refused


def test_it_claims_nothing() -> None:
    assert Neighborhood().claim() is None  # type: ignore[func-returns-value]
    assert Neighborhood().variant == "nonprivate"


@pytest.mark.cases(
    ("parameters", "message"),
    [
        ({"variant": "published"}, "variant 'published' does not exist: the model adds no noise"),
        ({"variant": "corrected"}, "variant 'corrected' does not exist"),
        ({"epsilon": 2e6}, "above 1e6"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": math.nan}, "epsilon"),
        ({"similarity": "jaccard"}, "similarity"),
        ({"neighbors": 0}, "neighbors"),
        ({"shrinkage": -1.0}, "shrinkage"),
        ({"shrinkage": math.nan}, "shrinkage"),
        ({"neighbours": 3}, "neighbours"),
        ({"similarity": "pearson", "centred": False}, "'pearson' may be negative"),
    ],
)
def test_bad_parameters_are_refused(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Neighborhood(**parameters)


def test_data_that_cannot_be_used_are_refused() -> None:
    none = Ratings.build(*(np.zeros(0, int),) * 2, np.zeros(0), 2, 2, STARS)
    with pytest.raises(ConfigError, match="there are no ratings"):
        Neighborhood().prepare(none)
    with pytest.raises(DataError, match="binarize"):
        Neighborhood().prepare(from_profiles([[(0, 1.0)]], 1, Scale(1, 1, 1)))


def test_pairs_that_do_not_exist_are_refused() -> None:
    ratings = drawn(1)
    model = Neighborhood().train(Neighborhood().prepare(ratings), TRIALS)
    one, far = np.ones(1, np.int32), np.full(1, 12, np.int32)
    for users, items, message in (
        (far, one, r"user 12 lies outside 0\.\.11"),
        (one, far, r"item 12 lies outside 0\.\.8"),
        (-one, one, "user -1 lies outside"),
        (one, np.ones(2, np.int32), "give one item for each user"),
    ):
        with pytest.raises(InputError, match=message):
            model.predict(users, items)
    none = np.zeros(0, np.int32)
    assert model.predict(none, none).shape == (3, 0)


# --- MovieLens-100K


def dense_errors(ratings: Ratings, similarity: Matrix, fold: Any, centred: bool) -> Matrix:
    """Eq. (2) with all neighbours, by matrix products."""
    full = table(ratings)
    means = item_means(ratings).astype(float)
    deviations = np.nan_to_num(full - centred * means)
    top, bottom = deviations @ similarity.T, (~np.isnan(full)).astype(float) @ abs(similarity).T
    mean = np.divide(top, bottom, out=np.zeros_like(top), where=bottom > 0)
    guess = np.where(bottom > 0, centred * means + mean, means)
    errors: Matrix = np.clip(guess, 1, 5)[fold.users, fold.items] - fold.values
    return errors


def root_mean_square(errors: Any) -> float:
    return float(np.sqrt(np.mean(np.square(errors, dtype=float))))


@pytest.mark.long
def test_movielens_100k(real_data: Path) -> None:
    folder = real_data / "ml-100k"
    if not (folder / "u5.test").is_file():
        pytest.skip("there is no ml-100k/u5.test in DPAUDIT_DATA")
    ratings = load(DataSource(format="movielens-100k", path=str(folder / "u.data")))
    folds = files_folds(ratings, [folder / f"u{number}.test" for number in range(1, 6)])
    by_mean = [item_means(fold.train)[fold.items] - fold.values for fold in folds]
    rmse = {"mean": np.mean([root_mean_square(errors) for errors in by_mean])}
    for label, defense in (
        ("pearson", Neighborhood(similarity="pearson")),
        ("cosine", Neighborhood(similarity="cosine")),
        ("cosine, raw", Neighborhood(similarity="cosine", centred=False)),
    ):
        differences = []
        for fold in folds:
            prepared = defense.prepare(fold.train)
            guess = defense.train(prepared, TRIALS).predict(fold.users, fold.items)[0]
            differences.append(guess - fold.values)
            if fold is folds[0]:
                dense = prepared.similarity.astype(float)
                errors = dense_errors(fold.train, dense, fold, defense.centred)
                np.testing.assert_allclose(differences[0], errors, atol=1e-5)
        rmse[label] = np.mean([root_mean_square(errors) for errors in differences])
    # Of the five files together; measured with an independent dense program, not published.
    assert rmse == pytest.approx(
        {"mean": 1.0246, "pearson": 0.9561, "cosine": 0.9363, "cosine, raw": 1.0168}, abs=1e-4
    )
