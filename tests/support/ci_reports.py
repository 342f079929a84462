"""Readers of CI reports, which check them as the services do."""

from __future__ import annotations

import io
import json
import re
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

SCHEMAS = Path(__file__).parent / "schemas"
SEVERITIES = {"info", "minor", "major", "critical", "blocker"}
COLORS = {"green", "yellow", "orange", "red", "lightgrey"}
_COMMAND = re.compile(r"::(error|warning|notice) ([^:]*)::(.*)")


class Annotation(NamedTuple):
    """A workflow command that GitHub shows at a line."""

    kind: str
    properties: dict[str, str]
    text: str


@cache
def _sarif_schema() -> Any:
    import jsonschema  # type: ignore[import-untyped]

    schema = json.loads((SCHEMAS / "sarif-2.1.0.json").read_text(encoding="utf-8"))
    return jsonschema.Draft4Validator(schema, format_checker=jsonschema.FormatChecker())


@cache
def _junit_schema() -> Any:
    import xmlschema

    return xmlschema.XMLSchema(str(SCHEMAS / "junit-10.xsd"))


def sarif(text: str) -> dict[str, Any]:
    """Return the run of a SARIF log that is valid, and within the limits of code scanning."""
    log = json.loads(text)
    _sarif_schema().validate(log)
    [run] = log["runs"]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert len(run["results"]) <= 25_000
    for result in run["results"]:
        assert rules[result["ruleIndex"]] == result["ruleId"]
        assert len(result["message"]["text"]) <= 1000
        assert len(result["locations"]) == 1
        place = result["locations"][0]["physicalLocation"]
        assert not place["artifactLocation"]["uri"].startswith("/")
        assert place["region"]["startLine"] >= 1
    marks = [result["partialFingerprints"]["primaryLocationLineHash"] for result in run["results"]]
    assert len(set(marks)) == len(marks)
    found: dict[str, Any] = run
    return found


def junit(text: str) -> dict[str, str]:
    """Return the result of each test of a valid JUnit file: passed, failure, error or skipped."""
    from junitparser import JUnitXml

    _junit_schema().validate(io.StringIO(text))
    [suite] = JUnitXml.fromstring(text.encode())
    found = {
        str(case.name): str(case.result[0]._tag) if case.result else "passed" for case in suite
    }
    counts = {"failure": suite.failures, "error": suite.errors, "skipped": suite.skipped}
    assert counts == {kind: [*found.values()].count(kind) for kind in counts}
    assert suite.tests == len(found)
    return found


def gitlab(text: str) -> list[dict[str, Any]]:
    """Return the issues of a Code Quality report that has all that GitLab needs."""
    issues: list[dict[str, Any]] = json.loads(text)
    for issue in issues:
        assert issue.keys() == {
            "description", "check_name", "fingerprint", "severity", "location",
        }  # fmt: skip
        assert all(isinstance(issue[key], str) and issue[key] for key in issue if key != "location")
        assert issue["severity"] in SEVERITIES
        assert not issue["location"]["path"].startswith(("/", "./"))
        assert issue["location"]["lines"]["begin"] >= 1
    marks = [issue["fingerprint"] for issue in issues]
    assert len(set(marks)) == len(marks)  # GitLab shows one of each
    return issues


def github(text: str) -> list[Annotation]:
    """Return the annotations of a step's output, as GitHub's runner reads them."""
    found = []
    for line in text.splitlines():
        command = _COMMAND.fullmatch(line)
        assert command, line
        pairs = (part.split("=", 1) for part in command[2].split(","))
        properties = {name: _unescaped(value) for name, value in pairs}
        found.append(Annotation(command[1], properties, _unescaped(command[3])))
    return found


def badge(text: str) -> dict[str, Any]:
    """Return a badge that shields.io accepts."""
    found: dict[str, Any] = json.loads(text)
    assert found.keys() == {"schemaVersion", "label", "message", "color", "isError"}
    assert found["schemaVersion"] == 1
    assert isinstance(found["isError"], bool)
    assert found["message"]
    assert found["color"] in COLORS
    return found


def _unescaped(text: str) -> str:
    for code, letter in (("%0D", "\r"), ("%0A", "\n"), ("%3A", ":"), ("%2C", ","), ("%25", "%")):
        text = text.replace(code, letter)
    return text
