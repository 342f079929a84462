"""Predictions and releases of the item-item recommenders against Park & Acharya's equations."""

from __future__ import annotations

import math
import os
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dpaudit.core.claim import Variant
from dpaudit.core.errors import ConfigError, DataError
from dpaudit.core.releases import Predictions, SeesItems, SeesTop, TopList
from dpaudit.core.streams import Streams
from dpaudit.data import DataSource, load
from dpaudit.data.neighbors import (
    RatingAdded,
    RatingChange,
    RatingRemoved,
    RatingReplaced,
    apply,
    without,
)
from dpaudit.data.ratings import Ratings, Scale
from dpaudit.defenses.item_item.recommender import ItemItem
from dpaudit.defenses.item_item.similarities import Cosine, SlopeOne
from dpaudit.kernels import exact_noise

Table = list[dict[int, float]]
Matrix = NDArray[np.float64]

STARS, HALVES, PURCHASES = Scale(), Scale(0.5, 5, 0.5), Scale(1, 1, 1)
SLOPE_FORMS = ("cut", "shrunk", "damped")
COSINE_FORMS = ("plain", "damped")
FORMS = [("slope-one", form) for form in SLOPE_FORMS] + [("cosine", form) for form in COSINE_FORMS]


def defense(
    family: str, form: str, *, least: int = 1, phi: int = 2, beta: float = 3.0, top_k: int = 2
) -> ItemItem:
    values: dict[str, Any] = {
        "epsilon": 1.0,
        "variant": "corrected",
        "similarity": form,
        "min_ratings": least,
        "top_k": top_k,
    }
    if family == "cosine":
        return Cosine(**values, damping=beta)
    return SlopeOne(**values, min_co_ratings=phi)


def to_ratings(table: Table, n_items: int, scale: Scale) -> Ratings:
    rows = [(u, i, v) for u, row in enumerate(table) for i, v in row.items()]
    return Ratings.build(
        np.array([row[0] for row in rows], np.int64),
        np.array([row[1] for row in rows], np.int64),
        np.array([row[2] for row in rows], np.float64),
        len(table),
        n_items,
        scale,
    )


def similarity(
    table: Table, j: int, k: int, family: str, form: str, phi: int, beta: float
) -> float:
    """`s_jk` from eqs (3), (4), (7) and the two stated alternatives, user by user."""
    both = [row for row in table if j in row and k in row]
    m = len(both)
    if family == "cosine":
        a, b = (sum(item in row for row in table) for item in (j, k))
        extra = beta if form == "damped" else 0.0
        return m / math.sqrt((a + extra) * (b + extra)) if a and b else 0.0
    total = sum(row[j] - row[k] for row in both)
    if form == "cut":
        return total / m if m > phi else 0.0
    return total / (max(m, phi) if form == "shrunk" else m + phi)


def prediction(
    table: Table,
    profile: dict[int, float],
    j: int,
    scale: Scale,
    family: str,
    form: str,
    phi: int = 2,
    beta: float = 3.0,
) -> float:
    """`f_ij` of eqs (5) and (8)."""
    total = 0.0
    for k, r in profile.items():
        s = similarity(table, j, k, family, form, phi, beta)
        if family == "cosine":
            total += s
        elif form == "damped":
            total += min(max(r + s, scale.minimum), scale.maximum)
        else:
            total += r + s
    return total / len(profile)


def random_table(seed: int, users: int, items: int, scale: Scale) -> Table:
    rng = np.random.default_rng(seed)
    table: Table = []
    for _ in range(users):
        size = int(rng.integers(0, items))
        chosen = rng.permutation(items)[:size]
        table.append({int(i): float(rng.choice(scale.values)) for i in chosen})
    return table


@pytest.mark.cases(("family", "form"), FORMS)
@pytest.mark.cases("seed", [1, 2])
def test_predictions_equal_the_papers_equations(family: str, form: str, seed: int) -> None:
    scale = PURCHASES if family == "cosine" else (STARS, HALVES)[seed - 1]
    table = random_table(seed, 14, 9, scale)
    part = defense(family, form)
    ratings = to_ratings(table, 9, scale)
    model = part.prepare(ratings)
    compared = 0
    for user, row in enumerate(table):
        if not row:
            continue
        scores = part.exact(model, ratings.profile(user)).scores
        for j in range(9):
            if j in row:
                assert scores[j] == -np.inf
                continue
            expected = prediction(table, row, j, scale, family, form)
            assert scores[j] == pytest.approx(expected, abs=1e-5)
            compared += 1
    assert compared > 30


