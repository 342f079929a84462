from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from dpaudit.core.estimate import Estimate
from dpaudit.record.result import AuditResult, Control
from dpaudit.reports.sections import summary, verdicts
from tests.support.records import judged

Make = Callable[..., AuditResult]


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


def test_a_broken_claim_names_the_bound_the_observer_the_attack_and_the_pair(make: Make) -> None:
    [verdict] = verdicts.of(make())
    assert verdict.verdict == "false"
    assert verdict.sentences[0] == (
        "The claim is false at ε = 0.1, 1: where ε = 0.1 is claimed, ε ≥ 2.71 is certified with "
        "95 % confidence over the whole run (seen: the predictions shown to one user; attack: "
        "likelihood-ratio; pair: support-threshold)."
    )
    assert verdict.sentences[1] == (
        "Not tested at ε = 10: the games also miss copies that leak more than is claimed, so they "
        "say nothing here; use more trials."
    )


def test_what_is_not_broken_names_what_was_found_and_proves_no_privacy(make: Make) -> None:
    [verdict] = verdicts.of(low(make(epsilons=(0.1, 1.0))))
    assert verdict.verdict == "survived"
    assert "copies that leak 1.25 times what is claimed were found (seen:" in verdict.text
    assert "attack: likelihood-ratio; pair: support-threshold" in verdict.text
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
    assert "leak 1.25 to 4 times what is claimed" in verdict.text


def test_every_game_that_decided_is_named_once(make: Make) -> None:
    base = low(make(epsilons=(0.1, 1.0, 5.0)))
    measurements = [
        measurement.model_copy(update={"pair": "tight"})
        if (measurement.metric, measurement.epsilon) == ("epsilon", 1.0)
        else measurement
        for measurement in base.measurements
    ]
    [verdict] = verdicts.of(judged(base.model_copy(update={"measurements": measurements})))
    seen = "seen: the predictions shown to one user; attack: likelihood-ratio"
    assert f"({seen}; pair: support-threshold) and ({seen}; pair: tight); smaller" in verdict.text


def test_the_most_that_is_certified_without_a_claim_has_its_epsilon(make: Make) -> None:
    def text(*epsilons: float) -> str:
        base = make(epsilons=epsilons)
        points = [point.model_copy(update={"claim": None}) for point in base.points]
        [verdict] = verdicts.of(judged(base.model_copy(update={"points": points})))
        return verdict.text

    assert "ε ≥ 2.71 is certified at ε = 0.1 (attack: likelihood-ratio;" in text(0.1, 1.0)
    assert "ε ≥ 2.71 is certified (attack: likelihood-ratio;" in text(1.0)


def test_a_claim_that_the_law_contradicts_is_undecided(make: Make) -> None:
    [verdict] = verdicts.of(low(make(epsilons=(1.0,)), theory=Estimate.exact(7.0, "law")))
    assert verdict.verdict == "not tested"
    assert verdict.text.startswith("Undecided at ε = 1: by the law of its noise it reveals more")


def test_a_release_without_noise_is_named(make: Make) -> None:
    base = make(epsilons=(math.inf,), game=False)
    models = [base.models[0].model_copy(update={"variant": "nonprivate"})]
    [verdict] = verdicts.of(judged(base.model_copy(update={"models": models})))
    assert verdict.text.startswith(
        "It makes no privacy claim and adds no noise, so no ε bounds what it reveals."
    )
    assert (
        "The attack 'one prediction' recovers 80.0 % [72.0 %, 82.0 %] of the hidden" in verdict.text
    )


def test_the_worst_model_leads(make: Make) -> None:
    kept = low(make("kept", epsilons=(1.0,)))
    broken = make("broken", epsilons=(1.0,))
    both = broken.model_copy(
        update={
            name: [*getattr(kept, name), *getattr(broken, name)]
            for name in ("models", "points", "measurements", "verdicts")
        }
    )
    assert [verdict.model for verdict in verdicts.of(both)] == ["broken", "kept"]
    assert summary.headline(both) == "2 models: 1 broken, 1 not broken. 1 gate: 1 fail."


def test_a_broken_claim_is_never_shown_as_a_plain_pass(make: Make) -> None:
    passed = make(outcome="pass")
    assert summary.status(passed) == "not tested"
    assert "By its config, a broken claim does not fail it." in summary.decision(passed)
    failed = passed.model_copy(update={"fail_on_false_claim": True, "outcome": "fail"})
    assert summary.decision(failed) == "The run fails: a claim is broken."
    held = low(make(outcome="pass", epsilons=(0.1, 1.0)))
    assert summary.status(held) == "pass"
    assert summary.status(low(make(outcome="pass"))) == "not tested"  # one of three claims


def test_an_inconclusive_run_names_no_cause_that_a_gate_may_not_have(make: Make) -> None:
    assert summary.decision(make(outcome="inconclusive")) == (
        "The run is inconclusive: a gate is inconclusive."
    )


def test_a_claim_that_no_number_of_trials_tried_is_told_apart(make: Make) -> None:
    [verdict] = verdicts.of(low(make(epsilons=(1.0,)), control=None))
    assert verdict.sentences == (
        [
            "Not tested at ε = 1: the trials are too few for any game to certify more than is "
            "claimed; use more trials."
        ]
    )


def test_the_outcome_counts_claims_that_were_not_tested(make: Make) -> None:
    passes = low(make(epsilons=(1.0,), outcome="pass"), control=None)
    assert summary.decision(passes).endswith("run passes. 1 of 1 claims was not tested.")
    assert "1 not tested. 1 gate" in summary.headline(passes)


def test_a_run_that_decides_nothing_does_not_pass(make: Make) -> None:
    undecided = low(make(epsilons=(1.0,), gate=False), control=None)
    assert undecided.outcome == "no decision"
    assert summary.decision(undecided).startswith("Nothing was decided: no gate is set")
    assert summary.status(undecided) == "not tested"
    assert "1 not tested. No gates" in summary.headline(undecided)
    held = low(make(epsilons=(0.1, 1.0), gate=False))
    assert (held.outcome, summary.decision(held)) == ("pass", "The run passes: nothing fails it.")
