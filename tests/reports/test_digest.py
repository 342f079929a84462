"""Sentences that readable reports make of a record."""

from __future__ import annotations

from typing import Any

import pytest

from dpaudit.record.result import AuditResult, GateRecord
from dpaudit.reports.digest import command, exhausted, why
from tests.support.records import Make


@pytest.mark.cases(
    ("pace", "words"),
    [
        (None, "too few; 40 trainings in all decide it if the others are like these"),
        (1.0, "like these, less than a minute more on one worker"),
        (20.0, "like these, about 5 minutes more on one worker"),
        (2000.0, "like these, about 9 hours more on one worker"),
    ],
)
def test_a_gate_says_how_many_trainings_and_how_much_time_decide_it(
    result: AuditResult, pace: float | None, words: str
) -> None:
    """The time is in the record's timing alone, which differs from run to run."""
    point: Any = result.points[0]
    timed = result.model_copy(
        update={
            "config": {**result.config, "membership": {"trainings": 24}},
            "points": [point],
            "timing": result.timing.model_copy(update={"training": pace}),
        }
    )
    gate = GateRecord(id="g", rule="r", outcome="inconclusive", reason="too few", trainings=40)
    assert why(gate, timed).endswith(words)
    assert why(gate.model_copy(update={"trainings": None}), timed) == "too few"


@pytest.mark.cases(
    ("tables", "code"),
    [
        ({"defense": {"target": "mine:noise"}}, True),
        ({"dp-training": {"target": "mine:train"}}, True),
        ({"recommender": [{"library": "implicit"}, {"command": "train.sh"}]}, True),
        ({"recommender": [{"library": "implicit", "target": None}], "model": []}, False),
    ],
)
def test_the_command_that_runs_a_config_allows_its_code(
    result: AuditResult, tables: dict[str, Any], code: bool
) -> None:
    ran = command(result.model_copy(update={"config": tables}))
    assert ran == f"dpaudit run dpaudit.toml{' --allow-code' if code else ''}"


@pytest.mark.cases(("lower", "full"), [(7.98, True), (7.0, False), (0.0, False)])
def test_a_bound_near_the_most_that_its_trials_certify_may_be_more(
    make: Make, lower: float, full: bool
) -> None:
    """So many trials, all guessed right, certify an ε of 8.11 at most."""
    record = make(epsilons=(3.0,))
    (game,) = (one for one in record.measurements if one.metric == "epsilon")
    bound = game.estimate.changed(value=lower, lower=lower, n=10_000, alpha=0.05)
    (verdict,) = (one for one in record.verdicts if one.epsilon == 3.0)
    record = record.model_copy(
        update={"measurements": [game.model_copy(update={"estimate": bound})]}
    )
    assert exhausted(verdict.model_copy(update={"certified": lower}), record) is full
