"""Test two distributions of lists against frequencies counted by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dpaudit.attacks.membership.inference import Canary, PlaceRatio
from dpaudit.core.errors import InputError
from dpaudit.core.releases import ItemList, Profile, TargetUser

NOBODY = Profile(np.empty(0, np.int32), np.empty(0, np.float32))


def chosen(weights: NDArray[np.float64], count: int, k: int, seed: int) -> NDArray[np.int32]:
    """Lists of the k largest of noised weights, best first."""
    noise = np.random.default_rng(seed).gumbel(size=(count, len(weights)))
    lists: NDArray[np.int32] = np.argsort(-(weights + noise), axis=1)[:, :k].astype(np.int32)
    return lists


def plain(lists: NDArray[np.int32], shown: NDArray[np.int32], seen: set[int]) -> float:
    """ln P of one list, item by item and place by place."""
    n, k = lists.shape
    total = 0.0
    for item in seen:
        having = [row for row in lists.tolist() if item in row]
        p = (len(having) + 0.5) / (n + 1)
        if item not in shown:
            total += math.log(1 - p)
            continue
        place = shown.tolist().index(item)
        at = sum(row[place] == item for row in having)
        total += math.log(p * (at + 8) / (len(having) + 8 * k))
    return total


@pytest.mark.cases(("counts", "k"), [((30, 30), 3), ((20, 50), 1), ((5, 40), 6)])
def test_the_score_is_the_ratio_of_counted_frequencies(counts: tuple[int, int], k: int) -> None:
    source = np.random.default_rng(k)
    absent, present = (chosen(source.normal(size=12), n, k, seed) for seed, n in enumerate(counts))
    ratio = Canary().fit(absent, present)
    assert isinstance(ratio, PlaceRatio)
    seen = {*absent.ravel().tolist(), *present.ravel().tolist()}
    # Items 40 and up are in none of the fitted lists; they are ignored.
    shown = np.concatenate([chosen(np.zeros(12), 20, k, 9), np.full((1, k), 40, np.int32)])
    wanted = [plain(present, row, seen) - plain(absent, row, seen) for row in shown]
    np.testing.assert_allclose(ratio.score(shown), wanted, atol=1e-12)
    np.testing.assert_allclose(PlaceRatio.fit(present, absent).score(shown), -ratio.score(shown))


def test_one_item_that_climbs_is_seen_in_it() -> None:
    # Every list of D and D' has every item: only places distinguish them.
    before, after = np.zeros(4), np.array([0.0, 0.0, 1.5, 0.0])
    ratio = PlaceRatio.fit(chosen(before, 400, 4, 0), chosen(after, 400, 4, 1))
    scores = ratio.score(np.array([[2, 0, 1, 3], [0, 2, 1, 3], [0, 1, 2, 3], [0, 1, 3, 2]]))
    assert (np.diff(scores) < 0).all()
    assert scores[0] > 0.5 > -0.5 > scores[-1]


def test_lists_are_read_as_they_are() -> None:
    lists = chosen(np.zeros(9), 5, 3, 0)
    read = Canary().features(ItemList(lists), TargetUser(0, NOBODY, NOBODY))
    np.testing.assert_array_equal(read, lists)


@pytest.mark.parametrize(
    ("absent", "present", "words"),
    [
        (np.empty((0, 3)), np.zeros((4, 3)), "absent has no list: give at least 1"),
        (np.zeros((4, 3)), np.zeros((4, 2)), "absent has lists of 3 items and present of 2"),
    ],
)
def test_lists_that_cannot_be_fitted_are_refused(absent: Any, present: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        Canary().fit(absent.astype(np.int32), present.astype(np.int32))
