"""The formats of CI services, each of which shows the checks of a run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import accumulate
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree as Xml

from dpaudit.reports import palette, rules
from dpaudit.reports.ci import CiCheck, Format, Level, Run, State
from dpaudit.reports.render.markdown import escape, table_text
from dpaudit.reports.table import Table

_SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
# The most results that GitHub accepts in a run of SARIF.
_MOST = 25_000
_AT = {rule.id: at for at, rule in enumerate(rules.RULES)}
# What a check is in JUnit's XML, by its state.
_ELEMENTS: dict[State, str] = {
    "error": "error",
    "fail": "failure",
    "inconclusive": "error",
    "accepted": "skipped",
    "untested": "skipped",
}
# Of GitLab.
_SEVERITIES: dict[State, str] = {
    "error": "blocker",
    "fail": "critical",
    "inconclusive": "major",
    "accepted": "minor",
    "noticed": "minor",
    "untested": "info",
}
# Of GitHub Actions.
_COMMANDS: dict[Level, str] = {"error": "error", "warning": "warning", "note": "notice"}
# GitHub shows the first ten of each kind that a step prints.
_MOST_ANNOTATIONS = 10
_DATA = {"%": "%25", "\r": "%0D", "\n": "%0A"}
_PROPERTY = {**_DATA, ":": "%3A", ",": "%2C"}
# GitHub drops summaries of more than 1 MiB, which all commands of a step share.
_LARGEST_SUMMARY = 500_000
# What a claim that is stated can have; a model without one has nothing to test.
_STATED = (rules.FALSE, rules.UNTESTED)


def _json(values: Any) -> str:
    return json.dumps(values, ensure_ascii=False, indent=1) + "\n"


def _sarif(run: Run) -> str:
    """Return SARIF 2.1.0, the format of code scanning (OASIS, errata 01)."""
    driver = {"name": "dpaudit", "version": run.tool, "rules": [*map(_rule, rules.RULES)]}
    shown = {
        "tool": {"driver": driver},
        # GitHub keeps the results of other configs of the same commit apart by this.
        "automationDetails": {"id": f"dpaudit/{run.path}/"},
        "invocations": [_invocation(run)],
        "columnKind": "utf16CodeUnits",
        "results": [_result(check) for check in run.problems[:_MOST]],
    }
    return _json({"$schema": _SCHEMA, "version": "2.1.0", "runs": [shown]})


def _rule(rule: rules.Rule) -> dict[str, Any]:
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
        "exitCodeDescription": f"{run.word.shown}. {run.headline}",
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


def _junit(run: Run) -> str:
    """Return JUnit XML, which services show as tests: of each claim and gate, and of a baseline.

    A false claim, a failed gate and an expired waiver are failures. An inconclusive gate, and a run
    without a result, are errors. A claim that was not tested is skipped, and so is what is waived
    or accepted, with the reason: neither may look like a test that passed.
    """
    tests = [check for check in run.checks if check.state != "noticed"]
    kinds = [_ELEMENTS.get(check.state) for check in tests]
    root = Xml.Element("testsuites", name=f"Privacy audit: {run.word.shown}")
    suite = Xml.SubElement(
        root,
        "testsuite",
        name=run.path,
        package="dpaudit",
        id="0",
        tests=str(len(tests)),
        failures=str(kinds.count("failure")),
        errors=str(kinds.count("error")),
        skipped=str(kinds.count("skipped")),
        time=f"{run.seconds:.3f}",
        timestamp=run.started.partition("+")[0],
        hostname="localhost",  # a report names no machine
    )
    properties = Xml.SubElement(suite, "properties")
    about = {"dpaudit": run.tool, "outcome": run.outcome, "exit_code": str(run.exit_code)}
    for name, value in about.items():
        Xml.SubElement(properties, "property", name=name, value=value)
    for check, kind in zip(tests, kinds, strict=True):
        test = Xml.SubElement(suite, "testcase", classname=check.kind, name=check.name, time="0")
        if kind:
            problem = Xml.SubElement(test, kind, type=check.rule.id, message=check.text)
            problem.text = f"{check.path}:{check.place.line}: {check.text}"
    noticed = [check.text for check in run.checks if check.state == "noticed"]
    Xml.SubElement(suite, "system-out").text = "\n".join(
        [f"{run.word.shown}: {run.headline}", *noticed]
    )
    Xml.SubElement(suite, "system-err")
    Xml.indent(root, " ")
    return Xml.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _gitlab(run: Run) -> str:
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
    return _json(issues)


def _annotations(run: Run) -> str:
    """Return workflow commands, which GitHub reads from the standard output of a step."""
    lines = []
    for level, command in _COMMANDS.items():
        checks = [check for check in run.problems if check.level == level]
        shown = checks if len(checks) <= _MOST_ANNOTATIONS else checks[: _MOST_ANNOTATIONS - 1]
        for check in shown:
            properties = {"file": check.path, "line": str(check.place.line)}
            properties["title"] = check.rule.title
            where = ",".join(f"{name}={_coded(it, _PROPERTY)}" for name, it in properties.items())
            lines.append(f"::{command} {where}::{_coded(check.text, _DATA)}")
        if len(shown) < len(checks):
            lines.append(f"::{command} title=dpaudit::{len(checks) - len(shown)} more like these")
    return "".join(f"{line}\n" for line in lines)


def _coded(text: str, codes: Mapping[str, str]) -> str:
    return "".join(codes.get(letter, letter) for letter in text)


def _summary(run: Run) -> str:
    cells = [
        [check.word.text, check.name, check.text, f"{check.path}:{check.place.line}"]
        for check in run.checks
    ]
    lines = table_text(Table("", ["result", "what", "why", "where"], cells)).split("\n")
    sizes = accumulate(len(line.encode()) + 1 for line in lines)
    kept = sum(size <= _LARGEST_SUMMARY for size in sizes)
    more = [f"\n{len(lines) - kept} more are in the report."] if kept < len(lines) else []
    head = [
        f"## Privacy audit: {run.word.shown}",
        f"{escape(run.headline)} Exit code {run.exit_code}, dpaudit {escape(run.tool)}.",
    ]
    return "\n\n".join([*head, "\n".join([*lines[:kept], *more])]) + "\n"


def _badge(run: Run) -> str:
    """Return the JSON of a badge: the outcome, and how many of the claims survived.

    Its colour is that of the worse of the two. A lower bound is no proof, and an untested claim is
    not a kept one.
    """
    claims = [check.state for check in run.checks if check.rule in _STATED]
    kept, plural = claims.count("pass"), "s" if len(claims) > 1 else ""
    said = [f"{kept} of {len(claims)} claim{plural} survived"] if claims else []
    words = [run.word, *([palette.survived(kept, len(claims))] if claims else [])]
    badge = {
        "schemaVersion": 1,
        "label": "privacy audit",
        "message": ", ".join([run.word.shown, *said]),
        "color": min(words, key=palette.order).shield,
        "isError": run.exit_code != 0,
    }
    return _json(badge)


sarif = Format("SARIF 2.1.0, for code scanning", _sarif)
junit = Format("JUnit XML: a test for each claim and gate", _junit)
gitlab = Format("Code Quality report of GitLab", _gitlab)
github = Format("Annotations of GitHub Actions, for --report github=-", _annotations)
github_summary = Format("Job summary of GitHub Actions, in Markdown", _summary)
badge = Format("JSON of a shields.io endpoint badge", _badge)
