"""Cross-validation: partitions, published test files, caps."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpaudit.core.errors import ConfigError, DataError
from dpaudit.core.memory import VARIABLE
from dpaudit.data import DataSource, RatingReplaced, Ratings, Scale, apply, load
from dpaudit.data.folds import Fold, active, capped, files_folds, random_folds
from dpaudit.data.neighbors import RatingRemoved
from dpaudit.data.ratings import from_profiles

quick = settings(deadline=None, max_examples=40, derandomize=True)
Triples = set[tuple[int, int, float]]


def triples(user: Any, item: Any, value: Any) -> Triples:
    rows = zip(user.tolist(), item.tolist(), value.tolist(), strict=True)
    entries = list(rows)
    assert len(set(entries)) == len(entries)
    return set(entries)


def rated(ratings: Ratings) -> Triples:
    return triples(ratings.user, ratings.item, ratings.value)


def held_out(fold: Fold) -> Triples:
    return triples(fold.users, fold.items, fold.values)


@st.composite
def data(draw: st.DrawFn) -> Ratings:
    n_users, n_items = draw(st.integers(1, 6)), draw(st.integers(1, 8))
    pairs = draw(
        st.sets(
            st.tuples(st.integers(0, n_users - 1), st.integers(0, n_items - 1)),
            min_size=2 if n_users * n_items > 1 else 1,
        )
    )
    user, item = (np.array(column) for column in zip(*sorted(pairs), strict=True))
    value = np.array(draw(st.lists(st.integers(1, 5), min_size=len(pairs), max_size=len(pairs))))
    return Ratings.build(user, item, value.astype(float), n_users, n_items, Scale())


def dense(n_users: int, n_items: int) -> Ratings:
    profiles = [
        [(item, 1.0 + (user + item) % 5) for item in range(n_items)] for user in range(n_users)
    ]
    return from_profiles(profiles, n_items, Scale())


# --- random folds


@quick
@given(data(), st.integers(2, 6), st.integers(0, 2**40))
def test_random_folds_partition_the_ratings(ratings: Ratings, count: int, seed: int) -> None:
    if count > len(ratings):
        with pytest.raises(DataError, match=f"divided into {count} folds"):
            random_folds(ratings, count, seed)
        return
    folds = random_folds(ratings, count, seed)
    sizes = [len(fold.values) for fold in folds]
    assert len(folds) == count
    assert max(sizes) - min(sizes) <= 1
    assert sum(sizes) == len(ratings)
    assert set().union(*map(held_out, folds)) == rated(ratings)
    for fold in folds:
        assert rated(fold.train) == rated(ratings) - held_out(fold)
        assert (fold.train.n_users, fold.train.n_items) == (ratings.n_users, ratings.n_items)
        assert fold.train.scale == ratings.scale
        order = np.lexsort((fold.items, fold.users))
        np.testing.assert_array_equal(order, np.arange(len(order)))
        assert [fold.users.dtype.name, fold.values.dtype.name] == ["int32", "float32"]


def test_random_folds_depend_on_the_seed_alone() -> None:
    ratings = dense(10, 10)
    first, again, other = (random_folds(ratings, 3, seed) for seed in (1, 1, 2))
    assert [held_out(fold) for fold in first] == [held_out(fold) for fold in again]
    assert [held_out(fold) for fold in first] != [held_out(fold) for fold in other]


def test_the_first_folds_are_those_of_all() -> None:
    ratings = from_profiles([[(i, 1.0 + i % 5) for i in range(20)]] * 3, 20, Scale())
    for mine, theirs in zip(
        random_folds(ratings, 5, 1, first=2), random_folds(ratings, 5, 1)[:2], strict=True
    ):
        assert mine.train.digest == theirs.train.digest
        np.testing.assert_array_equal(mine.items, theirs.items)
    assert len(random_folds(ratings, 5, 1, first=9)) == 5


def test_folds_that_do_not_fit_the_memory_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    ratings = from_profiles([[(i, 1.0 + i % 5) for i in range(20)]] * 3, 20, Scale())
    monkeypatch.setenv(VARIABLE, "3000")
    with pytest.raises(
        ConfigError,
        match=r"folds would take 4.86 kB .*\(5\) .*\(60\), "
        r"and the limit is 3 kB \(DPAUDIT_MEMORY\): lower train.evaluate_folds",
    ):
        random_folds(ratings, 5, 1)
    assert len(random_folds(ratings, 5, 1, first=2)) == 2


def test_every_rating_is_as_likely_in_every_fold() -> None:
    # 300 seeds; each of 12 ratings is in fold 0 of 3 with probability 1/3. Deviation 5.5 sigma of a
    # binomial: false-failure rate 12 · 4e-8 < 1e-6. A partition without shuffling fails: 0 or 300.
    ratings = dense(3, 4)
    counts = np.zeros(12)
    for seed in range(300):
        fold = random_folds(ratings, 3, seed)[0]
        counts[fold.users * 4 + fold.items] += 1
    assert abs(counts - 100).max() < 5.5 * np.sqrt(300 * 2 / 9)
    assert 5.5 * np.sqrt(300 * 2 / 9) < 100


@pytest.mark.cases("count", [-1, 0, 1, 13])
def test_impossible_numbers_of_folds_are_refused(count: int) -> None:
    with pytest.raises(DataError, match="12 ratings cannot be divided"):
        random_folds(dense(3, 4), count, 0)


# --- caps


@quick
@given(data(), st.integers(1, 9), st.integers(0, 2**40))
def test_a_cap_keeps_part_of_each_profile(ratings: Ratings, cap: int, seed: int) -> None:
    kept = capped(ratings, cap, seed)
    assert rated(kept) <= rated(ratings)
    before, after = (np.diff(part.by_user.start) for part in (ratings, kept))
    np.testing.assert_array_equal(after, np.minimum(before, cap))
    assert (kept.n_users, kept.n_items) == (ratings.n_users, ratings.n_items)
    assert rated(capped(ratings, cap, seed)) == rated(kept)


@quick
@given(st.integers(0, 4), st.integers(0, 11), st.integers(1, 6), st.integers(0, 1000))
def test_one_rating_moves_at_most_one_kept_rating_of_its_own_user(
    user: int, item: int, cap: int, seed: int
) -> None:
    ratings = dense(5, 12)
    before = rated(capped(ratings, cap, seed))
    after = rated(capped(apply(ratings, RatingRemoved(user, item)), cap, seed))
    assert len(before - after) == len(after - before) <= 1
    assert {row[0] for row in before ^ after} <= {user}
    value = 6.0 - ratings.profile(user).values[item]
    if value != 3.0:
        changed = rated(capped(apply(ratings, RatingReplaced(user, item, value)), cap, seed))
        assert {row[:2] for row in changed} == {row[:2] for row in before}


def test_a_cap_chooses_uniformly_and_apart_for_each_user() -> None:
    # 1000 users keep 2 of 5 items: each of the 10 pairs has probability 1/10. Deviation 5.5 sigma:
    # false-failure rate 10 · 4e-8 < 1e-6. One choice for all users gives 1000 of one pair.
    kept = capped(dense(1000, 5), 2, seed=3)
    pairs = kept.item.reshape(-1, 2)
    counts = np.bincount(pairs[:, 0] * 5 + pairs[:, 1])
    counts = counts[counts > 0]
    assert len(counts) == 10
    assert abs(counts - 100).max() < 5.5 * np.sqrt(1000 * 0.09) < 900
    other = capped(dense(1000, 5), 2, seed=4)
    assert rated(other) != rated(kept)


def test_a_cap_below_one_is_refused() -> None:
    with pytest.raises(DataError, match="a cap of 0 ratings"):
        capped(dense(2, 2), 0, 1)


@quick
@given(data(), st.integers(0, 5))
def test_active_users_keep_all_and_the_others_nothing(ratings: Ratings, more_than: int) -> None:
    before = np.diff(ratings.by_user.start)
    if before.max() <= more_than:
        with pytest.raises(DataError, match=f"no user has more than {more_than} ratings"):
            active(ratings, more_than)
        return
    kept = active(ratings, more_than)
    np.testing.assert_array_equal(
        np.diff(kept.by_user.start), np.where(before > more_than, before, 0)
    )
    assert rated(kept) <= rated(ratings)


# --- published test files

ALL = "a\t10\t1\t9\na\t20\t2\t9\nb\t10\t3\t9\nc\t30\t5\t9\n"


def source(folder: Path, content: str = ALL) -> Ratings:
    path = folder / "u.data"
    path.write_text(content)
    return load(DataSource(format="movielens-100k", path=str(path)))


def file(folder: Path, content: str) -> Path:
    path = folder / "u1.test"
    path.write_text(content)
    return path


@pytest.mark.cases(
    "content",
    ["c\t30\t5\t9\na\t20\t2\t9\n", "\na\t20\t2.0\n c \t 30\t5", "c\t30\t5\tx\r\na\t20\t2\ty\r\n"],
)
def test_a_file_holds_the_test_ratings(tmp_path: Path, content: str) -> None:
    ratings = source(tmp_path)
    (fold,) = files_folds(ratings, [file(tmp_path, content)])
    assert held_out(fold) == {(0, 1, 2.0), (2, 2, 5.0)}
    assert fold.users.tolist() == [0, 2]
    assert rated(fold.train) == {(0, 0, 1.0), (1, 0, 3.0)}
    assert (fold.train.n_users, fold.train.n_items) == (3, 3)
    assert fold.train.user_ids is ratings.user_ids


def test_files_may_be_packed_and_overlap(tmp_path: Path) -> None:
    packed = tmp_path / "ua.test.gz"
    packed.write_bytes(gzip.compress(b"b\t10\t3\n"))
    folds = files_folds(source(tmp_path), [packed, file(tmp_path, "b\t10\t3\n")])
    assert [held_out(fold) for fold in folds] == [{(1, 0, 3.0)}] * 2


@pytest.mark.cases(
    ("content", "message"),
    [
        ("c\t30\t5\nd\t30\t5\n", r"u1\.test, line 2: .*there is no rating of this user: remove"),
        ("c\t30\t5\n\na\t40\t5\n", r"u1\.test, line 3: .*there is no rating of this item: remove"),
        ("b\t30\t5\n", r"u1\.test, line 1: .*has not rated the item: remove the line or give"),
        ("c\t30\t5\na\t10\t2\n", r"u1\.test, line 2: .*the rating differs"),
        ("c\t30\t5\nz\t10\t2\na\t10\t2\n", r"line 2: .*no rating of this user"),
        ("c\t30\t5\na\t10\n", r"u1\.test, line 2: .*the 3 fields"),
        ("c\t30\t5\na\t10\tx\n", r"u1\.test, line 2, column 2 .*'x' is not a finite number"),
        ("c\t30\t5\na\t10\t7\n", r"u1\.test, line 2, .*outside the scale 1\.\.5"),
        ("c\t30\t5\nc\t30\t5\n", r"u1\.test: 1 .* repeated .*line 1 and line 2"),
        ("c 30 5\n", r"u1\.test: the delimiter '\\t' does not split"),
        ("", r"u1\.test is empty"),
    ],
)
def test_faulty_files_are_named_with_line_and_remedy(
    tmp_path: Path, content: str, message: str
) -> None:
    ratings = source(tmp_path)
    with pytest.raises(DataError, match=message):
        files_folds(ratings, [file(tmp_path, content)])


def test_absent_files_and_ratings_without_ids_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="does not exist"):
        files_folds(source(tmp_path), [tmp_path / "none"])
    with pytest.raises(DataError, match="ids, which the ratings lack"):
        files_folds(dense(2, 2), [file(tmp_path, "a\t10\t1\n")])


@pytest.mark.long
def test_the_published_files_partition_movielens_100k(real_data: Path) -> None:
    folder = real_data / "ml-100k"
    if not (folder / "u5.test").is_file():
        pytest.skip("there is no ml-100k/u5.test in DPAUDIT_DATA")
    ratings = load(DataSource(format="movielens-100k", path=str(folder / "u.data")))
    folds = files_folds(ratings, [folder / f"u{number}.test" for number in range(1, 6)])
    assert [len(fold.values) for fold in folds] == [20_000] * 5
    assert set().union(*map(held_out, folds)) == rated(ratings)
    assert all(len(fold.train) == 80_000 for fold in folds)
    # The first line of u1.test: user 1, item 6, rating 5.
    assert (0, 5, 5.0) in held_out(folds[0])
