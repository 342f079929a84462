"""What is said of models that forget: forgotten, not forgotten, or undecided."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Sequence
from datetime import date
from typing import Any

import numpy as np
import pytest
from membership_cases import Ignorant, small_ratings, small_table  # type: ignore[import-not-found]
from pydantic import ValidationError
from rich.console import Console

from dpaudit.auditor.gate import Trainings, judge, judge_run
from dpaudit.auditor.measure import Context
from dpaudit.auditor.plan import Plan
from dpaudit.auditor.trainings import diverged
from dpaudit.audits.deletion.sections import printed, sentence, units, witnessed, word
from dpaudit.audits.membership.config import Membership, MembershipConfig
from dpaudit.audits.membership.design import Design
from dpaudit.audits.membership.measures import MemberModels, MembershipInferences
from dpaudit.audits.membership.sections import MembershipSections
from dpaudit.audits.models.config import OwnRecommender, StatedClaim
from dpaudit.audits.models.subject import MemberModel, MemberPoint
from dpaudit.config.gate import Gate, picked_by
from dpaudit.core.errors import ConfigError
from dpaudit.core.membership import WITNESS
from dpaudit.data.interactions import Interactions
from dpaudit.execution.executor import Executor
from dpaudit.recommenders.base import Answer, Query, Took, Trainable
from dpaudit.record.result import STRONGEST, AuditResult
from dpaudit.record.values import TRACE, Control
from dpaudit.reports import palette
from dpaudit.reports.card import answers
from dpaudit.reports.card.build import card_of
from dpaudit.reports.card.sections import Fact, appendix
from dpaudit.reports.render import markdown
from dpaudit.reports.render.console import show
from dpaudit.reports.sections import screen, verdicts
from dpaudit.reports.sections.base import Printed, sections_of
from dpaudit.reports.sections.outcome import decision_of
from dpaudit.reports.sections.steps import steps
from tests.reports.render.test_card_sheet import sheet_parts
from tests.support.membership_records import game, measured, record
from tests.support.records import Make

GAMES = ("scores", "own-list")


def control(found: bool, epsilon: float = 0.5) -> Control:
    return Control(
        mutant="a planted leak",
        factor=2.0,
        epsilon=epsilon,
        certified=0.3 * found,
        found=found,
        noise=TRACE,
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
    config = {"recommender": tables, "membership": {"interactions": 300, "trainings": 8}}
    whole = record(make, measurements=[*bounds, *gains], config=config)
    several = {
        "models": [whole.models[0].model_copy(update={"label": label}) for label in labels],
        "points": [
            whole.points[0].model_copy(update={"model": table["label"], "forget": table["forget"]})
            for table in tables
        ],
        "attacks": {"lira": {}, "rmia": {}},
    }
    return whole.model_copy(update=several)


def verdict(result: AuditResult) -> str:
    return sentence(result, "own", "interaction")


def test_a_certified_bound_says_not_forgotten(make: Make) -> None:
    result = deleted(make, 0.5, True, True)
    said = verdict(result)
    assert said.startswith("Deletion by its own method. NOT FORGOTTEN: ")
    assert said.endswith("(ε at least 0.50).")
    assert "scores of the target's own" in said
    assert word(result, "own", "interaction") == palette.NOT_FORGOTTEN


def test_forgotten_needs_a_planted_leak_that_all_observers_find(make: Make) -> None:
    result = deleted(make, 0.0, True, True)
    # A leak of ε = 0.5 is right with probability e^0.5 / (1 + e^0.5) = 0.6225.
    said = verdict(result)
    assert said.startswith("Deletion by its own method. FORGOTTEN, ")
    assert "63 of 100 guesses are right, where chance has 50." in said
    assert word(result, "own", "interaction") == palette.FORGOTTEN
    result = deleted(make, 0.0, True, False)
    assert "UNDECIDED" in verdict(result)
    assert "FORGOTTEN" not in verdict(result)
    assert word(result, "own", "interaction") == palette.DELETION_UNDECIDED


def test_what_is_left_stands_beside_the_model_that_forgets_nothing(make: Make) -> None:
    result = deleted(make, 0.5, True, True, before=True)
    assert verdict(result).endswith(
        "is 0.250 [0.125, 0.375], and 0.500 [0.375, 0.625] before the deletion."
    )
    assert not units(result, "kept")


def test_the_seconds_of_a_deletion_stand_beside_those_of_a_training(make: Make) -> None:
    result = deleted(make, 0.5, True, True)
    timing = result.timing.model_copy(update={"deletions": {"own": (9.04, 0.123)}})
    timed = result.model_copy(update={"timing": timing})
    assert verdict(timed).endswith("in 0.12 s; a training takes 9.0 s.")


class Timed(Trainable):
    """Forgets nothing, and says how long it took."""

    def answer(self, interactions: Interactions, seed: int, query: Query) -> Answer:
        shown: Answer = Ignorant().answer(interactions, seed, query)
        return shown._replace(took=Took(2.0 + seed % 2, 0.5))


def test_seconds_are_means_over_trainings_and_no_measurement() -> None:
    table = {"observers": ["scores"], "trainings": 3, "interactions": 60, "held_out": 40}
    config = MembershipConfig.model_validate(
        {
            "data": {"format": "synthetic"},
            "membership": {**table, "users": 24, "rates": [0.5]},
            "recommender": {"library": "most-popular"},
        }
    )
    ratings, executor = small_ratings(), Executor()
    subject = MemberModels.of(Context(config, Plan(config).family, executor), ratings)
    point = MemberPoint(math.inf, Timed(), None)
    model = MemberModel(config.recommender[0], [point], ["scores"], ratings.scale, 4)
    list(MembershipInferences(subject).run(model))
    seconds = [2.0 + subject.design.training_seed(index) % 2 for index in range(3)]
    assert executor.clock.deletions["most-popular"] == pytest.approx((np.mean(seconds), 0.5))


def test_every_report_names_what_became_of_the_deletion(make: Make) -> None:
    result = deleted(make, 0.0, True, True, before=True)
    one, other = verdicts.of(result)
    assert (one.model, one.badge) == ("kept", palette.LEAK_MEASURED)
    assert (other.model, other.badge) == ("own", palette.FORGOTTEN)
    assert list(other.judged) == [verdict(result)]
    assert other.sentences[0] == verdict(result)
    console = Console(width=200, record=True, file=io.StringIO())
    show(result, console, details=False)
    shown = console.export_text()
    assert "FORGOTTEN  own" in shown
    assert verdict(result) in " ".join(shown.split())
    assert "**FORGOTTEN** own" in markdown.render(result)
    answer = answers.erasure(result)
    assert (answer.status, answer.lines) == ("to judge", [f"own: {verdict(result)}"])
    failed = judge_run(result, date(2026, 1, 1), gates=[Gate(metric="deletion.advantage", max=0.1)])
    [fact] = [text for text in screen.of(failed).warnings if text.startswith("Deletion: ")]
    # A gate that fails certifies a trace.
    assert fact.startswith("Deletion: NOT FORGOTTEN: ")
    [without] = [text for _, text in sections_of(result).judged(result.models[0])]
    assert without.startswith("Deletion by its own method. FORGOTTEN, ")
    fact = printed(result).result
    assert decision_of(result).reason.endswith(f"no gate is set. {fact}")
    assert not any(text.startswith("Deletion") for text in screen.of(result).warnings)
    assert "[[gate]] with metric = 'deletion.advantage'" in steps(result)[0].text


def test_several_deletions_fit_the_page_of_a_card(make: Make) -> None:
    result = deleted(make, 0.5, True, True)
    names = [f"way {number}" for number in range(6)]
    several = {
        name: [
            one.model_copy(update={"label" if name == "models" else "model": label})
            for label in names
            for one in getattr(result, name)
        ]
        for name in ("models", "points", "measurements", "verdicts")
    }
    card = card_of(result.model_copy(update=several))
    shown = sheet_parts(card)["Deletion"]
    [table] = shown.tables
    assert len(table.cells) == 4
    assert table.note.startswith("2 more results")
    assert len(card.deployment.results) == 6
    assert "Result" not in {fact.name for fact in shown.facts}
    [section] = [section for section in appendix(card) if section.heading == "Deletion"]
    assert len(section.tables[0].cells) == 6
    alone = sheet_parts(card_of(result))
    assert [fact.name for fact in alone["Deletion"].facts] == ["Deleted", "Tried"]
    gated = judge_run(result, date(2026, 1, 1), gates=[Gate(metric="deletion.advantage", max=0.1)])
    assert sheet_parts(card_of(gated))["Deletion"].facts[0].name == "Result"
    assert "one interaction was deleted" in named(alone["Threat model"].facts)["Protected"]


def named(facts: Sequence[Fact]) -> dict[str, str]:
    return {fact.name: fact.text for fact in facts}


def test_a_card_says_what_was_deleted_what_was_tried_and_what_became_of_it(make: Make) -> None:
    about, found, facts, [row] = printed(deleted(make, 0.5, True, True, before=True))
    assert about == "Deletion"
    assert list(facts) == ["Deleted", "Tried"]
    assert found.startswith("NOT FORGOTTEN: ")
    assert "ε" not in found
    assert facts["Deleted"].startswith("300 interactions: ")
    assert facts["Tried"].startswith("2 attacks on 8 trainings")
    assert row == {
        "model": "own",
        "deleted": "interactions, in 9 requests",
        "by": "its own method",
        "result": "NOT FORGOTTEN",
        "told by": "who sees the scores of the target's own (user, item) pairs",
    }
    [row] = printed(deleted(make, 0.0, True, True)).results
    assert re.match("nobody; .*63 of 100", row["told by"])
    [row] = printed(deleted(make, 0.0, True, False)).results
    assert row["told by"].startswith("nobody; too few")
    assert printed(record(make)) == Printed()


@pytest.mark.parametrize(
    ("lower", "said"),
    [
        (2.5, "tells which interactions were deleted, ε at least 2.50"),
        (0.0, "was not shown to tell"),
    ],
)
def test_who_saw_both_models_has_a_sentence_of_its_own(make: Make, lower: float, said: str) -> None:
    result = deleted(make, 0.0, True, True, before=True)
    more = [
        game("interaction", WITNESS, lower, control=control(False)),
        measured("attack.advantage", "interaction", WITNESS, 0.9, STRONGEST, model="own"),
    ]
    every = result.model_copy(update={"measurements": [*result.measurements, *more]})
    assert verdict(every) == verdict(result)
    [apart] = witnessed(every, "own")
    assert apart.startswith("Who sees the scores ")
    assert said in apart
    rates = [
        measured("attack.tpr", "interaction", observer, 0.25, STRONGEST, at=0.01)
        for observer in ("scores", WITNESS)
    ]
    sections = MembershipSections(every.model_copy(update={"measurements": rates}))
    assert [rate.observer for rate in sections.metered()] == ["scores"]


def test_what_a_witness_would_see_was_not_tried_of_a_deletion_alone(make: Make) -> None:
    result = deleted(make, 0.0, True, True)
    assert any("after the deletion" in line for line in MembershipSections(result).untried())
    assert not any(
        "after the deletion" in line for line in MembershipSections(record(make)).untried()
    )


@pytest.mark.parametrize("table", [{"library": "most-popular"}, {"target": "model:Mine"}])
def test_a_witness_needs_a_model_that_forgets(table: dict[str, str]) -> None:
    said = "sees a deletion, and recommender .* forgets nothing: name it in the observers of a"
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
    shown = MembershipSections(result.model_copy(update={"measurements": [rate]}))
    frequency = shown.frequency(rate)
    assert frequency
    assert frequency.clause == "deleted interactions are recognised"
    assert any("that were deleted" in line for line in shown.leaks(result.models[0]))


def forgetting(*forget: str | None, **gate: Any) -> MembershipConfig:
    tables = [{"library": "most-popular", "label": str(how), "forget": how} for how in forget]
    gates = [{"metric": "deletion.advantage", "max": 0.1, **gate}]
    return MembershipConfig.model_validate({"recommender": tables, "gate": gates})


def test_a_gate_on_deletion_needs_a_model_that_forgets() -> None:
    Plan(forgetting(None, "retrain")).check_gates()
    with pytest.raises(ConfigError) as refused:
        Plan(forgetting(None)).check_gates()
    said = str(refused.value)
    assert said.startswith("gate.0.metric = 'deletion.advantage' is not measured: ")
    assert said.endswith("forget in a [[recommender]]")
    with pytest.raises(ConfigError, match=r"where\.model = 'None' .*there is own"):
        Plan(forgetting(None, "own", where={"model": "None"})).check_gates()


def test_a_gate_on_deletion_judges_every_observer_of_models_that_forget(make: Make) -> None:
    result = deleted(make, 0.5, True, True, before=True)
    gate = Gate(metric="deletion.advantage", max=0.1)
    picked = picked_by(gate, result.measurements, result.points)
    assert [(number.model, number.observer) for number in picked] == [("own", one) for one in GAMES]
    every = picked_by(Gate(metric="attack.advantage", max=0.1), result.measurements, result.points)
    assert {number.model for number in every} == {"own", "kept"}
    bound = Gate(metric="deletion.epsilon", max=0.1, detectable=4)
    assert {one.model for one in picked_by(bound, result.measurements, result.points)} == {"own"}
    record = judge(bound, result, Trainings())
    assert (record.id, record.outcome) == ("gate/deletion.epsilon/max", "fail")
    assert record.rule.startswith("deletion.epsilon <= 0.1")


def test_what_no_training_shows_leaves_a_gate_on_deletion_open(make: Make) -> None:
    result = deleted(make, 0.5, True, True, before=True)
    lost = diverged(24, 24, "membership", "own", 1.0)
    kept = [number for number in result.measurements if number.model == "kept"]
    gate = Gate(metric="deletion.advantage", max=0.1)
    without = result.model_copy(update={"measurements": kept, "findings": list(lost)})
    assert judge(gate, without, Trainings()).outcome == "inconclusive"


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
