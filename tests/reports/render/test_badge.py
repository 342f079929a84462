from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import Any

import ci_reports  # type: ignore[import-not-found]
import pytest

from dpaudit.auditor.judgement import judge_run
from dpaudit.record.result import AuditResult
from dpaudit.record.waivers import Waiver
from dpaudit.reports.ci import Failure
from dpaudit.reports.render import badge

# What a game finds by ε: at 1 the claim is broken, at 5 it is not, at 10 there is no power.
CASES: list[tuple[dict[str, Any], bool, str, str]] = [
    ({"epsilons": (1.0, 5.0)}, True, "1 of 2 claims broken", "red"),
    ({"epsilons": (1.0, 5.0)}, False, "1 of 2 claims broken, accepted", "orange"),
    ({"epsilons": (5.0, 10.0)}, True, "1 of 2 claims tested, none broken", "yellow"),
    ({"epsilons": (5.0,)}, True, "1 of 1 claim tested, none broken", "green"),
    ({"epsilons": (10.0,)}, True, "gates pass, no claim tested", "lightgrey"),
    ({"epsilons": (10.0,), "gate": False}, True, "no claim tested", "lightgrey"),
    (
        {"epsilons": (float("inf"),), "game": False},
        True,
        "gates pass, no claim tested",
        "lightgrey",
    ),
    ({"epsilons": (5.0,), "outcome": "fail"}, True, "a gate fails", "red"),
    ({"epsilons": (5.0,), "outcome": "inconclusive"}, True, "inconclusive", "orange"),
]


@pytest.mark.parametrize(("made", "strict", "message", "color"), CASES)
def test_a_badge_is_green_only_if_every_claim_was_tested_and_none_is_broken(
    make: Callable[..., AuditResult], made: dict[str, Any], strict: bool, message: str, color: str
) -> None:
    result = make(**{"outcome": "pass", **made})
    broken = any(verdict.verdict == "false" for verdict in result.verdicts)
    changes: dict[str, Any] = {"fail_on_false_claim": strict}
    if broken and strict:
        changes["outcome"] = "fail"
    values = ci_reports.badge(badge.render(result.model_copy(update=changes)))
    assert (values["message"], values["color"]) == (message, color)


def test_claims_that_are_waived_are_counted_as_broken(make: Callable[..., AuditResult]) -> None:
    strict = make(epsilons=(0.1, 1.0, 5.0)).model_copy(update={"fail_on_false_claim": True})
    waiver = Waiver(
        id="claim/published/0.1", owner="the team", statement="known", expires=date(2027, 1, 31)
    )
    result = ci_reports.badge(badge.render(judge_run(strict, date(2027, 1, 1), waivers=[waiver])))
    assert (result["message"], result["color"]) == ("2 of 3 claims broken", "red")


def test_a_command_without_a_result_is_grey() -> None:
    values = ci_reports.badge(badge.render.failed(Failure("no data", 2, "audit.toml")))
    assert (values["message"], values["color"], values["isError"]) == (
        "no result",
        "lightgrey",
        True,
    )
