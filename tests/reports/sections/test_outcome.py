"""Why a run has its outcome, and what to do next."""

from __future__ import annotations

import math
import re
from datetime import date
from typing import Any

import pytest

from dpaudit.auditor.gate import judge_run
from dpaudit.record.result import STRONGEST, AuditResult, GateRecord, Measurement, Waiver
from dpaudit.reports.sections.outcome import next_step, reason_of
from tests.reports.sections.test_verdicts import low
from tests.support.records import Make, accuracy, estimate, judged, make_result, numbers_of

FALSE = "Of 3 privacy claims: 2 false (not set to stop the run), 1 too weak to tell."
ACCURACY = {"metric": "attack.accuracy", "where": {"epsilon": 1.0, "attack": "one prediction"}}


def gated(result: AuditResult, outcome: Any, table: dict[str, Any], **fields: Any) -> AuditResult:
    numbers = numbers_of(result, table, outcome)
    gate = GateRecord(
        id="gate", rule="a rule", outcome=outcome, reason="because", numbers=numbers, **fields
    )
    config = {**result.config, "gate": [table]}
    return judged(result.model_copy(update={"config": config, "gates": [gate]}))


def test_a_false_claim_that_fails_the_run_says_by_how_much(make: Make) -> None:
    result = judged(make(gate=False).model_copy(update={"fail_on_false_claim": True}))
    # 2.7183 is certified where 0.1 and 1 are claimed.
    assert reason_of(result) == (
        "The privacy claim is false: an attack shows a leak of at least 27.18 times what is "
        "claimed; 1 more claim is false."
    )


def test_a_gate_that_fails_is_a_frequency(make: Make) -> None:
    result = gated(low(make()), "fail", {**ACCURACY, "max": 0.3})
    assert reason_of(result) == (
        "40 of 100 hidden ratings are recovered; a guess finds 20; the limit is 30."
    )


def test_a_gate_that_is_open_says_what_decides_it(make: Make) -> None:
    result = gated(low(make()), "inconclusive", {**ACCURACY, "max": 0.41}, trainings=38)
    assert reason_of(result) == (
        "This run is too small to tell on which side of the limit the model is: 40 of 100 hidden "
        "ratings are recovered; a guess finds 20; the limit is 41; 38 trainings like these decide "
        "it."
    )


@pytest.mark.cases(
    ("table", "said"),
    [
        (
            {"metric": "epsilon", "max": 0.5, "detectable": 2.0},
            "published at ε = 0.1: an attack shows a leak of at least 5.43 times the limit.",
        ),
        (
            {"metric": "epsilon", "max": "claim", "detectable": 2.0},
            "published at ε = 0.1: an attack shows a leak of at least 27.18 times the claim.",
        ),
        (
            {"metric": "utility.rmse", "max": 1.0},
            "published at ε = 0.1: rmse is 1.234, and is to be at most 1.",
        ),
        (
            {"metric": "utility.overlap", "min": 0.95, "where": {"epsilon": 0.1}},
            "published at ε = 0.1: overlap@k is 0.091, and is to be at least 0.95.",
        ),
        ({"metric": "other.metric", "max": 1.0}, "a rule: because."),
    ],
)
def test_other_gates_name_their_number_and_limit(
    make: Make, table: dict[str, Any], said: str
) -> None:
    assert reason_of(gated(make(), "fail", table)) == f"{said} {FALSE}"


def test_the_number_of_a_gate_is_one_that_it_judges(make: Make) -> None:
    base = make(epsilons=(1.0,), game=False, attacks=False, rated=False)

    def rate(attack: str, value: float) -> Measurement:
        bounds = estimate(value, value, value)
        where: dict[str, Any] = {"model": "published", "epsilon": 1.0, "at": 0.01}
        target = {"unit": "interaction", "observer": "scores"}
        return Measurement(metric="attack.tpr", attack=attack, estimate=bounds, **target, **where)

    # An attack that did better by chance was not chosen, and no gate is about it.
    rates = [rate("lira", 0.5), rate(STRONGEST, 0.42)]
    result = base.model_copy(update={"kind": "membership", "measurements": rates})
    table = {"metric": "attack.tpr", "max": 0.25}
    assert reason_of(gated(result, "fail", table)).startswith("42 of 100 training inter")


