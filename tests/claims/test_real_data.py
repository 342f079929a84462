"""Games on real ratings: the pairs are genuine neighbours, and the truths are exact."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpaudit.bounds.frequentist.labels import label_epsilon
from dpaudit.claims import real_data
from dpaudit.claims.catalogue import catalogue, chosen
from dpaudit.claims.games import PredictionGame, StepsGame
from dpaudit.claims.real_data import on_real_data
from dpaudit.claims.record import Check
from dpaudit.claims.wang_tang_2017.data import one_rating
from dpaudit.claims.wang_tang_2017.games import one_step_epsilon
from dpaudit.core.errors import DataError
from dpaudit.core.streams import Streams
from dpaudit.data.neighbors import RatingReplaced, apply
from dpaudit.data.ratings import STARS, Ratings
from dpaudit.data.readers.load import load
from dpaudit.data.source import DataSource
from dpaudit.data.source_parts import SyntheticParams
from dpaudit.data.synthetic import generate
from dpaudit.defenses.base import PredictionPair
from dpaudit.defenses.item_item.recommender import ItemItem
from dpaudit.defenses.neighborhood.sgd import SgdSimilarity, shortfalls

# The entries on recommenders without training; the others have separate tests.
IDS = {
    "pa11-thm3.1-threshold": "rating-add-remove",
    "pa11-s3.4-joint": "rating-replace",
    "pa11-thm3.2": "rating-add-remove",
}


def written(path: Path, ratings: Ratings) -> DataSource:
    """Write the ratings as a file of MovieLens-100K."""
    rows = zip(ratings.user, ratings.item, ratings.value, strict=True)
    text = "".join(f"{user + 1}\t{item + 1}\t{int(value)}\t0\n" for user, item, value in rows)
    path.write_text(text, encoding="utf-8")
    return DataSource.model_validate({"format": "movielens-100k", "path": str(path)})


def some(users: int = 150, per_user: int = 35) -> Ratings:
    least = min(20, per_user)
    return generate(
        SyntheticParams(
            n_users=users, n_items=120, mean_per_user=per_user, minimum_per_user=least, seed=4
        )
    )


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> DataSource:
    return written(tmp_path_factory.mktemp("ratings") / "u.data", some())


def games_of(source: DataSource) -> list[tuple[str, PredictionGame]]:
    entries = [entry for entry in catalogue() if entry.id.startswith("pa11-")]
    games = []
    for id_, game in on_real_data({"mine": source}, entries):
        assert isinstance(game, PredictionGame)
        games.append((id_, game))
    return games


def shift(defense: ItemItem, pair: PredictionPair) -> float:
    items = list(pair.items)
    model = defense.prepare(pair.ratings)
    before = defense.exact(model, pair.ratings.profile(pair.target)).scores[items]
    after = defense.exact_after(model, pair.change, pair.target).scores[items]
    return float(abs(after - before).sum())


@pytest.mark.long
def test_the_games_are_of_entries_that_exist_and_published(source: DataSource) -> None:
    games = games_of(source)
    assert {id_ for id_, _ in games} == set(IDS)
    assert len({(id_, game.label) for id_, game in games}) == len(games) == 4
    for _, game in games:
        assert game.defense.variant == "published"
        assert game.label.startswith("mine")
        assert str(source.path) not in game.pair()


@pytest.mark.long
def test_the_pairs_are_genuine_neighbours(source: DataSource) -> None:
    for id_, game in games_of(source):
        pair = game.make_pair(game.defense)
        after = apply(pair.ratings, pair.change)
        assert pair.change.adjacency == IDS[id_] == game.defense.adjacency
        for ratings in (pair.ratings, after):
            profile = ratings.profile(pair.target)
            assert len(profile) >= 20
            assert not np.isin(pair.items, profile.items).any()
            assert np.isin(ratings.value, ratings.scale.values).all()
        assert len(pair.items) == (20 if isinstance(pair.change, RatingReplaced) else 1)
        if not isinstance(pair.change, RatingReplaced):
            assert pair.change.user != pair.target
            assert pair.change.item == pair.items[0]


@pytest.mark.long
def test_the_truth_of_a_game_is_the_shift_of_data_prepared_anew(source: DataSource) -> None:
    for _, game in games_of(source):
        pair, defense = game.make_pair(game.defense), game.defense
        after = apply(pair.ratings, pair.change)
        items = list(pair.items)
        one = defense.exact(
            defense.prepare(pair.ratings), pair.ratings.profile(pair.target)
        ).scores[items]
        two = defense.exact(defense.prepare(after), after.profile(pair.target)).scores[items]
        truth = game.run(2, 0).truth
        assert truth is not None
        expected = float(abs(two - one).sum()) / defense.noise_scale(pair.ratings.scale)
        assert truth.value == pytest.approx(expected, rel=1e-3)


@pytest.mark.long
def test_the_target_changes_an_extreme_rating_end_to_end(source: DataSource) -> None:
    game = next(game for id_, game in games_of(source) if id_ == "pa11-s3.4-joint")
    pair = game.make_pair(game.defense)
    n = len(pair.ratings.profile(pair.target))
    # Each of 20 predictions moves by 4/n; Δf = 0.4 at ε = ½.
    assert shift(game.defense, pair) == pytest.approx(20 * 4 / n, rel=1e-4)
    truth = game.run(2, 0).truth
    assert truth is not None
    assert truth.value == pytest.approx(0.5 * 20 * (4 / n) / 0.4, rel=1e-4)


def test_only_what_is_asked_for_is_run(source: DataSource) -> None:
    entries = [entry for entry in catalogue() if entry.id == "pa11-thm3.2"]
    assert [id_ for id_, _ in on_real_data({"mine": source}, entries)] == ["pa11-thm3.2"]
    assert on_real_data({"mine": source}, []) == []
    assert on_real_data({}, catalogue()) == []


@pytest.mark.long
def test_other_data_have_another_digest(source: DataSource, tmp_path: Path) -> None:
    other = written(tmp_path / "u.data", some(per_user=36))
    for (_, one), (_, two) in zip(games_of(source), games_of(other), strict=True):
        assert one.digest() != two.digest()
    assert [game.digest() for _, game in games_of(source)] == [
        game.digest() for _, game in games_of(source)
    ]


# Trained recommenders.

TRAINED = {
    "wt17-thm1-sensitivity": ["published", "corrected"],
    "wt17-alg1-weights": ["check"],
    "wt17-thm2": ["published"],
    "wt17-eq6": ["published"],
    "wt17-alg2-temperature": ["published", "corrected"],
}


def trained(source: DataSource, *ids: str) -> list[tuple[str, Any]]:
    return on_real_data({"mine": source}, chosen(ids or ["wt17"]))


@pytest.mark.long
def test_trained_recommenders_are_run_as_published_and_corrected(source: DataSource) -> None:
    experiment: dict[str, list[str]] = {}
    for id_, game in trained(source):
        role = "check" if isinstance(game, Check) else game.defense.variant
        experiment.setdefault(id_, []).append(role)
        assert game.label.startswith("mine")
        assert role != "corrected" or "corrected" in game.label
    assert experiment == TRAINED
    for id_ in TRAINED:
        assert {name for name, _ in trained(source, id_)} == {id_}


@pytest.mark.long
def test_neighbours_of_trained_recommenders_differ_in_one_user(source: DataSource) -> None:
    for id_, game in trained(source):
        if isinstance(game, Check):
            continue
        before, after = game.data.before, game.data.after
        assert game.data.public is before
        moved = [
            user
            for user in range(before.n_users)
            if not np.array_equal(before.profile(user).items, after.profile(user).items)
            or not np.array_equal(before.profile(user).values, after.profile(user).values)
        ]
        assert len(moved) == 1
        counts = np.diff(before.by_user.start)
        # Users with at most 20 ratings are left out, as in the paper.
        assert counts[counts > 0].min() > 20
        if isinstance(game, StepsGame):
            old, new = before.profile(moved[0]), after.profile(moved[0])
            assert np.array_equal(old.items, new.items)
            assert (old.values != new.values).sum() == 1
            assert abs(old.values - new.values).max() == 4
            assert chosen([id_])[0].adjacency == "rating-replace"
        else:
            assert chosen([id_])[0].adjacency == "user-replace"
            assert counts.max() <= game.defense.cap


def shift_by_hand(game: Any) -> float:
    """`‖G − G'‖_1/b` of the first published step, from the target user's ratings alone."""
    before, after = game.data.before, game.data.after
    means = np.array([before.value[before.item == i].mean(dtype=float) for i in range(120)])
    (user,) = {int(u) for u, a, b in zip(before.user, before.value, after.value, strict=True)
               if a != b}  # fmt: skip
    items = before.profile(user).items
    old, new = (data.profile(user).values - means[items] for data in (before, after))
    n, total = len(items) - 1, 0.0
    for row in range(n + 1):
        others = np.arange(n + 1) != row
        shifts = []
        for x in (old, new):
            error = float(np.clip(x[others].mean() - x[row], -2, 2))
            shifts.append(error * (x[others] - x[others].mean()) / (0.5 * n))
        total += float(abs(shifts[1] - shifts[0]).sum())
    # b = ΔF/ε = 2 · 2 · 4/10
    return total / 1.6


