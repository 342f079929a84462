from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dpaudit.config.card import STATEMENTS
from dpaudit.core.errors import ConfigError
from dpaudit.core.estimate import Estimate
from dpaudit.record.result import STRONGEST, AuditResult, FindingRecord, Measurement
from dpaudit.reports.card.build import card_of
from dpaudit.reports.card.document import PrivacyCard

Make = Callable[..., AuditResult]


def with_measurements(result: AuditResult, *found: Measurement) -> AuditResult:
    return result.model_copy(update={"measurements": [*result.measurements, *found]})


def measurement(metric: str, value: float = 0.5, **fields: Any) -> Measurement:
    estimate = Estimate.exact(value, "by hand")
    here = {"model": "published", "epsilon": 1.0, "estimate": estimate}
    return Measurement.model_validate({**here, "metric": metric, **fields})


def stating(result: AuditResult, **card: Any) -> AuditResult:
    return result.model_copy(update={"config": {**result.config, "card": card}})


def test_what_the_owner_does_not_state_is_not_stated(result: AuditResult) -> None:
    said = card_of(stating(result, owner="Film shop", actors=["users", "shop"])).stated
    assert set(said) == set(STATEMENTS)
    assert (said.pop("owner"), said.pop("actors")) == ("Film shop", ["users", "shop"])
    assert {str(value) for value in said.values()} == {"not stated"}
    nothing = card_of(result).stated
    assert {str(value) for value in nothing.values()} == {"not stated"}


def test_every_record_has_a_card(hard: AuditResult) -> None:
    card = card_of(hard)
    assert len(card.guarantees) == len(hard.points)
    assert PrivacyCard.model_validate(card.model_dump()) == card


def test_no_compliance_is_claimed(result: AuditResult) -> None:
    assert any("no compliance with any law" in limit for limit in card_of(result).limits)


def test_of_several_efforts_the_last_is_shown(result: AuditResult) -> None:
    efforts = [
        measurement("sybil.accuracy", effort / 100, attack="dynamic", effort=effort)
        for effort in (1, 10, 30)
    ]
    shown = card_of(with_measurements(result, *efforts)).measured
    rows = [row for row in shown if row.metric == "sybil.accuracy"]
    assert [(row.of, row.value) for row in rows] == [("dynamic, effort 30", 0.3)]


def test_of_membership_attacks_the_strongest_is_shown_and_groups_apart(
    result: AuditResult,
) -> None:
    seen = {"observer": "scores", "unit": "user"}
    measurements = [
        measurement("attack.tpr", 0.4, attack=STRONGEST, at=0.01, **seen),
        measurement("attack.tpr", 0.3, attack="lira", at=0.01, **seen),
        measurement("membership.group", 0.1, attack=STRONGEST, group="few", **seen),
        measurement("membership.group", 0.2, attack=STRONGEST, group="many", **seen),
    ]
    shown = card_of(with_measurements(result, *measurements)).measured
    rates = [row for row in shown if row.metric == "attack.tpr"]
    assert [(rate.of, rate.value) for rate in rates] == [("strongest, at 1 %, scores, user", 0.4)]
    groups = [row for row in shown if row.metric == "membership.group"]
    assert [(row.group, row.value) for row in groups] == [("few", 0.1), ("many", 0.2)]


def test_references_are_no_results_of_attacks(result: AuditResult) -> None:
    measurements = [
        measurement("reconstruction.rmse", attack="reconstruction", basis=basis)
        for basis in ("released model", "model without them", "item means", "leak")
    ]
    shown = card_of(with_measurements(result, *measurements)).measured
    of = [row.of for row in shown if row.metric == "reconstruction.rmse"]
    assert of == ["reconstruction, released model", "reconstruction, leak"]


def test_games_say_which_mutants_they_found(result: AuditResult) -> None:
    games = [row for row in card_of(result).measured if row.metric == "epsilon"]
    assert [game.power for game in games] == ["finds 1.25×", "finds 1.25×", "none up to 4×"]


def test_a_grid_search_is_told(result: AuditResult) -> None:
    points = [point.model_copy(update={"chosen": {"epochs": 20}}) for point in result.points[:2]]
    tuned = result.model_copy(update={"points": [*points, *result.points[2:]]})
    (mechanism,) = card_of(tuned).mechanisms
    assert mechanism.tuned == "epochs = 20 at ε = 0.1; epochs = 20 at ε = 1"


def test_what_was_noticed_about_the_implementation_is_told(result: AuditResult) -> None:
    noticed = FindingRecord(model="published", about="seed", text="It has no seed.", remedy="Seed.")
    counted = measurement("assumption.denominator", 0.25, step=3)
    recorded = with_measurements(result, counted).model_copy(
        update={"findings": [noticed, noticed]}
    )
    precision, share, finding = card_of(recorded).correctness
    assert precision.startswith("Finite precision")
    assert share.startswith("published at ε = 1: share of a training's denominators")
    assert share.endswith("(step 3): 0.25.")
    assert finding == "published: It has no seed. Seed."


def test_invisible_characters_are_replaced(make: Make) -> None:
    card = card_of(stating(make(label="a\u202eb"), owner="x\u200by\nz"))
    assert card.guarantees[0].model == "a b"
    assert card.stated["owner"] == "x y\nz"


def test_a_card_that_is_none_is_one_sentence(result: AuditResult) -> None:
    for card in (5, {"owner": 3}, {"curator": "me"}):
        changed = result.model_copy(update={"config": {"card": card}})
        with pytest.raises(ConfigError, match="run the audit again"):
            card_of(changed)
