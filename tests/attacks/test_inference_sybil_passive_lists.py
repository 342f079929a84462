"""The passive score against a count by hand."""

from __future__ import annotations

import numpy as np

from dpaudit.attacks.inference import PassiveLists
from dpaudit.core.releases import ItemList


def brute_force(before: list[list[int]], after: list[list[int]], item: int) -> list[bool]:
    moves = []
    for old, new in zip(before, after, strict=True):
        entered = item in new and item not in old
        climbed = item in new and item in old and new.index(item) < old.index(item)
        moves.append(entered or climbed)
    return moves


def test_score_counts_lists_that_an_item_entered_or_climbed_in() -> None:
    rng = np.random.default_rng(1)
    before = np.stack([rng.permutation(9)[:4] for _ in range(60)]).astype(np.int32)
    after = np.stack([rng.permutation(9)[:4] for _ in range(60)]).astype(np.int32)
    after[:20] = before[:20]
    for item in range(10):
        moves = brute_force(before.tolist(), after.tolist(), item)
        scores = PassiveLists().scores(ItemList(before), ItemList(after), item)
        np.testing.assert_array_equal(scores, [sum(moves[:a]) for a in range(61)])
        np.testing.assert_array_equal(
            PassiveLists().moves(ItemList(before), ItemList(after), item), moves
        )
    # Every case occurs, so that the test is not vacuous.
    assert scores[-1] == 0
    assert PassiveLists().scores(ItemList(before), ItemList(after), 3)[-1] > 5


def test_falling_and_leaving_do_not_count() -> None:
    before, after = ItemList(np.array([[1, 2, 3]])), ItemList(np.array([[2, 1, 4]]))
    moved = {item: bool(PassiveLists().moves(before, after, item)[0]) for item in range(1, 6)}
    assert moved == {1: False, 2: True, 3: False, 4: True, 5: False}


def test_the_larger_score_is_guessed_and_ties_are_tossed() -> None:
    first, second = np.array([0, 2, 1]), np.array([0, 1, 2])
    np.testing.assert_array_equal(PassiveLists().guess(first, second, 0.4), [True, True, False])
    np.testing.assert_array_equal(PassiveLists().guess(first, second, 0.6), [False, True, False])
