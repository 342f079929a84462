"""What decides what a run leaves open, or mends what it found."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import date
from typing import Any

import pytest

from dpaudit.auditor.judgement import judge_run
from dpaudit.record.result import AuditResult
from dpaudit.record.waivers import Waiver
from dpaudit.reports.sections.next_step import sentence
from tests.support.records import judged, make_result

Make = Callable[..., AuditResult]


def test_a_gate_that_fails_is_judged_anew_or_the_model_is_changed(make: Make) -> None:
    assert sentence(make()).startswith("Next: change the model and run again, or correct the limit")


def test_a_false_claim_is_corrected_or_waived(make: Make) -> None:
    strict = judged(make().model_copy(update={"fail_on_false_claim": True}))
    assert sentence(strict).endswith("[[waiver]] with id = 'claim/published/0.1'.")


def test_an_expired_waiver_is_reviewed(make: Make) -> None:
    waiver = Waiver(id="gate/epsilon/max", owner="o", statement="s", expires=date(2027, 1, 1))
    late = judge_run(make(), date(2027, 1, 2), waivers=[waiver])
    assert "expired waiver" in sentence(late)


@pytest.mark.cases(
    ("fields", "said"),
    [
        ([{"remedy": "use more game.trials"}], "Next: use more game.trials."),
        (
            [{"trainings": 40}],
            "Next: set membership.trainings = 40, which decides if further trainings show the "
            "like.",
        ),
        (
            [{"trainings": 40}, {"remedy": "Correct what it predicts"}, {"trainings": 80}],
            "Next: set membership.trainings = 80, which decides if further trainings show the "
            "like; and correct what it predicts.",
        ),
        # What passes has nothing to decide.
        ([{"remedy": "use this"}, {"outcome": "pass", "remedy": "not this"}], "Next: use this."),
        ([{}], "Next: do what the reason of the gate asks."),
    ],
)
def test_an_undecided_gate_names_what_decides_it(fields: list[dict[str, Any]], said: str) -> None:
    result = make_result(outcome="inconclusive")
    gates = [result.gates[0].model_copy(update=changes) for changes in fields]
    assert sentence(result.model_copy(update={"gates": gates})) == said


def test_without_a_decision_a_gate_on_what_was_measured_is_named(make: Make) -> None:
    free = make(epsilons=(math.inf,), gate=False, game=False)
    assert sentence(free) == (
        "Next: set a limit by a [[gate]] with metric = 'attack.accuracy', and judge this run by "
        "it: 'dpaudit gate FOLDER --policy FILE'; with audit.require_decision = true a run that "
        "decides nothing exits with 4."
    )
    nothing = make(epsilons=(math.inf,), gate=False, game=False, attacks=False)
    assert "set a limit by a [[gate]], and" in sentence(nothing)
    claimed = make(epsilons=(10.0,), gate=False)
    assert sentence(claimed).startswith("Next: test the claim")


def test_a_go_is_kept_as_the_next_baseline(make: Make) -> None:
    assert "--baseline" in sentence(make(outcome="pass"))
