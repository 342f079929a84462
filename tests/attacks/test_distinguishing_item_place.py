"""The place of an item in a list."""

from __future__ import annotations

import numpy as np
import pytest

from dpaudit.attacks.distinguishing import ItemPlace
from dpaudit.core.registry import create, names
from dpaudit.core.releases import ItemInDoubt, ItemList
from dpaudit.defenses.item_item.similarities import SlopeOne


def score(rows: list[list[int]], item: int) -> list[float]:
    scores = ItemPlace().score(ItemList(np.array(rows, np.int32)), ItemInDoubt(item))
    assert scores.dtype == np.float64
    return list(scores)


def test_the_first_place_scores_highest_and_absence_nothing() -> None:
    assert score([[7, 3, 5], [3, 7, 5], [3, 5, 7], [3, 5, 9]], 7) == [3, 2, 1, 0]


def test_item_zero_is_an_item() -> None:
    assert score([[0, 1], [1, 0], [2, 1]], 0) == [2, 1, 0]


@pytest.mark.parametrize("length", [1, 4])
def test_scores_are_places_from_the_end_for_any_length(length: int) -> None:
    rng = np.random.default_rng(length)
    rows = np.array([rng.permutation(10)[:length] for _ in range(50)], np.int32)
    expected = [length - row.tolist().index(2) if 2 in row.tolist() else 0 for row in rows]
    assert score(rows.tolist(), 2) == expected


def test_no_trial_gives_no_score() -> None:
    assert ItemPlace().score(ItemList(np.empty((0, 3), np.int32)), ItemInDoubt(1)).shape == (0,)


def test_it_is_registered_by_its_name() -> None:
    assert "item-place" in names("attacks")
    assert create("attacks", "item-place", "attack", {}) == ItemPlace()


@pytest.mark.long
def test_without_noise_the_place_is_the_rank_of_the_exact_prediction() -> None:
    from dpaudit.core.streams import Streams
    from dpaudit.data.ratings import Scale

    defense = SlopeOne(epsilon=float("inf"), variant="nonprivate", top_k=1)
    pair = SlopeOne(epsilon=1.0).pair("support-threshold", Scale(1, 5, 1))
    exact = defense.exact(defense.prepare(pair.ratings), pair.ratings.profile(pair.target))
    shown = defense.release_list(exact, Streams.first(0, "place", 3))
    assert ItemPlace().score(shown, ItemInDoubt(0)).tolist() == [1, 1, 1]
    assert ItemPlace().score(shown, ItemInDoubt(1)).tolist() == [0, 0, 0]
