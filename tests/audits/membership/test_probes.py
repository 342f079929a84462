"""Probes of a model: its seed, constant scores, vanishing users and items, lists that hide."""

from __future__ import annotations

from itertools import count
from typing import Any

import numpy as np
import pytest
from membership_cases import Copying, Ignorant, small_ratings, small_table  # type: ignore[import-not-found]
from scipy.sparse import csr_array

from dpaudit.audits.membership.calibration import Trials
from dpaudit.audits.membership.design import Design
from dpaudit.audits.membership.probes import Noticed, hides_seen, keeps_seen, noticed, tasks_of
from dpaudit.audits.membership.training import Training
from dpaudit.bounds.frequentist.one_run import one_run_epsilon
from dpaudit.core.errors import RunError
from dpaudit.recommenders.base import Answer, Query

DESIGN = Design.of(small_ratings(), small_table(), 3)


def found_of(model: Any) -> list[Noticed]:
    tasks = list(tasks_of(Training(model, DESIGN, [])))
    assert [(task.name, task.size) for task in tasks] == [("probe", 1)] * 2
    again, vanished = (task.work(task.part) for task in tasks)
    assert not isinstance(again, str)
    assert not isinstance(vanished, str)
    return list(noticed((again, vanished)))


def about(model: Any) -> list[str]:
    return [finding.about for finding in found_of(model)]


def test_nothing_is_noticed_of_a_model_that_keeps_seed_and_vocabulary() -> None:
    assert about(Ignorant()) == []
    assert about(Copying()) == []


@pytest.mark.parametrize("what", ["scores", "lists"])
def test_trainings_that_differ_at_one_seed_are_noticed(what: str) -> None:
    calls = count()

    def change(answer: Answer, interactions: csr_array, query: Query) -> None:
        if what == "scores":
            answer.scores[0] += next(calls)
        else:
            answer.lists[0] = np.roll(answer.lists[0], next(calls))

    assert about(Ignorant(change=change)) == ["seed"]


def test_what_a_model_keeps_from_the_last_training_is_noticed() -> None:
    """The certificate needs a coin to change one training alone."""
    last = [0.0]

    def change(answer: Answer, interactions: csr_array, query: Query) -> None:
        answer.scores[0] += last[0]
        last[0] = float(interactions.sum())

    assert about(Ignorant(change=change)) == ["seed"]
    last[0] = 0.0
    again = Training(Ignorant(change=change), DESIGN, [])
    same = [again.answer(DESIGN.data(0), 1).scores for _ in range(3)]
    assert np.array_equal(same[1], same[2])  # the same data twice in a row would not show it


def test_constant_scores_are_noticed() -> None:
    def lose(answer: Answer, interactions: csr_array, query: Query) -> None:
        answer.scores[0] = np.nan

    assert about(Ignorant(constant=True)) == ["constant"]
    assert about(Ignorant(constant=True, change=lose)) == ["constant"]


@pytest.mark.cases(("users", "items"), [(True, False), (False, True), (True, True)])
def test_a_vocabulary_that_is_built_from_the_data_is_noticed(users: bool, items: bool) -> None:
    def forget(answer: Answer, interactions: csr_array, query: Query) -> None:
        by_user = np.diff(interactions.indptr)
        by_item = np.bincount(interactions.indices, minlength=interactions.shape[1])
        if users:
            answer.scores[by_user[query.users] == 0] = np.nan
        if items:
            answer.scores[by_item[query.items] == 0] = np.nan

    said = found_of(Ignorant(change=forget))
    assert {finding.about for finding in said} == {"vocabulary"}
    assert len(said) == users + items
    words = " ".join(finding.text for finding in said)
    assert ("does not know users without" in words) == users
    assert ("does not know items without" in words) == items
    assert all(finding.remedy.endswith(".") for finding in said)


def test_scores_of_the_whole_single_precision_are_no_defect() -> None:
    def grow(answer: Answer, interactions: csr_array, query: Query) -> None:
        answer.scores[:2] = 3e38, -3e38

    assert about(Ignorant(change=grow)) == []


def test_a_failing_training_is_reported_and_not_noticed() -> None:
    def fail(answer: Answer, interactions: csr_array, query: Query) -> None:
        raise RunError("it diverged")

    with pytest.raises(RunError, match="it diverged"):
        found_of(Ignorant(change=fail))


def lists(shown_if_present: float, shown_if_absent: float, count: int = 2000) -> Trials:
    rng = np.random.default_rng(1)
    present = rng.random((8, count // 8)) < 0.5
    rate = np.where(present, shown_if_present, shown_if_absent)
    listed = (rng.random(present.shape) < rate) * 0.5
    return Trials(np.stack((listed, listed), axis=2), np.zeros((8, 0, 2)), present)


@pytest.mark.cases(
    ("present", "absent", "expected"),
    [
        (0.0, 0.2, True),
        (0.01, 0.2, False),  # once is enough
        (0.0, 0.0, False),  # nothing is listed at all
        (0.0, 0.001, False),  # too rare to tell
        (0.2, 0.2, False),
        (0.2, 0.0, False),
    ],
)
def test_lists_hide_what_is_seen_if_only_absent_items_are_listed(
    present: float, absent: float, expected: bool
) -> None:
    assert hides_seen(lists(present, absent)) == expected


@pytest.mark.cases(
    ("present", "absent", "expected"),
    [
        (0.0, 0.2, False),
        (0.1, 0.2, False),  # some of what is seen is left out
        (0.0, 0.02, False),
        (0.0, 0.0, True),  # nothing is there to leave out
        (0.2, 0.2, True),
        (0.4, 0.2, True),
    ],
)
def test_lists_keep_what_is_seen_unless_they_show_less_of_it(
    present: float, absent: float, expected: bool
) -> None:
    """A list without a filter counts as one with probability 0.023 at most; the seed is fixed."""
    assert keeps_seen(lists(present, absent)) == expected


def test_what_a_filter_shows_certifies_nothing_while_it_is_too_rare_to_notice() -> None:
    # The absent are listed three times: too few right guesses for any ε.
    model = lists(0.0, 0.0)
    places = tuple(np.argwhere(~model.present)[:3].T)
    model.features[places] = 0.5
    assert keeps_seen(model)
    model.features[tuple(np.argwhere(~model.present)[:5].T)] = 0.5
    assert not keeps_seen(model)
    assert one_run_epsilon(2000, 4, 4).lower == 0


@pytest.mark.parametrize("every", [False, True])
def test_without_both_kinds_of_targets_nothing_is_said_of_lists(every: bool) -> None:
    model = lists(0.0, 0.2)
    assert not hides_seen(
        Trials(model.features, model.population, np.full_like(model.present, every))
    )
