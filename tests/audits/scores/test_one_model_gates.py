"""Limits on corrected numbers: the whole interval decides, and what is refused decides nothing."""

from __future__ import annotations

import pytest

from dpaudit.audits.scores.observational import Corrected
from dpaudit.audits.scores.one_model import Limits
from dpaudit.core.estimate import Estimate
from dpaudit.record.values import Control


def number(value: float, lower: float, upper: float) -> Estimate:
    return Estimate(
        value=value, lower=lower, upper=upper, confidence=0.95, alpha=0.05, n=100,
        method="test", kind="assumes-law",
    )  # fmt: skip


def audit(epsilon: Estimate, planted: float) -> Corrected:
    return Corrected(
        500,
        equal=True,
        gamma=1.1,
        auc=number(0.52, 0.49, 0.54),
        tpr={0.1: number(0.2, 0.15, 0.25), 0.001: None},
        epsilon=epsilon,
        planted=Control(
            mutant="a leak of ε = 2 planted by Laplace noise",
            factor=2.0,
            epsilon=2.0,
            certified=planted,
            found=planted > 1,
            noise="Laplace",
            hits=20 if planted > 1 else 7,
            runs=20 if planted > 1 else 9,
        ),
    )


@pytest.mark.cases(
    ("limits", "outcomes"),
    [
        (Limits(auc=0.55), ["pass"]),
        (Limits(auc=0.53), ["inconclusive"]),
        (Limits(tpr=0.1), ["fail", "inconclusive"]),
        (Limits(tpr=0.3, epsilon=1.0), ["pass", "inconclusive", "pass"]),
        (Limits(), []),
    ],
)
def test_the_interval_decides(limits: Limits, outcomes: list[str]) -> None:
    gates = limits.judge(audit(number(0.5, 0.2, 9.0), planted=1.4))
    assert [gate.outcome for gate in gates] == outcomes
    assert all("at most 1.1 between rows with equal" in gate.rule for gate in gates)


@pytest.mark.cases(
    ("value", "lower", "planted", "outcome", "words"),
    [
        (2.0, 1.2, 1.4, "fail", "certified ε at least 1.2"),
        (2.0, 0.2, 1.4, "inconclusive", "the right guesses suggest 2"),
        (0.5, 0.2, 0.9, "inconclusive", "is found only 7 of 9 times"),
        (0.5, 0.2, 1.4, "pass", "planted by Laplace noise in these rows is found 20 of 20 times"),
    ],
)
def test_a_bound_on_epsilon_passes_only_if_more_would_be_found(
    value: float, lower: float, planted: float, outcome: str, words: str
) -> None:
    [gate] = Limits(epsilon=1.0).judge(audit(number(value, lower, 9.0), planted))
    assert gate.outcome == outcome
    assert words in gate.reason


def test_every_rate_is_a_number() -> None:
    assert Limits(0.6, 0.1, 1.0).count(2) == 4
    assert Limits(0.6).count(2) == 1
    assert Limits().count(2) == 0


def test_the_reverse_attack_counts() -> None:
    one = Corrected(500, equal=True, gamma=1.1, auc=number(0.45, 0.42, 0.49))
    [gate] = Limits(auc=0.55).judge(one)
    assert gate.outcome == "inconclusive"
    assert "the reverse attack may have 58 of 100" in gate.reason


def test_what_is_refused_decides_nothing() -> None:
    gates = Limits(0.6, 0.1, 1.0).judge(Corrected(3, explains=9.0, refused="too few"))
    assert [gate.outcome for gate in gates] == ["inconclusive"] * 3
    assert {gate.reason for gate in gates} == {"too few"}


def test_near_pairs_certify_nothing_and_name_their_factor() -> None:
    one = Corrected(500, gamma=1.5, epsilon=number(2.0, 1.2, 9.0))
    [gate] = Limits(epsilon=1.0).judge(one)
    assert gate.outcome == "fail"
    assert "at most 1.5 between rows with nearly" in gate.rule
    assert "certified" not in gate.reason