def test_the_law_of_one_step_is_the_target_own_shift(source: DataSource) -> None:
    (_, game), (_, corrected) = trained(source, "wt17-thm1-sensitivity")
    by_law = one_step_epsilon(game.defense, game.data)
    assert by_law.kind == "exact"
    assert by_law.value == pytest.approx(shift_by_hand(game), rel=1e-4)
    assert by_law.value > 5
    assert 0 < one_step_epsilon(corrected.defense, corrected.data).value <= 1
    worst = one_step_epsilon(SgdSimilarity(epsilon=1.0, steps=1, start=1 / 8, more_than=0),
                             one_rating(8))  # fmt: skip
    assert worst.value == pytest.approx(11, rel=1e-5)
    with pytest.raises(ValueError, match="one step on all ratings"):
        one_step_epsilon(SgdSimilarity(epsilon=1.0, steps=2), game.data)


def test_gradients_formed_once_score_as_those_formed_in_every_trial(source: DataSource) -> None:
    for _, game in trained(source, "wt17-thm1-sensitivity"):
        quick = game.run(40, 3)
        slow = StepsGame("slow", game.defense, game.data).run(40, 3)
        assert np.array_equal(quick.absent, slow.absent)
        assert np.array_equal(quick.present, slow.present)
        assert np.ptp(quick.absent) > 0