@pytest.mark.cases(("family", "form"), FORMS)
def test_held_out_prediction_uses_the_other_ratings(family: str, form: str) -> None:
    scale = PURCHASES if family == "cosine" else HALVES
    table = random_table(5, 12, 8, scale)
    part = defense(family, form)
    ratings = to_ratings(table, 8, scale)
    model = part.prepare(ratings)
    compared = 0
    for user, row in enumerate(table):
        for item in row if len(row) > 1 else ():
            profile = ratings.profile(user)
            exact = part.exact_held_out(model, profile, item)
            rest = {k: r for k, r in row.items() if k != item}
            # The similarity is that of the whole data set.
            assert exact == pytest.approx(
                prediction(table, rest, item, scale, family, form), abs=1e-5
            )
            again = part.exact(model, without(profile, item)).scores[item]
            assert exact == pytest.approx(float(again), abs=1e-5)
            compared += 1
    assert compared > 20


@pytest.mark.cases(("family", "form"), FORMS)
def test_held_out_user_equals_preparing_without_her(family: str, form: str) -> None:
    """A profile that is not in the data is predicted from the data alone."""
    scale = PURCHASES if family == "cosine" else STARS
    table = random_table(6, 12, 8, scale)
    part = defense(family, form)
    for user, row in enumerate(table):
        if not row:
            continue
        rest = [other if u != user else {} for u, other in enumerate(table)]
        profile = to_ratings(table, 8, scale).profile(user)
        scores = part.exact(part.prepare(to_ratings(rest, 8, scale)), profile).scores
        for j in set(range(8)) - set(row):
            assert scores[j] == pytest.approx(
                prediction(rest, row, j, scale, family, form), abs=1e-5
            )


@st.composite
def changed(draw: st.DrawFn, scale: Scale) -> tuple[Ratings, RatingChange]:
    """Small data and one rating's change, of user 0 (the target) or another."""
    n_items = draw(st.integers(2, 6))
    values = st.sampled_from([float(v) for v in scale.values])
    row = st.dictionaries(st.integers(0, n_items - 1), values, max_size=n_items)
    table = draw(st.lists(row, min_size=2, max_size=6))
    assume(table[0])
    user = draw(st.integers(0, len(table) - 1))
    item = draw(st.integers(0, n_items - 1))
    ratings = to_ratings(table, n_items, scale)
    change: RatingChange
    if item not in table[user]:
        change = RatingAdded(user, item, draw(values))
    else:
        others = [float(v) for v in scale.values if v != table[user][item]]
        replaced = draw(st.sampled_from([None, *others]))
        if replaced is not None:
            change = RatingReplaced(user, item, replaced)
        else:
            change = RatingRemoved(user, item)
    assume(not (user == 0 and isinstance(change, RatingRemoved) and len(table[0]) == 1))
    return ratings, change


def check_exact_after(part: ItemItem, ratings: Ratings, change: RatingChange) -> None:
    after = apply(ratings, change)
    for target in range(ratings.n_users):
        if not len(ratings.profile(target)) or not len(after.profile(target)):
            continue
        exact = part.exact_after(part.prepare(ratings), change, target)
        anew = part.exact(part.prepare(after), after.profile(target))
        np.testing.assert_allclose(exact.scores, anew.scores, atol=1e-5)
        np.testing.assert_array_equal(exact.candidates, anew.candidates)


@pytest.mark.long
@pytest.mark.parametrize("form", SLOPE_FORMS)
@pytest.mark.parametrize("phi", [1, 2])
@settings(derandomize=True, deadline=None, max_examples=50)
@given(st.one_of(changed(STARS), changed(HALVES)))
def test_exact_after_equals_preparing_anew_slope_one(
    form: str, phi: int, case: tuple[Ratings, RatingChange]
) -> None:
    check_exact_after(defense("slope-one", form, phi=phi), *case)


@pytest.mark.long
@pytest.mark.parametrize("form", COSINE_FORMS)
@settings(derandomize=True, deadline=None, max_examples=50)
@given(changed(PURCHASES))
def test_exact_after_equals_preparing_anew_cosine(
    form: str, case: tuple[Ratings, RatingChange]
) -> None:
    check_exact_after(defense("cosine", form), *case)


