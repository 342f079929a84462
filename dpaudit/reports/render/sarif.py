"""SARIF 2.1.0, the format of code scanning (OASIS, errata 01)."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

from dpaudit.reports.ci import CiCheck, Format, Run
from dpaudit.reports.rules import RULES, Rule

_SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
# The most results that GitHub accepts in a run.
_MOST = 25_000
_AT = {rule.id: at for at, rule in enumerate(RULES)}


def _render(run: Run) -> str:
    log = {"$schema": _SCHEMA, "version": "2.1.0", "runs": [_run(run)]}
    return json.dumps(log, ensure_ascii=False, indent=1) + "\n"


def _run(run: Run) -> dict[str, Any]:
    return {
        "tool": {"driver": {"name": "dpaudit", "version": run.tool, "rules": [*map(_rule, RULES)]}},
        # GitHub keeps the results of other configs of the same commit apart by this.
        "automationDetails": {"id": f"dpaudit/{run.path}/"},
        "invocations": [_invocation(run)],
        "columnKind": "utf16CodeUnits",
        "results": [_result(check) for check in run.problems[:_MOST]],
    }


def _rule(rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.id,
        "shortDescription": {"text": rule.title},
        "fullDescription": {"text": rule.help},
        "help": {"text": rule.help},
        "properties": {
            "tags": ["security", "privacy"],
            "security-severity": f"{rule.severity:.1f}",
        },
    }


def _invocation(run: Run) -> dict[str, Any]:
    ran = run.outcome != "error"
    invocation: dict[str, Any] = {
        "executionSuccessful": ran,
        "exitCode": run.exit_code,
        "exitCodeDescription": run.outcome,
        "startTimeUtc": run.started.replace("+00:00", "Z"),
    }
    if not ran:
        invocation["toolExecutionNotifications"] = [
            {
                "level": "error",
                "message": {"text": check.text},
                "locations": [_location(check)],
                "associatedRule": {"id": check.rule.id, "index": _AT[check.rule.id]},
            }
            for check in run.checks
        ]
    return invocation


def _result(check: CiCheck) -> dict[str, Any]:
    result = {
        "ruleId": check.rule.id,
        "ruleIndex": _AT[check.rule.id],
        "level": check.level,
        "message": {"text": check.text},
        "locations": [_location(check)],
        # GitHub reads only the first; of the line alone, all ε of a model would be one alert.
        "partialFingerprints": {
            "primaryLocationLineHash": f"{check.fingerprint[:16]}:1",
            "checkId/v1": check.fingerprint,
        },
        "properties": {"id": check.name},
    }
    if check.because:
        result["suppressions"] = [
            {"kind": "external", "status": "accepted", "justification": check.because}
        ]
    return result


def _location(check: CiCheck) -> dict[str, Any]:
    uri = quote(check.place.path, errors="replace")
    return {
        "physicalLocation": {
            "artifactLocation": {"uri": uri, "uriBaseId": "%SRCROOT%"},
            "region": {"startLine": check.place.line},
        }
    }


render = Format("SARIF 2.1.0, for code scanning", _render)
