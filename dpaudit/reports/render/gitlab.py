"""The Code Quality report of GitLab: a JSON list of problems."""

from __future__ import annotations

import json

from dpaudit.reports.ci import Format, Run, State

_SEVERITIES: dict[State, str] = {
    "error": "blocker",
    "fail": "critical",
    "inconclusive": "major",
    "accepted": "minor",
    "noticed": "minor",
    "untested": "info",
}


def _render(run: Run) -> str:
    issues = [
        {
            "description": check.text,
            "check_name": check.rule.id,
            "fingerprint": check.fingerprint,
            "severity": _SEVERITIES[check.state],
            "location": {"path": check.path, "lines": {"begin": check.place.line}},
        }
        for check in run.problems
    ]
    return json.dumps(issues, ensure_ascii=False, indent=1) + "\n"


render = Format("Code Quality report of GitLab", _render)