def some_data(seed: int = 7) -> tuple[Ratings, int]:
    table = random_table(seed, 14, 40, STARS)
    ratings = to_ratings(table, 40, STARS)
    user = next(u for u, row in enumerate(table) if 5 <= len(row) <= 25)
    return ratings, user


def sees_items(items: NDArray[np.int32], trials: int) -> SeesItems:
    return SeesItems(np.tile(items, (trials, 1)).astype(np.int32))


@pytest.mark.parametrize("variant", ["published", "corrected"])
def test_one_prediction_is_the_value_shown_in_the_list(variant: Variant) -> None:
    ratings, user = some_data()
    part = SlopeOne(epsilon=0.7, variant=variant, min_ratings=5, min_co_ratings=2)
    exact = part.exact(part.prepare(ratings), ratings.profile(user))
    streams = Streams.first(3, "x", 300)
    shown = part.release(exact, streams, SeesTop(4))
    assert isinstance(shown, TopList)
    single = part.release(exact, streams, SeesItems(shown.items))
    assert isinstance(single, Predictions)
    np.testing.assert_array_equal(single.values, shown.values)
    # The list holds the best items: no other item's value exceeds its last.
    every = part.release(exact, streams, sees_items(exact.candidates, 300))
    # Values lie on a grid, so the last may tie.
    better = (every.values > shown.values[:, -1:]).sum(1)
    assert (better <= 3).all()
    assert (better == 3).mean() > 0.9
    assert (np.diff(shown.values, axis=1) <= 0).all()
    assert not np.isin(shown.items, ratings.profile(user).items).any()


def test_noise_is_the_source_scaled_by_sensitivity_over_epsilon() -> None:
    ratings, user = some_data()
    for part in (
        SlopeOne(epsilon=0.25, min_ratings=5, min_co_ratings=2),
        SlopeOne(epsilon=8, variant="corrected", min_ratings=5, min_co_ratings=2),
    ):
        exact = part.exact(part.prepare(ratings), ratings.profile(user))
        streams = Streams(np.array([1, 2], np.uint32), np.array([9, 2**32, 4]))
        items = exact.candidates
        draws = np.empty((3, 40))
        exact_noise.laplace(draws, streams.trials, 0, streams.key)
        scale = part.sensitivity(STARS) / part.epsilon
        assert part.noise_scale(STARS) == pytest.approx(scale)
        expected = exact.scores[items] + scale * draws[:, items]
        values = part.release(exact, streams, sees_items(items, 3)).values
        # Rounded to the nearest multiple of the power of two in (b/1024, b/512].
        grid = 2.0 ** np.floor(np.log2(scale / 512))
        assert scale / 1024 < grid <= scale / 512
        np.testing.assert_array_equal(values, np.rint(values / grid) * grid)
        assert (abs(values - expected) <= grid / 2 + 1e-5).all()
        assert (abs(values - expected) > grid / 4).any()
        assert (abs(values - exact.scores[items]) > 1e-3 * scale).all()


@pytest.mark.parametrize("epsilon", [1.0, math.inf])
def test_no_noise_where_none_is_claimed(epsilon: float) -> None:
    ratings, user = some_data()
    part = SlopeOne(epsilon=epsilon, variant="nonprivate", min_ratings=5, min_co_ratings=2)
    exact = part.exact(part.prepare(ratings), ratings.profile(user))
    items = exact.candidates
    values = part.release(exact, Streams.first(0, "x", 5), sees_items(items, 5)).values
    np.testing.assert_array_equal(values, np.tile(exact.scores[items], (5, 1)))
    best = part.release(exact, Streams.first(0, "x", 5), SeesTop(3)).items
    expected = np.argsort(-exact.scores, kind="stable")[:3]
    np.testing.assert_array_equal(best, np.tile(expected, (5, 1)))
    assert part.noise_scale(STARS) == 0


def test_a_user_below_the_minimum_gets_nothing() -> None:
    ratings, user = some_data()
    size = len(ratings.profile(user))
    part = SlopeOne(epsilon=1, min_ratings=size, min_co_ratings=2)
    model = part.prepare(ratings)
    assert len(part.exact(model, ratings.profile(user)).scores) == 40
    with pytest.raises(DataError, match="min_ratings"):
        replace(part, min_ratings=size + 1).exact(model, ratings.profile(user))


