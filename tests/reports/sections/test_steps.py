"""What to do next after a run."""

from __future__ import annotations

import math
from datetime import date
from typing import Any

import pytest

from dpaudit.auditor.gate import judge_run
from dpaudit.record.result import AuditResult, PlaceRecord, Waiver
from dpaudit.reports.sections.steps import steps
from tests.support.records import Make, judged, make_result


def said_next(result: AuditResult) -> list[str]:
    return [f"{step.name} {step.text}" for step in steps(result)]


def test_a_gate_that_fails_is_judged_anew_or_the_model_is_changed(make: Make) -> None:
    mend, limit, accept = steps(make())
    assert mend.command == "dpaudit run dpaudit.toml"
    assert limit.command == "dpaudit gate dpaudit-out/dpaudit --policy limits.toml"
    assert accept.command == "dpaudit gate dpaudit-out/dpaudit --waivers waivers.toml"
    assert "'gate/epsilon/max'" in accept.text


def test_commands_name_the_config_and_the_folder_of_the_run(make: Make) -> None:
    place = PlaceRecord(path="my audits/a.toml", line=3)
    result = make().model_copy(update={"origin": {"gate/epsilon/max": place}})
    assert steps(result)[0].command == "dpaudit run 'my audits/a.toml'"
    assert steps(result)[1].command.startswith("dpaudit gate dpaudit-out/a --policy ")
    assert steps(result, "out")[1].command.startswith("dpaudit gate out --policy ")


def test_a_false_claim_is_corrected_or_waived(make: Make) -> None:
    strict = judged(make().model_copy(update={"fail_on_false_claim": True}))
    assert "[[waiver]] with id = 'claim/published/0.1'" in said_next(strict)[-1]


def test_an_expired_waiver_is_reviewed(make: Make) -> None:
    waiver = Waiver(id="gate/epsilon/max", owner="o", statement="s", expires=date(2027, 1, 1))
    late = judge_run(make(), date(2027, 1, 2), waivers=[waiver])
    assert [step.name for step in steps(late)] == ["Review"]


@pytest.mark.cases(
    ("fields", "said"),
    [
        ([{"remedy": "use more game.trials"}], [("Decide: use more game.trials", "")]),
        (
            [{"remedy": "Set membership.trainings = 28 with membership.calibrating = 9, as said"}],
            [
                (
                    "Decide: set membership.trainings = 28 with membership.calibrating = 9, as "
                    "said",
                    "dpaudit run dpaudit.toml -s membership.trainings=28 "
                    "-s membership.calibrating=9",
                )
            ],
        ),
        (
            [{"trainings": 40}],
            [
                (
                    "Train 40 models in all, which decides if the others are like these",
                    "dpaudit run dpaudit.toml -s membership.trainings=40",
                )
            ],
        ),
        (
            [{"trainings": 40}, {"remedy": "Correct what it predicts"}, {"trainings": 80}],
            [
                (
                    "Train 80 models in all, which decides if the others are like these",
                    "dpaudit run dpaudit.toml -s membership.trainings=80",
                ),
                ("Decide: correct what it predicts", ""),
            ],
        ),
        # What passes has nothing to decide.
        (
            [{"remedy": "use this"}, {"outcome": "pass", "remedy": "not this"}],
            [("Decide: use this", "")],
        ),
    ],
)
def test_an_undecided_gate_names_what_decides_it(
    fields: list[dict[str, Any]], said: list[tuple[str, str]]
) -> None:
    result = make_result(outcome="inconclusive")
    gates = [result.gates[0].model_copy(update=changes) for changes in fields]
    next_steps = steps(result.model_copy(update={"gates": gates}))
    assert [(f"{step.name} {step.text}", step.command) for step in next_steps] == said


def test_without_a_decision_a_gate_on_what_was_measured_is_named(make: Make) -> None:
    free = make(epsilons=(math.inf,), gate=False, game=False)
    limit, required = steps(free)
    assert "a [[gate]] with metric = 'attack.accuracy'" in limit.text
    assert limit.command.endswith("--policy limits.toml")
    assert required.command.endswith("-s audit.require_decision=true")
    nothing = make(epsilons=(math.inf,), gate=False, game=False, attacks=False)
    assert "by a [[gate]] in" in steps(nothing)[0].text
    claimed = make(epsilons=(10.0,), gate=False)
    assert steps(claimed)[0].name == "Test the claim"


def test_a_go_is_kept_as_the_next_baseline(make: Make) -> None:
    assert "--baseline" in steps(make(outcome="pass"))[0].command