def test_gates_that_pass_show_the_number_nearest_to_its_limit(make: Make) -> None:
    result = gated(low(make()), "pass", {**ACCURACY, "max": 0.5})
    assert reason_of(result) == (
        "The gate passes. Nearest to its limit: one prediction, ε = 1: 40 of 100 hidden ratings "
        "are recovered (36 to 42); a guess finds 20; the limit is 50. 5 numbers have no limit: the "
        "largest is 73 of 100 (one prediction, ε = 10). Of 3 privacy claims: 2 survived, 1 too "
        "weak to tell. Where claims survived, a leak of 1.25 times the claim is caught."
    )


def test_false_claims_that_stop_nothing_are_named(make: Make) -> None:
    result = gated(make(), "pass", {**ACCURACY, "max": 0.5})
    assert FALSE in reason_of(result)
    # One that a gate stops, or leaves open, hides none.
    for outcome in ("fail", "inconclusive"):
        stopped = gated(make(), outcome, {**ACCURACY, "max": 0.5})
        assert reason_of(stopped).endswith(FALSE)


def test_less_than_a_guess_is_said(make: Make) -> None:
    base = make(epsilons=(1.0,))
    weak = base.model_copy(update={"measurements": [accuracy(0.13, 0.1, 0.16)]})
    said = reason_of(gated(weak, "pass", {**ACCURACY, "max": 0.5, "where": {}}))
    assert "13 of 100 hidden ratings are recovered (10 to 16); less than a guess, 20; the" in said


def test_a_model_none_of_whose_claims_was_tested_is_named(make: Make) -> None:
    base = judged(low(make(gate=False)))
    other = [
        one.model_copy(update={"model": "other", "verdict": "not tested", "reason": "no power"})
        for one in base.verdicts
    ]
    result = base.model_copy(update={"verdicts": [*base.verdicts, *other], "outcome": "go"})
    assert reason_of(result) == (
        "No gate is set. Of 6 privacy claims: 2 survived, 4 too weak to tell. No claim of other "
        "was decided. Where claims survived, a leak of 1.25 times the claim is caught."
    )


def test_without_a_decision_nothing_passes(make: Make) -> None:
    result = judged(make(gate=False, game=False))
    said = reason_of(result)
    assert said.startswith("Nothing was decided: no gate is set, and no claim was tested.")
    assert "73 of 100 hidden ratings are recovered" in said
    assert "pass" not in said


def test_a_gate_that_fails_is_judged_anew_or_the_model_is_changed(make: Make) -> None:
    assert next_step(make()).startswith("Next: change the model ")


def test_a_false_claim_is_corrected_or_waived(make: Make) -> None:
    strict = judged(make().model_copy(update={"fail_on_false_claim": True}))
    assert next_step(strict).endswith("[[waiver]] with id = 'claim/published/0.1'.")


def test_an_expired_waiver_is_reviewed(make: Make) -> None:
    waiver = Waiver(id="gate/epsilon/max", owner="o", statement="s", expires=date(2027, 1, 1))
    late = judge_run(make(), date(2027, 1, 2), waivers=[waiver])
    assert "expired waiver" in next_step(late)


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
    assert next_step(result.model_copy(update={"gates": gates})) == said


def test_without_a_decision_a_gate_on_what_was_measured_is_named(make: Make) -> None:
    free = make(epsilons=(math.inf,), gate=False, game=False)
    said = next_step(free)
    assert "a [[gate]] with metric = 'attack.accuracy'" in said
    assert "'dpaudit gate FOLDER --policy FILE'" in said
    assert re.search(r"audit\.require_decision = true .* exits with 4\.$", said)
    nothing = make(epsilons=(math.inf,), gate=False, game=False, attacks=False)
    assert "by a [[gate]], and" in next_step(nothing)
    claimed = make(epsilons=(10.0,), gate=False)
    assert next_step(claimed).startswith("Next: test the claim")


def test_a_go_is_kept_as_the_next_baseline(make: Make) -> None:
    assert "--baseline" in next_step(make(outcome="pass"))
