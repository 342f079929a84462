from __future__ import annotations

import math
from typing import Any

from dpaudit.core.estimate import Estimate
from dpaudit.record.result import AuditResult
from dpaudit.record.values import Control
from dpaudit.reports import palette
from dpaudit.reports.sections import screen, verdicts
from dpaudit.reports.sections.outcome import decision_of
from tests.support.records import Make, judged


def games(result: AuditResult, **changes: Any) -> AuditResult:
    """The record with every game changed, and judged again."""
    measurements = [
        measurement.model_copy(update=changes) if measurement.metric == "epsilon" else measurement
        for measurement in result.measurements
    ]
    return judged(result.model_copy(update={"measurements": measurements}))


def low(result: AuditResult, **changes: Any) -> AuditResult:
    """The record in which no game certifies anything."""
    bound = Estimate(
        value=0.1, lower=0.0, upper=math.inf, confidence=0.95, alpha=0.01, n=9, method="m"
    )
    return games(result, estimate=bound, **changes)


def outcome_text(result: AuditResult) -> str:
    decision = decision_of(result)
    return f"{decision.word.shown}: {decision.reason}"


def test_a_false_claim_names_the_bound_the_observer_the_attack_and_the_pair(make: Make) -> None:
    [verdict] = verdicts.of(make())
    assert verdict.badge is palette.CLAIM["false"]
    assert verdict.sentences[0] == (
        "The claim is false at ε = 0.1, 1: an attack shows a leak of at least 27.18 times what is "
        "claimed."
    )
    assert verdict.sentences[1] == (
        "Where ε = 0.1 is claimed, ε at least 2.71 is certified with 95 % confidence over the "
        "whole run. The attacker sees the predictions shown to one user; the attack is "
        "likelihood-ratio on the pair support-threshold."
    )
    assert verdict.sentences[2] == (
        "Too weak to tell at ε = 10: the games also miss copies that leak more than is claimed, "
        "so they say nothing here; use more game.trials, or a pair that shows more."
    )


def test_what_survives_names_what_was_found_and_proves_no_privacy(make: Make) -> None:
    [verdict] = verdicts.of(low(make(epsilons=(0.1, 1.0))))
    assert verdict.badge == palette.Word("survived 2 of 2", "good")
    assert "The same attack catches leaks of 1.25 times the claim; it may miss" in verdict.text
    assert "the attack is likelihood-ratio on the pair support-threshold." in verdict.text
    assert "This is no proof of privacy" in verdict.text


def test_factors_of_several_points_are_a_range(make: Make) -> None:
    base = low(make(epsilons=(0.1, 1.0)))
    control = Control(mutant="m", factor=4.0, epsilon=4.0, certified=1.5, found=True)
    measurements = [
        measurement.model_copy(update={"control": control})
        if (measurement.metric, measurement.epsilon) == ("epsilon", 1.0)
        else measurement
        for measurement in base.measurements
    ]
    [verdict] = verdicts.of(judged(base.model_copy(update={"measurements": measurements})))
    assert "leaks of 1.25 to 4 times the claim" in verdict.text


def test_every_game_that_decided_is_named_once(make: Make) -> None:
    base = low(make(epsilons=(0.1, 1.0, 5.0)))
    measurements = [
        measurement.model_copy(update={"pair": "tight"})
        if (measurement.metric, measurement.epsilon) == ("epsilon", 1.0)
        else measurement
        for measurement in base.measurements
    ]
    [verdict] = verdicts.of(judged(base.model_copy(update={"measurements": measurements})))
    seen = "The attacker sees the predictions shown to one user; the attack is likelihood-ratio"
    pairs = ("support-threshold", "tight")
    assert " ".join(f"{seen} on the pair {pair}." for pair in pairs) in verdict.text


def test_the_most_that_is_certified_without_a_claim_has_its_epsilon(make: Make) -> None:
    def text(*epsilons: float) -> str:
        base = make(epsilons=epsilons)
        points = [point.model_copy(update={"claim": None}) for point in base.points]
        [verdict] = verdicts.of(judged(base.model_copy(update={"points": points})))
        return verdict.text

    assert "ε at least 2.71 is certified at ε = 0.1. The attack is likelihood-ratio" in text(
        0.1, 1.0
    )
    assert "ε at least 2.71 is certified. The attack is likelihood-ratio" in text(1.0)


def test_a_claim_that_the_law_contradicts_is_undecided(make: Make) -> None:
    [verdict] = verdicts.of(low(make(epsilons=(1.0,)), theory=Estimate.exact(7.0, "law")))
    assert verdict.badge is palette.CLAIM["not tested"]
    assert verdict.text.startswith("In doubt at ε = 1: by the law of its noise it reveals more")