def test_large_data_are_run_in_fewer_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    ratings = some()
    (_, game), _ = real_data.trained_games(ratings, "mine", {"wt17-thm1-sensitivity"}, 0)
    assert isinstance(game, StepsGame)
    assert game.trials == 10_000
    monkeypatch.setattr(real_data, "_PAIRS", 1e3)
    (_, game), _ = real_data.trained_games(ratings, "mine", {"wt17-thm1-sensitivity"}, 0)
    assert isinstance(game, StepsGame)
    assert game.trials == 1000


def test_weights_are_checked_where_somebody_can_be_short() -> None:
    ids = {"wt17-alg1-weights"}
    (_, check), = real_data.trained_games(some(), "mine", ids, 0)  # fmt: skip
    assert isinstance(check, Check)
    assert check.label == "mine, C = 15"
    counterexample = check.counterexample(0)
    assert counterexample is not None
    counts = np.diff(some().by_user.start)
    short = counts[(counts > 20) & (counts <= 30)].sum()
    assert f"step 1: {short} of {counts[counts > 20].sum()} predictions" in counterexample
    active = Ratings.build(*_many(), 2, 40, some().scale)
    assert not list(real_data.trained_games(active, "mine", ids, 0))


def _many() -> tuple[Any, Any, Any]:
    """Two users with 40 ratings."""
    return np.repeat([0, 1], 40), np.tile(np.arange(40), 2), np.full(80, 3.0)


# What cannot be used.


def test_purchases_are_refused(source: DataSource) -> None:
    with pytest.raises(DataError, match=r"mine has purchases and not ratings"):
        on_real_data({"mine": source.model_copy(update={"binarize": 1.0})}, catalogue())


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    source = DataSource.model_validate(
        {"format": "movielens-100k", "path": str(tmp_path / "none.data")}
    )
    with pytest.raises(DataError, match=r"none\.data"):
        on_real_data({"mine": source}, catalogue())


