from __future__ import annotations

import math
from typing import Any

import pytest

from dpaudit.config.schema import STATEMENTS
from dpaudit.core.claim import LONGER, LONGEST
from dpaudit.core.errors import ConfigError
from dpaudit.core.estimate import Estimate
from dpaudit.record.result import STRONGEST, AuditResult, FindingRecord, Measurement
from dpaudit.reports import palette
from dpaudit.reports.card.build import card_of, deployed_part, deployment_of
from dpaudit.reports.card.document import PrivacyCard
from dpaudit.reports.sections import verdicts
from tests.reports.render.test_card_sheet import sheet_parts
from tests.support.records import Make, accuracy, stating


def with_measurements(result: AuditResult, *found: Measurement) -> AuditResult:
    return result.model_copy(update={"measurements": [*result.measurements, *found]})


def measurement(metric: str, value: float = 0.5, **fields: Any) -> Measurement:
    estimate = Estimate.exact(value, "by hand")
    here = {"model": "published", "epsilon": 1.0, "estimate": estimate}
    return Measurement.model_validate({**here, "metric": metric, **fields})


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


def test_of_membership_attacks_the_strongest_is_shown_and_groups_apart(result: AuditResult) -> None:
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
    assert share.startswith("published at ε = 1: share of ")
    assert share.endswith("(step 3): 0.25.")
    assert finding == "It has no seed. Seed."


def test_invisible_characters_are_replaced(make: Make) -> None:
    card = card_of(stating(make(label="a\u202eb"), owner="x\u200by\nz"))
    assert card.guarantees[0].model == "a b"
    assert card.stated["owner"] == "x y\nz"


def test_a_card_that_is_none_is_one_sentence(result: AuditResult) -> None:
    for card in (5, {"owner": 3}, {"curator": "me"}):
        changed = result.model_copy(update={"config": {"card": card}})
        with pytest.raises(ConfigError, match="run the audit again"):
            card_of(changed)


def test_one_point_needs_no_choice(make: Make) -> None:
    part = deployed_part(make(epsilons=(1.0,)))
    assert len(part.points) == 1
    assert deployment_of(part).choice == ""


def test_several_points_are_all_kept_until_one_is_named(result: AuditResult) -> None:
    part = deployed_part(result)
    assert part.points == result.points
    said = deployment_of(part).choice
    assert said.startswith("Not chosen: 3 were audited")
    assert said.endswith("(card.epsilon).")


def test_the_keys_that_are_named_are_those_that_choose(lists: AuditResult) -> None:
    assert "(card.model and card.epsilon)" in deployment_of(lists).choice
    assert "(card.epsilon)" in deployment_of(stating(lists, model="chain")).choice
    assert "(card.model)" in deployment_of(stating(lists, epsilon=1.0)).choice


def test_what_is_about_other_models_is_left_out(lists: AuditResult) -> None:
    findings = [
        FindingRecord(model=model, about="seed", text="t", remedy="r", epsilon=epsilon)
        for model, epsilon in (("chain", None), ("chain", 1.0), ("chain", 0.1), ("joint", None))
    ]
    noticed = lists.model_copy(update={"findings": findings})
    part = deployed_part(stating(noticed, model="chain", epsilon=1.0))
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
    part = deployed_part(stating(make(**changes), **card))
    word = verdicts.badge(part, part.models)
    assert (word.text, word.tone) == badge


def test_nothing_measured_is_not_attacked(make: Make) -> None:
    bare = make(epsilons=(math.inf,), game=False)
    part = deployed_part(bare.model_copy(update={"measurements": []}))
    assert verdicts.badge(part, part.models) == palette.NOT_ATTACKED


@pytest.mark.parametrize("card", [{"model": "other"}, {"epsilon": 7.0}])
def test_a_model_that_was_not_audited_is_one_sentence(
    result: AuditResult, card: dict[str, Any]
) -> None:
    with pytest.raises(ConfigError, match="is no audited"):
        deployed_part(stating(result, **card))


def test_one_point_is_the_deployed_one(make: Make) -> None:
    found = deployment_of(make(epsilons=(1.0,)))
    assert (found.model, found.epsilon, found.choice) == ("published", 1.0, "")
    assert found.protected == "One rating is added or removed."
    assert found.utility.startswith("overlap@k: 0.500")


def test_a_sweep_without_a_choice_has_no_deployed_epsilon(result: AuditResult) -> None:
    found = deployment_of(result)
    assert (found.model, found.epsilon) == (None, None)
    assert "card.epsilon" in found.choice


def test_an_assumption_that_fails_is_counted(make: Make) -> None:
    base = make(epsilons=(1.0,))
    counted = [
        Measurement(
            metric="assumption.norm",
            model="published",
            epsilon=1.0,
            step=step,
            part=part,
            estimate=Estimate.exact(value, "counted"),
        )
        for step, part, value in ((1, LONGER, 0.2), (2, LONGER, 0.29), (2, LONGEST, 1.7))
    ]
    floor = counted[0].model_copy(
        update={"metric": "assumption.floor", "part": None, "estimate": Estimate.exact(0.0, "none")}
    )
    record = base.model_copy(update={"measurements": [*counted, floor]})
    assert deployment_of(record).violated == {f"length of users' factors, {LONGER}": 0.29}
    numbers = {fact.name: fact.text for fact in sheet_parts(card_of(record))["Numbers"].facts}
    assert numbers["Not as assumed"].endswith(f": length of users' factors, {LONGER}: 0.29.")
    assert deployment_of(base).violated == {}


@pytest.mark.cases(
    ("value", "lower", "upper", "shown"),
    [
        (0.42, 0.28, 0.54, ("42 of 100", "28 to 54")),
        # An interval is rounded outwards.
        (0.42, 0.2801, 0.5301, ("42 of 100", "28 to 54")),
        (0.004, 0.0001, 1.0, ("under 1 of 100", "0 to 100")),
    ],
)
def test_what_is_found_has_an_interval_of_as_many(
    make: Make, value: float, lower: float, upper: float, shown: tuple[str, str]
) -> None:
    base = make(epsilons=(1.0,))
    measurements = [accuracy(value, lower, upper)]
    (row,) = deployment_of(base.model_copy(update={"measurements": measurements})).found
    assert (row["found"], row["range or interval"]) == shown
    assert row["attacker"] == "a"
