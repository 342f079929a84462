from __future__ import annotations

from collections.abc import Callable

import ci_reports  # type: ignore[import-not-found]

from dpaudit.record.result import AuditResult, PlaceRecord
from dpaudit.reports.ci import Failure
from dpaudit.reports.render.services import gitlab


def test_every_record_has_what_the_service_needs(hard: AuditResult) -> None:
    ci_reports.gitlab(gitlab(hard))


def test_problems_have_a_severity_and_a_place(result: AuditResult) -> None:
    [gate] = result.gates
    located = result.model_copy(update={"origin": {gate.id: PlaceRecord(path="a.toml", line=4)}})
    issues = ci_reports.gitlab(gitlab(located))
    assert [(issue["check_name"], issue["severity"]) for issue in issues] == [
        ("gate-failed", "critical"),
        ("false-claim", "minor"),
        ("false-claim", "minor"),
        ("claim-not-tested", "info"),
    ]
    assert issues[0]["location"] == {"path": "a.toml", "lines": {"begin": 4}}


def test_without_problems_the_list_is_empty(make: Callable[..., AuditResult]) -> None:
    assert gitlab(make(epsilons=(5.0,), outcome="pass")) == "[]\n"


def test_a_command_without_a_result_is_a_blocker() -> None:
    [issue] = ci_reports.gitlab(gitlab.failed(Failure("no data", 2, "audit.toml")))
    assert (issue["severity"], issue["description"]) == ("blocker", "no data")