def test_a_release_without_noise_is_named(make: Make) -> None:
    base = make(epsilons=(math.inf,), game=False)
    models = [base.models[0].model_copy(update={"variant": "nonprivate"})]
    [verdict] = verdicts.of(judged(base.model_copy(update={"models": models})))
    assert verdict.text.startswith(
        "It makes no privacy claim and adds no noise, so no ε bounds what it reveals."
    )
    assert "The attack 'one prediction' recovers 80 of 100 (72 to 82) of the hidden" in verdict.text


def test_the_worst_model_leads(make: Make) -> None:
    kept = low(make("kept", epsilons=(1.0,)))
    false = make("false", epsilons=(1.0,))
    both = false.model_copy(
        update={
            name: [*getattr(kept, name), *getattr(false, name)]
            for name in ("models", "points", "measurements", "verdicts")
        }
    )
    assert [verdict.model for verdict in verdicts.of(both)] == ["false", "kept"]
    assert screen.headline(both) == (
        "STOP. 2 models: 1 claim false, 1 survived 1 of 1; the gate fails."
    )


def test_a_sweep_of_which_a_part_was_tested_counts_it(make: Make) -> None:
    [verdict] = verdicts.of(low(make()))
    assert verdict.badge == palette.Word("survived 2 of 3", "neutral")


def test_a_model_without_a_claim_is_attacked_or_not(make: Make) -> None:
    [attacked] = verdicts.of(make(epsilons=(math.inf,), game=False))
    assert attacked.badge is palette.LEAK_MEASURED
    [bare] = verdicts.of(make(epsilons=(math.inf,), game=False, attacks=False))
    assert bare.badge is palette.NOT_ATTACKED


def test_a_false_claim_that_does_not_stop_a_run_is_said(make: Make) -> None:
    goes = make(outcome="pass")
    assert outcome_text(goes) == (
        "GO, 2 false claims accepted: Of 3 privacy claims: 2 false (not set to stop the run), 1 "
        "too weak to tell. epsilon <= claim: above 1. 6 numbers have no limit: the most is 73 of "
        "100 (one prediction, ε = 10). At most 5 of 100 such runs pass wrongly."
    )
    stops = judged(goes.model_copy(update={"fail_on_false_claim": True}))
    assert outcome_text(stops) == (
        "STOP: The privacy claim is false: an attack shows a leak of at least 27.18 times what is "
        "claimed; 1 more claim is false. At most 5 of 100 such runs call a true claim false."
    )


def test_an_undecided_run_names_the_gate_and_its_reason(make: Make) -> None:
    false = "Of 3 privacy claims: 2 false (not set to stop the run), 1 too weak to tell."
    assert outcome_text(make(outcome="inconclusive")) == (
        f"UNDECIDED: epsilon <= claim: above 1. {false} It is open on which side of the limit the "
        "model is."
    )
    wrong = "At most 5 of 100 such runs stop wrongly."
    assert outcome_text(make()) == f"STOP: epsilon <= claim: above 1. {false} {wrong}"


def test_a_claim_that_no_number_of_trials_tried_is_told_apart(make: Make) -> None:
    [verdict] = verdicts.of(low(make(epsilons=(1.0,)), control=None))
    assert verdict.sentences == (
        [
            "Too weak to tell at ε = 1: the games are too small to certify more than is claimed; "
            "use more game.trials, or a pair that shows more."
        ]
    )


def test_the_outcome_counts_claims_that_were_not_tested(make: Make) -> None:
    goes = low(make(epsilons=(1.0,), outcome="pass"), control=None)
    assert decision_of(goes).reason == (
        "epsilon <= claim: above 1. 2 numbers have no limit: the most is 40 of 100 (one "
        "prediction). No privacy claim was tested. At most 5 of 100 such runs pass wrongly."
    )
    assert screen.headline(goes) == "GO. 1 model: 1 claim not tested; the gate passes."


def test_a_run_that_decides_nothing_is_no_decision(make: Make) -> None:
    nothing = low(make(epsilons=(1.0,), gate=False), control=None)
    assert outcome_text(nothing).startswith(
        "NO DECISION: Nothing was decided: no gate is set, and no claim was tested."
    )
    said = "NO DECISION. 1 model: 1 claim not tested; no gate is set."
    assert screen.headline(nothing) == said
    free = make(epsilons=(math.inf,), gate=False, game=False)
    assert decision_of(free).reason.startswith("Nothing was decided: no gate is set.")
    held = low(make(epsilons=(0.1, 1.0), gate=False))
    assert outcome_text(held) == (
        "GO: No gate is set. Of 2 privacy claims: 2 survived. Where claims survived, a leak of "
        "1.25 times the claim is caught."
    )
