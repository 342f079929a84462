"""What is left of a pass: by planted leaks, their trainings, and the learning curve."""

from __future__ import annotations

from typing import Any

import pytest

from dpaudit.auditor.gate import Ruling
from dpaudit.audits.membership.controls import controlled, leak_of
from dpaudit.config.gate import Gate
from dpaudit.record.result import Measurement
from dpaudit.record.values import Census, LearningStep, PlantedLeak

PASS = Ruling("pass", "within the limit")
GATE = Gate(metric="attack.tpr", of="this-model", max=0.1)


def planted(caught: int, runs: int = 20, **other: Any) -> PlantedLeak:
    fields = {
        "limit": 0.1,
        "leak": 0.2,
        "form": "all",
        "shown": 0.03,
        "attacks": 6,
        "calibrating": 5,
    }
    return PlantedLeak.model_validate({**fields, "caught": caught, "runs": runs, **other})


def number(*leaks: PlantedLeak, learning: tuple[LearningStep, ...] = ()) -> Measurement:
    census = Census(values=(0.02,), lower=(0.0,), upper=(0.06,), alpha=0.01)
    return Measurement(
        metric="attack.tpr", model="m", epsilon=1.0, estimate=census.estimate, attack="strongest",
        at=0.01, observer="scores", unit="interaction", statement="this-model", census=census,
        planted=leaks, learning=learning,
    )  # fmt: skip


def test_a_pass_says_what_was_planted_and_that_more_may_be_found() -> None:
    ruling = controlled(GATE, number(planted(20), planted(19, form="few")), PASS)
    assert ruling.outcome == "pass"
    for words in (
        "6 attacks, 5 trainings",
        "at most 6 of 100",
        "20 of 100",
        "19 of 20",
        "may find more",
    ):
        assert words in ruling.strength
    assert ruling.strength in ruling.reason


@pytest.mark.cases(
    ("leaks", "words"),
    [
        ([], "trains nothing anew"),
        ([planted(20, limit=0.3)], "trains nothing anew"),
        ([planted(20, leak=0.3)], "trains nothing anew"),
        ([planted(0, 2, decides=9)], "membership.trainings = 10,"),
        ([planted(20), planted(3, 5, form="few", decides=9)], "membership.trainings = 10,"),
        ([planted(0, 0, decides=3)], "membership.trainings = 4,"),
        ([planted(0, 2)], "more targets or a larger limit"),
    ],
)
def test_without_a_leak_that_is_caught_nothing_passes(leaks: list[PlantedLeak], words: str) -> None:
    ruling = controlled(GATE, number(*leaks), PASS)
    assert ruling.outcome == "inconclusive"
    assert words in ruling.remedy


@pytest.mark.cases(
    ("gain", "lower", "outcome"),
    [(0.02, 0.01, "inconclusive"), (0.02, -0.01, "pass"), (0.002, 0.001, "pass")],
)
def test_a_curve_that_would_cross_the_limit_keeps_it_open(
    gain: float, lower: float, outcome: str
) -> None:
    steps = (
        LearningStep(calibrating=3, value=0.02 - gain),
        LearningStep(calibrating=5, value=0.02, gain=gain, lower=lower),
    )
    assert controlled(GATE, number(planted(20), learning=steps), PASS).outcome == outcome


def test_of_the_next_training_judged_ones_stay_as_they_are() -> None:
    gate = Gate(metric="attack.tpr", max=0.1)
    ruling = controlled(gate, number(planted(0, 2, decides=9)), PASS)
    assert "membership.trainings = 10 with membership.calibrating = 9" in ruling.remedy


def test_the_factor_of_a_gate_is_that_of_its_leak() -> None:
    wider = Gate(metric="attack.tpr", of="this-model", max=0.1, detectable=3)
    assert leak_of(GATE, number()) == pytest.approx(0.2)
    assert leak_of(wider, number()) == pytest.approx(0.3)
    assert controlled(wider, number(planted(20)), PASS).outcome == "inconclusive"


def test_a_weaker_attacker_trains_no_model() -> None:
    gate = Gate(metric="attack.tpr", of="this-model", max=0.1, attacker="trains-none")
    ruling = controlled(gate, number(planted(20)), PASS)
    assert "no training of their own" in ruling.strength
