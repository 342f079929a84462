"""Neighbours that a search finds in ratings: genuine, and worse than random ones."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from dpaudit.claims.catalogue import CATALOGUE
from dpaudit.claims.games import PredictionGame
from dpaudit.claims.real_data import on_real_data
from dpaudit.data.neighbors import RatingReplaced, adjacency_of, apply
from dpaudit.data.ratings import Ratings
from dpaudit.data.source import DataSource, SyntheticParams
from dpaudit.data.synthetic import generate
from dpaudit.defenses.base import WorldPair
from dpaudit.defenses.item_item import ItemItem
from dpaudit.errors import DataError

IDS = {
    "pa11-thm3.1-crossing": "rating-add-remove",
    "pa11-s3.4-joint": "rating-replace",
    "pa11-thm3.2": "rating-add-remove",
}


def written(path: Path, ratings: Ratings) -> DataSource:
    """The ratings as a file of MovieLens-100K."""
    rows = zip(ratings.user, ratings.item, ratings.value, strict=True)
    text = "".join(f"{user + 1}\t{item + 1}\t{int(value)}\t0\n" for user, item, value in rows)
    path.write_text(text, encoding="utf-8")
    return DataSource.model_validate({"format": "movielens-100k", "path": str(path)})


def some(users: int = 150, per_user: int = 35) -> Ratings:
    return generate(SyntheticParams(n_users=users, n_items=120, mean_per_user=per_user, seed=4))


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> DataSource:
    return written(tmp_path_factory.mktemp("ratings") / "u.data", some())


def found(source: DataSource) -> list[tuple[str, PredictionGame]]:
    games = []
    for id_, game in on_real_data({"mine": source}, CATALOGUE):
        assert isinstance(game, PredictionGame)
        games.append((id_, game))
    return games


def shift(defense: ItemItem, pair: WorldPair) -> float:
    items = list(pair.items)
    model = defense.prepare(pair.ratings)
    before = defense.exact(model, pair.ratings.profile(pair.target)).scores[items]
    after = defense.exact_after(model, pair.change, pair.target).scores[items]
    return float(abs(after - before).sum())


def test_the_games_are_of_entries_that_exist_and_published(source: DataSource) -> None:
    games = found(source)
    assert {id_ for id_, _ in games} == set(IDS)
    assert len({(id_, game.label) for id_, game in games}) == len(games) == 4
    for _, game in games:
        assert game.defense.variant == "published"
        assert game.label.startswith("mine")
        assert str(source.path) not in game.pair()


def test_the_pairs_are_genuine_neighbours(source: DataSource) -> None:
    for id_, game in found(source):
        pair = game.worlds(game.defense)
        after = apply(pair.ratings, pair.change)
        assert adjacency_of(pair.change) == IDS[id_] == game.defense.adjacency
        for ratings in (pair.ratings, after):
            profile = ratings.profile(pair.target)
            assert len(profile) >= 20
            assert not np.isin(pair.items, profile.items).any()
            assert np.isin(ratings.value, ratings.scale.values).all()
        assert len(pair.items) == (20 if isinstance(pair.change, RatingReplaced) else 1)
        if not isinstance(pair.change, RatingReplaced):
            assert pair.change.user != pair.target
            assert pair.change.item == pair.items[0]


def test_the_truth_of_a_game_is_the_shift_of_data_prepared_anew(source: DataSource) -> None:
    for _, game in found(source):
        pair, defense = game.worlds(game.defense), game.defense
        after = apply(pair.ratings, pair.change)
        items = list(pair.items)
        one = defense.exact(
            defense.prepare(pair.ratings), pair.ratings.profile(pair.target)
        ).scores[items]
        two = defense.exact(defense.prepare(after), after.profile(pair.target)).scores[items]
        truth = game.play(2, 0).truth
        assert truth is not None
        expected = float(abs(two - one).sum()) / defense.noise_scale(pair.ratings.scale)
        assert truth.value == pytest.approx(expected, rel=1e-3)


def test_the_target_changes_an_extreme_rating_end_to_end(source: DataSource) -> None:
    game = next(game for id_, game in found(source) if id_ == "pa11-s3.4-joint")
    pair = game.worlds(game.defense)
    n = len(pair.ratings.profile(pair.target))
    # Each of 20 predictions moves by 4/n; Δf = 0.4 at ε = ½.
    assert shift(game.defense, pair) == pytest.approx(20 * 4 / n, rel=1e-4)
    truth = game.play(2, 0).truth
    assert truth is not None
    assert truth.value == pytest.approx(0.5 * 20 * (4 / n) / 0.4, rel=1e-4)


def test_only_what_is_asked_for_is_played(source: DataSource) -> None:
    entries = [entry for entry in CATALOGUE if entry.id == "pa11-thm3.2"]
    assert [id_ for id_, _ in on_real_data({"mine": source}, entries)] == ["pa11-thm3.2"]
    assert on_real_data({"mine": source}, []) == []
    assert on_real_data({}, CATALOGUE) == []


def test_other_data_have_another_digest(source: DataSource, tmp_path: Path) -> None:
    other = written(tmp_path / "u.data", some(per_user=36))
    for (_, one), (_, two) in zip(found(source), found(other), strict=True):
        assert one.digest() != two.digest()
    assert [game.digest() for _, game in found(source)] == [
        game.digest() for _, game in found(source)
    ]


# What cannot be used.


def test_purchases_are_refused(source: DataSource) -> None:
    with pytest.raises(DataError, match=r"mine has purchases and not ratings: leave out"):
        on_real_data({"mine": source.model_copy(update={"binarize": 1.0})}, CATALOGUE)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    source = DataSource.model_validate(
        {"format": "movielens-100k", "path": str(tmp_path / "none.data")}
    )
    with pytest.raises(DataError, match=r"none\.data"):
        on_real_data({"mine": source}, CATALOGUE)


def test_too_little_data_are_said_to_be_too_little(tmp_path: Path) -> None:
    ratings = some(users=3, per_user=25)
    with pytest.raises(DataError, match="use more data"):
        on_real_data({"mine": written(tmp_path / "u.data", ratings)}, CATALOGUE)


# Real ratings.


def test_a_rating_of_movielens_crosses_the_threshold(real_data: Path) -> None:
    path = real_data / "ml-100k" / "u.data"
    if not path.is_file():
        pytest.skip("MovieLens-100K is not there")
    source = DataSource.model_validate({"format": "movielens-100k", "path": str(path)})
    entries = [entry for entry in CATALOGUE if entry.id == "pa11-thm3.1-crossing"]
    for _, game in on_real_data({"MovieLens": source}, entries):
        truth = game.play(2, 0).truth
        assert truth is not None
        assert math.isfinite(truth.value)
        assert truth.value > 1.1 * game.claimed()[0]
