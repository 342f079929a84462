from __future__ import annotations

import ci_reports  # type: ignore[import-not-found]
import pytest

from dpaudit.record.result import AuditResult, PlaceRecord
from dpaudit.reports.ci import Failure
from dpaudit.reports.render.services import sarif
from tests.support.records import Make


def test_every_record_is_valid(hard: AuditResult) -> None:
    ci_reports.sarif(sarif(hard))


def test_results_stand_at_their_lines(result: AuditResult) -> None:
    place = PlaceRecord(path="configs/my audit.toml", line=7)
    located = result.model_copy(update={"origin": {result.verdicts[0].id: place}})
    run = ci_reports.sarif(sarif(located))
    [alert] = [
        entry for entry in run["results"] if entry["properties"]["id"] == "claim/published/0.1"
    ]
    where = alert["locations"][0]["physicalLocation"]
    assert where["artifactLocation"] == {"uri": "configs/my%20audit.toml", "uriBaseId": "%SRCROOT%"}
    assert where["region"] == {"startLine": 7}
    assert run["automationDetails"] == {"id": "dpaudit/configs/my audit.toml/"}


def test_a_result_keeps_its_fingerprint_when_its_number_changes(make: Make) -> None:
    marks = []
    for reason in ("above 1", "above 2"):
        result = make()
        [gate] = result.gates
        changed = result.model_copy(
            update={"gates": [gate.model_copy(update={"reason": reason})], "seed": 8}
        )
        run = ci_reports.sarif(sarif(changed))
        marks.append([entry["partialFingerprints"] for entry in run["results"]])
    assert marks[0] == marks[1]


def test_only_problems_are_results_and_accepted_ones_are_suppressed(make: Make) -> None:
    run = ci_reports.sarif(sarif(make(epsilons=(1.0, 5.0), outcome="pass")))
    [alert] = run["results"]
    assert alert["level"] == "warning"
    [suppression] = alert["suppressions"]
    assert suppression["status"] == "accepted"
    [invocation] = run["invocations"]
    assert invocation["exitCode"] == 0
    assert invocation["executionSuccessful"] is True
    assert invocation["startTimeUtc"] == "2026-01-01T00:00:00Z"


def test_rules_have_help_and_severity(result: AuditResult) -> None:
    rules = ci_reports.sarif(sarif(result))["tool"]["driver"]["rules"]
    severity = {rule["id"]: float(rule["properties"]["security-severity"]) for rule in rules}
    assert all(0 < number <= 10 for number in severity.values())
    assert severity["false-claim"] == max(severity.values())
    assert all(rule["help"]["text"] for rule in rules)


def test_results_beyond_the_limit_of_code_scanning_are_left_out(
    result: AuditResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dpaudit.reports.render.services._MOST", 2)
    run = ci_reports.sarif(sarif(result))
    assert [entry["level"] for entry in run["results"]] == ["error", "warning"]


def test_a_failure_is_a_notification_and_a_result() -> None:
    text = sarif.failed(Failure("the data cannot be read", 2, "audit.toml"))
    run = ci_reports.sarif(text)
    [invocation] = run["invocations"]
    assert (invocation["executionSuccessful"], invocation["exitCode"]) == (False, 2)
    [notification] = invocation["toolExecutionNotifications"]
    assert notification["message"]["text"] == "the data cannot be read"
    # Without a result, code scanning would close the alerts of earlier runs.
    [alert] = run["results"]
    assert (alert["ruleId"], alert["level"]) == ("run-failed", "error")
