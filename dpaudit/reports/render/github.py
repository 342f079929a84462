"""Reports for GitHub Actions: annotations of a step, and a summary of its job.

Annotations are workflow commands, which GitHub reads from the standard output of a step.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate

from dpaudit.reports.ci import CiCheck, Format, Level, Run
from dpaudit.reports.render.markdown import escape, table_text
from dpaudit.reports.table import Table

_COMMANDS: dict[Level, str] = {"error": "error", "warning": "warning", "note": "notice"}
# GitHub shows the first ten of each kind that a step prints.
_MOST_ANNOTATIONS = 10
_DATA = {"%": "%25", "\r": "%0D", "\n": "%0A"}
_PROPERTY = {**_DATA, ":": "%3A", ",": "%2C"}
# GitHub drops summaries of more than 1 MiB, which all commands of a step share.
_LARGEST_SUMMARY = 500_000
_SUMMARY_HEADER = ["result", "what", "why", "where"]


def _annotations(run: Run) -> str:
    lines = []
    for level, command in _COMMANDS.items():
        checks = [check for check in run.problems if check.level == level]
        shown = checks if len(checks) <= _MOST_ANNOTATIONS else checks[: _MOST_ANNOTATIONS - 1]
        lines += [_annotation(command, check) for check in shown]
        if len(shown) < len(checks):
            lines.append(f"::{command} title=dpaudit::{len(checks) - len(shown)} more like these")
    return "".join(f"{line}\n" for line in lines)


def _annotation(command: str, check: CiCheck) -> str:
    where = {"file": check.path, "line": str(check.place.line), "title": check.rule.title}
    properties = ",".join(f"{name}={_escaped(text, _PROPERTY)}" for name, text in where.items())
    return f"::{command} {properties}::{_escaped(check.text, _DATA)}"


def _escaped(text: str, codes: Mapping[str, str]) -> str:
    return "".join(codes.get(letter, letter) for letter in text)


def _summary(run: Run) -> str:
    lines = table_text(
        Table(
            "",
            _SUMMARY_HEADER,
            [
                [check.word.text, check.name, check.text, f"{check.path}:{check.place.line}"]
                for check in run.checks
            ],
        )
    ).split("\n")
    sizes = accumulate(len(line.encode()) + 1 for line in lines)
    kept = sum(size <= _LARGEST_SUMMARY for size in sizes)
    more = [f"\n{len(lines) - kept} more are in the report."] if kept < len(lines) else []
    accepted = sum(check.state == "accepted" for check in run.checks)
    problems = "1 problem that stops" if accepted == 1 else f"{accepted} problems that stop"
    but = f", with {problems} nothing" if accepted else ""
    head = [
        f"## Privacy audit: {run.word.shown}{but}",
        f"{escape(run.headline)} Exit code {run.exit_code}, dpaudit {escape(run.tool)}.",
    ]
    return "\n\n".join([*head, "\n".join([*lines[:kept], *more])]) + "\n"


render = Format("Annotations of GitHub Actions, for --report github=-", _annotations)
summary = Format("Job summary of GitHub Actions, in Markdown", _summary)
