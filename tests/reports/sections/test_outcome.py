"""Why a run has its outcome."""

from __future__ import annotations

from typing import Any

import pytest

from dpaudit.record.result import STRONGEST, AuditResult, GateRecord, Measurement
from dpaudit.reports.sections.outcome import decision_of
from tests.reports.sections.test_verdicts import low
from tests.support.records import Make, accuracy, estimate, judged, numbers_of

FALSE = "Of 3 privacy claims: 2 false (not set to stop the run), 1 too weak to tell."
ACCURACY = {"metric": "attack.accuracy", "where": {"epsilon": 1.0, "attack": "one prediction"}}


def reason_of(result: AuditResult) -> str:
    return decision_of(result).reason


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
        "claimed; 1 more claim is false. At most 5 of 100 such runs call a true claim false."
    )


def test_a_gate_that_fails_is_a_frequency(make: Make) -> None:
    result = gated(low(make()), "fail", {**ACCURACY, "max": 0.3})
    assert reason_of(result) == (
        "40 of 100 hidden ratings are recovered; the limit is 30, a guess finds 20. The interval "
        "is 36 to 42. Surely too much: its interval is over the limit for sure. Where claims "
        "survived, a leak of 1.25 times the claim is caught. At most 5 of 100 such runs stop "
        "wrongly."
    )


def test_a_gate_that_is_open_says_what_decides_it(make: Make) -> None:
    result = gated(low(make()), "inconclusive", {**ACCURACY, "max": 0.41}, trainings=38)
    assert reason_of(result) == (
        "40 of 100 hidden ratings are recovered; the limit is 41, a guess finds 20. The interval "
        "is 36 to 42. This run is too small to tell on which side of the limit the model is; 38 "
        "trainings in all decide it if the others are like these. Where claims survived, a leak of "
        "1.25 times the claim is caught."
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
    wrong = "At most 5 of 100 such runs stop wrongly."
    assert reason_of(gated(make(), "fail", table)) == f"{said} {FALSE} {wrong}"


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
        "40 of 100 hidden ratings are recovered; the limit is 50, a guess finds 20. The interval "
        "is 36 to 42. 5 numbers have no limit: the most is 73 of 100 (one prediction, ε = 10). Of "
        "3 privacy claims: 2 survived, 1 too weak to tell. Surely below the limit: no part of its "
        "interval is over it. Where claims survived, a leak of 1.25 times the claim is caught. At "
        "most 5 of 100 such runs pass wrongly."
    )


def test_of_many_gates_the_number_furthest_beyond_its_limit_leads(make: Make) -> None:
    """It is not the first one, and the others are counted."""
    base = low(make())
    limits = [0.39, 0.1, 0.3]
    tables: list[dict[str, Any]] = [{**ACCURACY, "max": limit} for limit in limits]
    gates = [gated(base, "fail", table).gates[0] for table in tables]
    config = {**base.config, "gate": tables}
    result = judged(base.model_copy(update={"config": config, "gates": gates}))
    decision = decision_of(result)
    assert decision.hero is not None
    assert decision.hero.limit == 0.1
    assert decision.sentences[0].endswith("the limit is 10, a guess finds 20; 2 more gates fail.")


def test_false_claims_that_stop_nothing_are_named(make: Make) -> None:
    result = gated(make(), "pass", {**ACCURACY, "max": 0.5})
    assert FALSE in reason_of(result)
    # One that a gate stops, or leaves open, hides none.
    for outcome in ("fail", "inconclusive"):
        stopped = gated(make(), outcome, {**ACCURACY, "max": 0.5})
        assert decision_of(stopped).sentences[-1] == FALSE


def test_less_than_a_guess_is_said(make: Make) -> None:
    base = make(epsilons=(1.0,))
    weak = base.model_copy(update={"measurements": [accuracy(0.13, 0.1, 0.16)]})
    said = reason_of(gated(weak, "pass", {**ACCURACY, "max": 0.5, "where": {}}))
    assert (
        "13 of 100 hidden ratings are recovered, fewer than by a guess, 20; the limit is 50."
        in said
    )


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
