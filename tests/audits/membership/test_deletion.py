"""What is said of models that forget: forgotten, not forgotten, or undecided."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from membership_cases import small_ratings, small_table  # type: ignore[import-not-found]
from pydantic import ValidationError

from dpaudit.audits.membership.config import (
    Membership,
    MembershipConfig,
    OwnRecommender,
    StatedClaim,
)
from dpaudit.audits.membership.deletion import verdicts
from dpaudit.audits.membership.design import Design
from dpaudit.audits.membership.sections import MembershipSections
from dpaudit.core.membership import WITNESS
from dpaudit.record.result import STRONGEST, AuditResult, Control
from tests.support.membership_records import Make, game, measured, record

GAMES = ("scores", "own-list")


def control(found: bool, epsilon: float = 0.5) -> Control:
    return Control(
        mutant="a planted leak", factor=2.0, epsilon=epsilon, certified=0.3 * found, found=found
    )


def deleted(make: Make, lower: float, *found: bool, before: bool = False) -> AuditResult:
    table: dict[str, Any] = {
        "label": "own", "library": "implicit", "forget": "own", "requests": 9
    }  # fmt: skip
    tables = [table, {**table, "label": "kept", "forget": None, "requests": 1}][: 1 + before]
    labels = ["own", "kept"][: 1 + before]
    bounds = [
        game("interaction", observer, lower * (observer == "scores"), control=control(one))
        for observer, one in zip(GAMES, found, strict=True)
    ]
    gains = [
        measured("attack.advantage", "interaction", observer, value, STRONGEST, model=label)
        for label, high in zip(labels, (0.25, 0.5), strict=False)
        for observer, value in zip(GAMES, (high, 0.0), strict=True)
    ]
    return record(make, measurements=[*bounds, *gains], config={"recommender": tables})


def test_a_certified_bound_says_not_forgotten(make: Make) -> None:
    [verdict] = verdicts(deleted(make, 0.5, True, True), "own")
    assert verdict.startswith("Deletion by its own method. NOT FORGOTTEN: who sees the scores")
    assert "ε ≥ 0.50." in verdict


def test_forgotten_needs_a_planted_leak_that_all_observers_find(make: Make) -> None:
    [verdict] = verdicts(deleted(make, 0.0, True, True), "own")
    assert "FORGOTTEN, as far as these trainings tell" in verdict
    assert "NOT FORGOTTEN" not in verdict
    assert "each finds a planted leak of ε = 0.5" in verdict
    [verdict] = verdicts(deleted(make, 0.0, True, False), "own")
    assert "UNDECIDED" in verdict
    assert "FORGOTTEN" not in verdict


def test_what_is_left_stands_beside_the_model_that_forgets_nothing(make: Make) -> None:
    result = deleted(make, 0.5, True, True, before=True)
    [verdict] = verdicts(result, "own")
    assert verdict.endswith(
        "The largest advantage of an observer is 0.250 [0.125, 0.375], and 0.500 [0.375, 0.625] "
        "before the deletion."
    )
    assert not list(verdicts(result, "kept"))


@pytest.mark.parametrize(
    ("lower", "said"),
    [(2.5, "tells which interactions were deleted, ε ≥ 2.50"), (0.0, "was not shown to tell")],
)
def test_who_saw_both_models_has_a_sentence_of_its_own(make: Make, lower: float, said: str) -> None:
    result = deleted(make, 0.0, True, True, before=True)
    more = [
        game("interaction", WITNESS, lower, control=control(False)),
        measured("attack.advantage", "interaction", WITNESS, 0.9, STRONGEST, model="own"),
    ]
    every = result.model_copy(update={"measurements": [*result.measurements, *more]})
    verdict, witnessed = verdicts(every, "own")
    assert [verdict] == list(verdicts(result, "own"))
    assert witnessed.startswith("Who sees the scores of the target's own (user, item) pairs before")
    assert said in witnessed
    rates = [
        measured("attack.tpr", "interaction", observer, 0.25, STRONGEST, at=0.01)
        for observer in ("scores", WITNESS)
    ]
    sections = MembershipSections(every.model_copy(update={"measurements": rates}))
    assert [rate.observer for rate in sections.metered()] == ["scores"]


def test_what_a_witness_would_see_was_not_tried_of_a_deletion_alone(make: Make) -> None:
    result = deleted(make, 0.0, True, True)
    assert any("after the deletion" in line for line in MembershipSections(result).untried())
    plain = result.model_copy(update={"config": {"recommender": [{"label": "own"}]}})
    assert not any("after the deletion" in line for line in MembershipSections(plain).untried())


@pytest.mark.parametrize("table", [{"library": "most-popular"}, {"target": "model:Mine"}])
def test_a_witness_needs_a_model_that_forgets(table: dict[str, str]) -> None:
    said = "sees a deletion, and model .* forgets nothing: name it in the observers of a"
    for where in ("recommender", "membership"):
        values: dict[str, Any] = {"recommender": {**table}, "membership": {}}
        values[where]["observers"] = [WITNESS]
        with pytest.raises(ValidationError, match=said):
            MembershipConfig.model_validate(values)
        values["recommender"]["forget"] = "own"
        MembershipConfig.model_validate(values)
    with pytest.raises(ValidationError, match="before-and-after"):
        StatedClaim.model_validate({"epsilon": 1.0, "observers": [WITNESS]})


def test_a_witness_is_none_of_the_observers_by_default() -> None:
    for table in ({"library": "most-popular"}, {"command": "train"}):
        own = OwnRecommender.model_validate({**table, "forget": "own"})
        assert WITNESS not in Membership().observers_of(own)


def test_the_page_speaks_of_deleted_targets(make: Make) -> None:
    result = deleted(make, 0.5, True, True)
    rate = measured("attack.tpr", "interaction", "scores", 0.25, STRONGEST, at=0.01)
    sections = MembershipSections(result.model_copy(update={"measurements": [rate]}))
    frequency = sections.frequency(rate)
    assert frequency
    assert frequency.clause == "deleted interactions are recognised"
    assert any("that were deleted" in line for line in sections.leaks(result.models[0]))


def test_the_label_names_the_method() -> None:
    config = MembershipConfig.model_validate(
        {"recommender": [{"library": "most-popular"}, {"library": "most-popular", "forget": "own"}]}
    )
    assert [each.label for each in config.recommender] == [
        "most-popular",
        "most-popular, forgets by own",
    ]
    assert OwnRecommender(library="most-popular").forget is None


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"returned": "folder"}, "remove it, or returned"),
        ({"target": "model:Mine", "save": "models"}, "remove it, or save"),
    ],
    ids=["trained elsewhere", "kept"],
)
def test_a_model_that_is_not_asked_here_does_not_forget(table: dict[str, str], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        OwnRecommender.model_validate({**table, "forget": "own"})


def test_all_interactions_of_target_users_and_target_interactions_are_forgotten() -> None:
    data = small_ratings()
    plan = Design.of(data, small_table(), 3)
    targets = plan.targets.toarray() > 0
    expected = np.zeros_like(targets)
    expected[data.user[plan.rows], data.item[plan.rows]] = True
    among = np.isin(data.user, plan.users)
    expected[data.user[among], data.item[among]] = True
    np.testing.assert_array_equal(targets, expected)
    assert pytest.approx(targets.sum()) == len(plan.rows) + among.sum()
