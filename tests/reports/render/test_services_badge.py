from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import Any

import ci_reports  # type: ignore[import-not-found]
import pytest

from dpaudit.auditor.gate import judge_run
from dpaudit.record.result import AuditResult, Waiver
from dpaudit.reports.ci import Failure
from dpaudit.reports.render.services import badge
from tests.support.records import judged

# What a game finds by ε: at 1 the claim is false, at 5 it survives, at 10 there is no power.
FREE = {"epsilons": (float("inf"),), "game": False}
CASES: list[tuple[dict[str, Any], bool, str, str]] = [
    ({"epsilons": (1.0, 5.0)}, True, "STOP, 1 of 2 claims survived", "red"),
    (
        {"epsilons": (1.0, 5.0)},
        False,
        "GO, 1 false claim accepted, 1 of 2 claims survived",
        "orange",
    ),
    ({"epsilons": (5.0, 10.0)}, True, "GO, 1 of 2 claims survived", "lightgrey"),
    ({"epsilons": (5.0,)}, True, "GO, 1 of 1 claim survived", "green"),
    ({"epsilons": (10.0,)}, True, "GO, 0 of 1 claim survived", "lightgrey"),
    ({"epsilons": (10.0,), "gate": False}, True, "NO DECISION, 0 of 1 claim survived", "lightgrey"),
    (FREE, True, "GO", "green"),
    (FREE | {"gate": False}, True, "NO DECISION", "lightgrey"),
    ({"epsilons": (5.0,), "outcome": "fail"}, True, "STOP, 1 of 1 claim survived", "red"),
    (
        {"epsilons": (5.0,), "outcome": "inconclusive"},
        True,
        "UNDECIDED, 1 of 1 claim survived",
        "orange",
    ),
]


@pytest.mark.cases(("made", "strict", "message", "color"), CASES)
def test_a_badge_is_green_only_if_nothing_is_open(
    make: Callable[..., AuditResult], made: dict[str, Any], strict: bool, message: str, color: str
) -> None:
    result = make(**{"outcome": "pass", **made})
    result = judged(result.model_copy(update={"fail_on_false_claim": strict}))
    values = ci_reports.badge(badge(result))
    assert (values["message"], values["color"]) == (message, color)


def test_claims_that_are_waived_have_not_survived(make: Callable[..., AuditResult]) -> None:
    strict = make(epsilons=(0.1, 1.0, 5.0)).model_copy(update={"fail_on_false_claim": True})
    waiver = Waiver(
        id="claim/published/0.1", owner="the team", statement="known", expires=date(2027, 1, 31)
    )
    result = ci_reports.badge(badge(judge_run(strict, date(2027, 1, 1), waivers=[waiver])))
    assert (result["message"], result["color"]) == ("STOP, 1 of 3 claims survived", "red")


def test_a_command_without_a_result_is_grey() -> None:
    values = ci_reports.badge(badge.failed(Failure("no data", 2, "audit.toml")))
    assert (values["message"], values["color"], values["isError"]) == (
        "NO RESULT",
        "lightgrey",
        True,
    )
