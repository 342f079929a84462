"""Passive list inference where everything, or nothing, can be inferred."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any, ClassVar

import numpy as np
import pytest
from executors import on_threads  # type: ignore[import-not-found]
from numpy.typing import NDArray
from scipy import stats

from dpaudit.attacks.inference import PassiveLists
from dpaudit.audits.sybil.measures import _lists, run_passive, stage
from dpaudit.core.errors import ConfigError, DataError, InputError
from dpaudit.core.releases import ItemList
from dpaudit.core.streams import Streams
from dpaudit.data.ratings import Ratings, Scale, from_profiles
from dpaudit.defenses.item_item.similarities import Cosine, SlopeOne

STARS, PURCHASES = Scale(), Scale(1, 1, 1)
Z = float(stats.norm.isf(5e-7))  # two sides: a rate of 1e-6


@cache
def grouped(scale: Scale = PURCHASES) -> Ratings:
    """40 users in 4 groups, most of whose items are among the 15 of their group."""
    rng = np.random.default_rng(1)
    profiles = []
    for user in range(40):
        group = user % 4
        near, far = (
            np.arange(15) + 15 * group,
            np.setdiff1d(np.arange(60), 15 * group + np.arange(15)),
        )
        items = np.concatenate((rng.permutation(near)[:9], rng.permutation(far)[:2]))
        profiles.append([(int(i), float(rng.choice(scale.values))) for i in items])
    return from_profiles(profiles, 60, scale)


def cosine(epsilon: float = np.inf, top_k: int = 10) -> Cosine:
    variant: Any = "nonprivate" if np.isinf(epsilon) else "published"
    return Cosine(epsilon=epsilon, variant=variant, min_ratings=5, top_k=top_k)


def run(defense: Any, ratings: Ratings, trials: int, **more: Any) -> NDArray[np.bool_]:
    given: dict[str, Any] = {"auxiliary": [1, 4, 8], "background": 6, "seed": 1} | more
    attack = given.pop("attack", PassiveLists())
    return run_passive(defense, ratings, attack, trials=trials, **given)


def half(correct: NDArray[np.bool_], trials: int) -> bool:
    return bool(abs(correct.mean() - 0.5) <= Z * np.sqrt(0.25 / trials))


# What happens between the two times.


def cells(ratings: Ratings) -> set[tuple[int, int]]:
    return set(zip(ratings.user.tolist(), ratings.item.tolist(), strict=True))


def test_a_scene_adds_one_rating_of_the_target_and_of_each_background_user() -> None:
    ratings, swaps = grouped(), 0
    for trial in range(200):
        scene = stage(ratings, 7, 6, 5, (3, trial))
        assert scene.decoy is not None
        new = cells(scene.after) - cells(scene.before)
        assert cells(scene.before) <= cells(scene.after)
        assert len(new) == 6
        assert len({user for user, _ in new}) == 6
        assert {item for user, item in new if user == 7} == {scene.item}
        assert scene.decoy in {item for user, item in new if user != 7}
        assert scene.decoy not in scene.after.profile(7).items
        assert np.isin(scene.observed, scene.before.profile(7).items).all()
        assert len(set(scene.observed.tolist())) == 6
        # The observed items are the target's in the data, and so is either the item or the decoy.
        assert len({scene.item, scene.decoy} & set(ratings.profile(7).items.tolist())) == 1
        swaps += scene.item not in ratings.profile(7).items
    # Rate 1e-6.
    assert abs(swaps / 200 - 0.5) < Z * np.sqrt(0.25 / 200)


def test_swapped_ratings_keep_their_number_and_values() -> None:
    ratings = grouped(STARS)
    for trial in range(30):
        scene = stage(ratings, 7, 6, 5, (3, trial))
        np.testing.assert_array_equal(np.sort(scene.after.value), np.sort(ratings.value))
        np.testing.assert_array_equal(scene.after.user, ratings.user)


def test_a_scene_without_a_possible_decoy_says_so() -> None:
    same = from_profiles([[(k, 1.0) for k in range(4)]] * 5, 6, PURCHASES)
    assert stage(same, 0, 2, 3, (1, 1)).decoy is None
    scores = run(cosine(top_k=3), same, 400, auxiliary=[2], background=3)
    assert half(scores, 400)


@pytest.mark.parametrize("scale", [STARS, PURCHASES])
def test_the_list_of_an_item_ranks_its_row(scale: Scale) -> None:
    ratings = grouped(scale)
    part: Any = cosine(top_k=6)
    if scale == STARS:
        part = SlopeOne(
            epsilon=np.inf, variant="nonprivate", min_ratings=1, min_co_ratings=1, top_k=6
        )
    else:
        part = Cosine(epsilon=np.inf, variant="nonprivate", min_ratings=1, top_k=6)
    items = np.array([3, 20], np.int32)
    lists = _lists(part, ratings, items, Streams.first(0, "x", 1)).items
    model = part.prepare(ratings)
    for item, row in zip(items, lists, strict=True):
        value = model.row(int(item))
        value[item] = -np.inf
        np.testing.assert_array_equal(row, np.argsort(-value, kind="stable")[:6])


# The game.


@pytest.mark.long
def test_without_noise_many_lists_betray_a_purchase() -> None:
    scores = run(cosine(), grouped(), 300)
    rates = scores.mean(1)
    assert rates[-1] > rates[0] + 0.05
    assert rates[-1] > 0.5 + Z * np.sqrt(0.25 / 300)


@pytest.mark.long
def test_noise_that_drowns_everything_leaves_a_coin() -> None:
    # Rate 1e-6 for each of three numbers of lists.
    scores = run(cosine(1e-6), grouped(), 600)
    for correct in scores:
        assert half(correct, 600)


@dataclass(frozen=True)
class Familiar(PassiveLists):
    """Ignores changes: guesses the item that is more frequent in the lists of the first time."""

    name: ClassVar[str] = "familiar"

    def moves(self, before: ItemList, after: ItemList, item: int) -> NDArray[np.bool_]:
        mask: NDArray[np.bool_] = (before.items == item).any(1)
        return mask


@pytest.mark.long
def test_similarity_alone_is_worth_nothing() -> None:
    ratings = grouped()
    scores = run(cosine(), ratings, 600, attack=Familiar())
    assert half(scores[-1], 600)
    # Without the swap this attack would succeed: the target's own item is mostly more frequent.
    count = 0
    for trial in range(200):
        scene = stage(ratings, trial % 40, 8, 6, (1, trial))
        assert scene.decoy is not None
        lists = _lists(
            replace(cosine(), min_ratings=1), scene.before, scene.observed, Streams.first(0, "x", 1)
        )
        mine, other = (np.isin(lists.items, i).sum() for i in (scene.item, scene.decoy))
        guessed = scene.item if mine >= other else scene.decoy
        count += guessed in ratings.profile(trial % 40).items
    assert count / 200 > 0.5 + Z * np.sqrt(0.25 / 200)


@pytest.mark.long
def test_outcomes_do_not_depend_on_threads_or_further_trials() -> None:
    one = run(cosine(100.0), grouped(), 60)
    for other in (
        run(cosine(100.0), grouped(), 60, executor=on_threads(3)),
        run(cosine(100.0), grouped(), 90),
    ):
        np.testing.assert_array_equal(one, other[:, :60])
    assert (run(cosine(100.0), grouped(), 60, seed=2) != one).any()


def test_slope_one_is_run_too() -> None:
    part = SlopeOne(epsilon=np.inf, variant="nonprivate", min_co_ratings=1, min_ratings=5, top_k=8)
    assert run(part, grouped(STARS), 50).shape == (3, 50)


def test_a_defense_without_lists_of_items_is_refused() -> None:
    with pytest.raises(ConfigError, match="passive-lists"):
        run(object(), grouped(), 10)


@pytest.mark.cases("wrong", [{"auxiliary": [0]}, {"auxiliary": []}, {"background": 0}])
def test_wrong_numbers_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        run(cosine(), grouped(), 10, **wrong)


@pytest.mark.parametrize("more", [{"auxiliary": [11]}, {"background": 40}])
def test_too_little_data_is_refused(more: dict[str, Any]) -> None:
    with pytest.raises(DataError, match="observing"):
        run(cosine(), grouped(), 10, **more)