def test_a_list_longer_than_the_unrated_items_is_refused() -> None:
    ratings, user = some_data()
    part = SlopeOne(epsilon=1, min_ratings=5)
    exact = part.exact(part.prepare(ratings), ratings.profile(user))
    free = len(exact.candidates)
    assert part.release(exact, Streams.first(0, "x", 2), SeesTop(free)).items.min() >= 0
    with pytest.raises(ConfigError, match="top_k"):
        part.release(exact, Streams.first(0, "x", 2), SeesTop(free + 1))


def test_scales_that_do_not_fit_are_refused() -> None:
    stars, purchases = to_ratings([{0: 3.0}], 2, STARS), to_ratings([{0: 1.0}], 2, PURCHASES)
    with pytest.raises(DataError, match="binarize"):
        Cosine(epsilon=1).prepare(stars)
    with pytest.raises(DataError, match="binarize"):
        SlopeOne(epsilon=1).prepare(purchases)


# MovieLens-100K, if it is available.

DATA = os.environ.get("DPAUDIT_DATA")
needs_data = pytest.mark.skipif(DATA is None, reason="DPAUDIT_DATA names no folder of data sets")


@cache
def movielens(family: str) -> Ratings:
    source = {"format": "movielens-100k", "path": str(Path(str(DATA)) / "ml-100k" / "u.data")}
    if family == "cosine":
        source["binarize"] = "1"
    return load(DataSource.model_validate(source))


def dense_scores(
    values: Matrix, user: int, family: str, form: str, phi: int, beta: float
) -> Matrix:
    """All predictions of one user from the dense matrix, 0 meaning unrated; eqs (3)-(8)."""
    rated = (values > 0).astype(np.float64)
    mine = np.flatnonzero(values[user])
    count = rated.T @ rated[:, mine]
    if family == "cosine":
        degree, extra = rated.sum(0), beta if form == "damped" else 0.0
        product = np.outer(degree + extra, degree[mine] + extra)
        sums: Matrix = (count / np.sqrt(np.maximum(product, 1e-9))).sum(1)
        return sums / len(mine)
    total = values.T @ rated[:, mine] - rated.T @ values[:, mine]
    if form == "cut":
        table = np.where(count > phi, total / np.maximum(count, 1), 0)
    else:
        table = total / (np.maximum(count, phi) if form == "shrunk" else count + phi)
    terms = values[user, mine] + table
    means: Matrix = (np.clip(terms, 1, 5) if form == "damped" else terms).mean(1)
    return means


@pytest.mark.long
@needs_data
@pytest.mark.parametrize(("family", "form"), FORMS)
def test_movielens_predictions_equal_the_papers_equations(family: str, form: str) -> None:
    ratings = movielens(family)
    assert (ratings.n_users, ratings.n_items, len(ratings)) == (943, 1682, 100_000)
    values = np.zeros((ratings.n_users, ratings.n_items))
    values[ratings.user, ratings.item] = ratings.value
    part = defense(family, form, least=20, phi=10, beta=10.0)
    model = part.prepare(ratings)
    for user in (0, 121, 404, 942):
        expected = dense_scores(values, user, family, form, 10, 10.0)
        scores = part.exact(model, ratings.profile(user)).scores
        free = values[user] == 0
        np.testing.assert_allclose(scores[free], expected[free], atol=1e-5)
        assert np.isneginf(scores[~free]).all()


@needs_data
@pytest.mark.cases(("family", "form"), FORMS)
def test_movielens_exact_after(family: str, form: str) -> None:
    ratings = movielens(family)
    part = defense(family, form, least=20, phi=10, beta=10.0)
    model = part.prepare(ratings)
    target, other = 0, 404
    free = np.setdiff1d(
        np.arange(1682), np.union1d(ratings.profile(target).items, ratings.profile(other).items)
    )
    mine = int(ratings.profile(target).items[3])
    for change in (
        RatingAdded(other, int(free[10]), 1.0),
        RatingRemoved(other, int(ratings.profile(other).items[7])),
        RatingRemoved(target, mine),
        RatingAdded(target, int(free[20]), 1.0),
    ):
        after = apply(ratings, change)
        expected = part.exact(part.prepare(after), after.profile(target)).scores
        scores = part.exact_after(model, change, target).scores
        np.testing.assert_allclose(scores, expected, atol=1e-5)
