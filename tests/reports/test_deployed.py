"""Which of the audited models is deployed."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from dpaudit.core.errors import ConfigError
from dpaudit.record.result import AuditResult, FindingRecord
from dpaudit.reports import deployed, palette
from dpaudit.reports.sections import verdicts

Make = Callable[..., AuditResult]


def stating(result: AuditResult, **card: Any) -> AuditResult:
    return result.model_copy(update={"config": {**result.config, "card": card}})


def test_one_point_needs_no_choice(make: Make) -> None:
    part = deployed.alone(make(epsilons=(1.0,)))
    assert len(part.points) == 1
    assert deployed.choice(part) == ""


def test_several_points_are_all_kept_until_one_is_named(result: AuditResult) -> None:
    part = deployed.alone(result)
    assert part.points == result.points
    assert deployed.choice(part) == (
        "Not chosen: 3 were audited, and all count here. Name one in the config (card.epsilon)."
    )


def test_the_keys_that_are_named_are_those_that_choose(lists: AuditResult) -> None:
    assert "(card.model and card.epsilon)" in deployed.choice(deployed.alone(lists))
    assert "(card.epsilon)" in deployed.choice(deployed.alone(stating(lists, model="chain")))
    assert "(card.model)" in deployed.choice(deployed.alone(stating(lists, epsilon=1.0)))


def test_what_is_about_other_models_is_left_out(lists: AuditResult) -> None:
    findings = [
        FindingRecord(model=model, about="seed", text="t", remedy="r", epsilon=epsilon)
        for model, epsilon in (("chain", None), ("chain", 1.0), ("chain", 0.1), ("joint", None))
    ]
    noticed = lists.model_copy(update={"findings": findings})
    part = deployed.alone(stating(noticed, model="chain", epsilon=1.0))
    assert [model.label for model in part.models] == ["chain"]
    assert {pair.model for pair in part.pairs} == {"chain"}
    assert {(one.model, one.epsilon) for one in part.measurements} == {("chain", 1.0)}
    assert [(one.model, one.epsilon) for one in part.verdicts] == [("chain", 1.0)]
    assert part.findings == findings[:2]
    assert part.outcome == lists.outcome


@pytest.mark.cases(
    ("changes", "card", "badge"),
    [
        ({}, {"epsilon": 1.0}, ("claim false", "bad")),
        ({}, {"epsilon": 10.0}, ("claim not tested", "neutral")),
        ({}, {}, ("claim false", "bad")),
        ({"epsilons": (3.0,)}, {}, ("survived 1 of 1", "good")),
        ({"epsilons": (3.0, 10.0)}, {}, ("survived 1 of 2", "neutral")),
        ({"epsilons": (math.inf,), "game": False}, {}, ("leak measured", "neutral")),
    ],
)
def test_a_badge_says_what_became_of_the_claim(
    make: Make, changes: dict[str, Any], card: dict[str, Any], badge: tuple[str, str]
) -> None:
    part = deployed.alone(stating(make(**changes), **card))
    word = verdicts.badge(part, part.models)
    assert (word.text, word.tone) == badge


def test_nothing_measured_is_not_attacked(make: Make) -> None:
    bare = make(epsilons=(math.inf,), game=False)
    part = deployed.alone(bare.model_copy(update={"measurements": []}))
    assert verdicts.badge(part, part.models) == palette.NOT_ATTACKED


@pytest.mark.parametrize("card", [{"model": "other"}, {"epsilon": 7.0}])
def test_a_model_that_was_not_audited_is_one_sentence(
    result: AuditResult, card: dict[str, Any]
) -> None:
    with pytest.raises(ConfigError, match="is no audited"):
        deployed.alone(stating(result, **card))
