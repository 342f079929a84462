"""What a search trains how often, what it lists, and how often a GO is wrong."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dpaudit.tuning.search import (
    MORE,
    ONCE,
    SOME,
    Trained,
    false_go,
    fewest,
    proposals,
    reserved,
    search,
    settings_for,
    shortlist,
)

JUDGED = 19


def of(leak: float, utility: float, trainings: int = MORE, spread: float = 0.1) -> Trained:
    leaks = leak + spread * leak * np.linspace(-1, 1, trainings)
    return Trained(tuple(leaks.tolist()), utility, trainings)


@pytest.mark.parametrize(("candidates", "bound"), [(1, 0.0189), (2, 0.0318), (3, 0.0417)])
def test_a_false_go_is_bounded(candidates: int, bound: float) -> None:
    assert false_go(candidates, JUDGED) == pytest.approx(bound, abs=5e-5)


@pytest.mark.parametrize("judged", [16, 19, 59])
def test_the_bound_is_the_largest_over_every_choice_of_shares(judged: int) -> None:
    shares = np.linspace(0, 1, 20_001)
    value = 0.0
    for count in range(1, 4):
        value += float(np.max((1 - shares) ** judged * (shares - value)))
        assert false_go(count, judged) == pytest.approx(value, abs=1e-8)


def test_a_safe_setting_passes_and_one_at_the_limit_does_not() -> None:
    assert of(0.4, 1.0).passing(JUDGED) > 0.9
    assert of(1.0, 1.0).passing(JUDGED) < 0.1
    assert of(3.0, 1.0).passing(JUDGED) < 1e-9
    assert Trained((), 1.0, 1).passing(JUDGED) == 0


def test_a_utility_near_its_limit_passes_as_it_hardly_varies() -> None:
    steady = (0.94, 0.95, 0.95)
    assert Trained((0.3,) * 3, 1.0, SOME, steady).passing(JUDGED) > 0.3
    assert Trained((0.3,) * 3, 1.0, SOME, (0.99, 1.0, 1.01)).passing(JUDGED) < 0.01
    assert Trained((1.2,) * 3, 1.0, SOME, steady).passing(JUDGED) < 0.01
    assert Trained((0.3,) * 3, 1.0, SOME, (1.1,) * 3).leak == pytest.approx(1.1)


def test_other_held_out_interactions_move_utilities_alone() -> None:
    here = Trained((0.3,) * 6, 1.0, MORE, (0.8,) * 6)
    assert here.passing(JUDGED) > 0.99
    assert replace(here, drawn=0.05).passing(JUDGED) > 0.95
    assert replace(here, drawn=0.2).passing(JUDGED) < 0.9
    assert replace(here, steady=(), drawn=0.2).passing(JUDGED) > 0.95


def test_few_trainings_that_are_alike_prove_no_small_spread() -> None:
    alike = Trained((0.8, 0.8, 0.8), 1.0, SOME)
    assert alike.numbers[0].spread > 0.1
    assert not alike.safe


class Schedule:
    """Counts what is trained."""

    def __init__(self, utilities: list[float], leaks: list[float]) -> None:
        self.utilities, self.leaks = utilities, leaks
        self.used = dict.fromkeys(range(len(utilities)), 0)

    def __call__(self, setting: int, trainings: int) -> Trained:
        self.used[setting] = trainings
        if trainings == ONCE:
            return Trained((), self.utilities[setting], ONCE)
        return of(self.leaks[setting], self.utilities[setting], trainings)


def test_of_forty_settings_no_more_than_124_trainings_search() -> None:
    utilities = np.linspace(1, 2, 40).tolist()
    schedule = Schedule(utilities, [0.9] * 40)
    search(range(40), schedule, 200, JUDGED)
    counts = np.bincount(list(schedule.used.values()))
    assert counts[ONCE] == 16
    assert counts[SOME] + counts[MORE] == 24
    assert 12 <= counts[MORE] <= 13  # with the unchanged one
    # Neither the least useful one, which is the unchanged one here, nor the most useful is dropped.
    assert schedule.used[0] == MORE
    assert schedule.used[39] >= SOME


def test_of_few_settings_none_is_dropped_and_three_may_be_judged() -> None:
    # The most useful one leaks least.
    schedule = Schedule([1.0, 0.9, 1.1, 0.8, 0.7], [1.5, 1.5, 0.2, 0.3, 0.4])
    search(range(5), schedule, 80, JUDGED)
    assert min(schedule.used.values()) == SOME
    assert [one for one, count in schedule.used.items() if count == MORE] == [0, 2, 3, 4]


@pytest.mark.parametrize("trainings", [64, 100, 150, 200, 1000])
def test_what_is_reserved_is_left(trainings: int) -> None:
    count = min(40, settings_for(trainings, JUDGED))
    rng = np.random.default_rng(trainings)
    schedule = Schedule(rng.uniform(1, 2, count).tolist(), rng.uniform(0.1, 3, count).tolist())
    search(range(count), schedule, trainings, JUDGED)
    assert sum(schedule.used.values()) <= trainings - JUDGED
    assert reserved(trainings, JUDGED) >= JUDGED + 3


def test_too_few_trainings_are_told_beforehand() -> None:
    assert fewest(40, JUDGED) == 40 + 5 + 19


@pytest.mark.parametrize("size", [2, 3, 4, 8, 10, 20])
def test_the_fewest_trainings_leave_those_that_judge(size: int) -> None:
    trainings = fewest(size, JUDGED)
    count = min(size, max(2, settings_for(trainings, JUDGED)))
    schedule = Schedule([1.0 + one for one in range(count)], [0.5] * count)
    search(range(count), schedule, trainings, JUDGED)
    assert sum(schedule.used.values()) + JUDGED <= trainings


def test_one_setting_is_searched_with_hardly_any_trainings() -> None:
    assert settings_for(10, JUDGED) == 1
    assert proposals(200, JUDGED) == 40


def test_the_list_is_riskier_first_and_safe_last() -> None:
    shown = {0: of(4.7, 0.8), 1: of(0.3, 0.9), 2: of(0.75, 1.2), 3: of(0.6, 1.1), 4: of(0.2, 0.5)}
    order = shortlist(shown, JUDGED)
    assert 0 not in order
    assert [shown[one].utility for one in order] == sorted(
        (shown[one].utility for one in order), reverse=True
    )
    assert shown[order[-1]].safe
    assert len(order) <= 3


def test_without_a_chance_nothing_is_listed() -> None:
    assert shortlist({0: of(2.0, 1.0), 1: of(3.0, 2.0)}, JUDGED) == []
    assert shortlist({0: of(0.3, 1.0, SOME)}, JUDGED) == []