@pytest.mark.cases(
    ("users", "per_user", "paper"), [(3, 25, "pa11"), (30, 8, "wt17"), (2, 21, "wt17-thm2")]
)
def test_too_little_data_are_said_to_be_too_little(
    users: int, per_user: int, paper: str, tmp_path: Path
) -> None:
    source = written(tmp_path / "u.data", some(users, per_user))
    with pytest.raises(DataError, match=r"use more data|lower the number"):
        on_real_data({"mine": source}, chosen([paper]))


# Real ratings.


@pytest.fixture(scope="module")
def movielens(real_data: Path) -> DataSource:
    path = real_data / "ml-100k" / "u.data"
    if not path.is_file():
        pytest.skip("MovieLens-100K is not there")
    return DataSource.model_validate({"format": "movielens-100k", "path": str(path)})


@pytest.mark.long
def test_a_rating_of_movielens_crosses_the_threshold(movielens: DataSource) -> None:
    entries = [entry for entry in catalogue() if entry.id == "pa11-thm3.1-threshold"]
    for _, game in on_real_data({"MovieLens": movielens}, entries):
        assert isinstance(game, PredictionGame)
        truth = game.run(2, 0).truth
        assert truth is not None
        assert math.isfinite(truth.value)
        assert truth.value > 1.1 * game.claimed()[0]


def test_a_rating_of_movielens_has_the_reasons_numbers(movielens: DataSource) -> None:
    (_, game), (_, corrected) = trained(movielens, "wt17-thm1-sensitivity")
    one = one_step_epsilon(game.defense, game.data).value
    # The first of ten steps has ten times the noise.
    assert one == pytest.approx(14.23, abs=0.005)
    tenth = game.defense.noise_scale(1, STARS, 1682) / replace(game.defense, steps=10).noise_scale(
        1, STARS, 1682
    )
    assert one * tenth == pytest.approx(1.423, abs=5e-4)
    because = chosen(["wt17-thm1-sensitivity"])[0].because
    assert "14.2 times" in because
    assert "1.42 times" in because
    assert one_step_epsilon(corrected.defense, corrected.data).value < 1


@pytest.mark.long
def test_some_predictions_of_movielens_have_small_weights(movielens: DataSource) -> None:
    ratings = load(movielens)
    defense = SgdSimilarity(epsilon=1.0, steps=1, start=0.05, weight=15.0)
    first, _ = shortfalls(defense, defense.prepare(ratings), Streams.first(0, "x", 1))
    assert (first.below.tolist(), first.of) == ([4511], 99360)
    because = chosen(["wt17-alg1-weights"])[0].because
    assert "4511 of 99 360 predictions (4.5 %)" in because
    counts = np.diff(ratings.by_user.start)
    assert counts[(counts > 20) & (counts <= 30)].sum() == 4511


@pytest.mark.long
def test_no_record_of_movielens_is_one_that_the_theorem_removes(movielens: DataSource) -> None:
    ratings = load(movielens)
    counts = np.bincount(ratings.item, minlength=ratings.n_items)
    means = np.bincount(ratings.item, ratings.value, ratings.n_items) / np.maximum(counts, 1)
    pairs, largest = 0, 0.0
    for user in range(ratings.n_users):
        profile = ratings.profile(user)
        if len(profile) > 20:
            x = profile.values - means[profile.items]
            # Every prediction at equal similarities, against every rating that enters it.
            away = abs(x - (x.sum() - x[:, None]) / (len(x) - 1))
            np.fill_diagonal(away, 0)
            pairs, largest = pairs + away.size - len(x), max(largest, away.max())
    assert (pairs, round(largest, 3)) == (20_088_652, 3.992)


@pytest.mark.long
def test_a_low_temperature_shows_a_user_of_movielens(movielens: DataSource) -> None:
    (_, hot), (_, corrected) = trained(movielens, "wt17-alg2-temperature")
    for game, refuted in ((hot, True), (corrected, False)):
        seen = game.run(3000, 1)
        assert seen.truth is not None
        _, test = label_epsilon(seen.absent, seen.present, alpha=1e-3, seed=1)
        assert (test.p_value(game.claimed()[0], 0.0, 1e-3) <= 1e-3) == refuted
        assert (seen.truth.lower > 35) == refuted
        assert (seen.truth.upper < 0.05) != refuted
