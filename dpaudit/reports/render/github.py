"""Annotations of GitHub Actions: workflow commands, read from the standard output of a step."""

from __future__ import annotations

from collections.abc import Mapping

from dpaudit.reports.ci import Check, Format, Level, Run

_COMMANDS: dict[Level, str] = {"error": "error", "warning": "warning", "note": "notice"}
# GitHub shows the first ten of each kind that a step prints.
_MOST = 10
_DATA = {"%": "%25", "\r": "%0D", "\n": "%0A"}
_PROPERTY = {**_DATA, ":": "%3A", ",": "%2C"}


def _render(run: Run) -> str:
    lines = []
    for level, command in _COMMANDS.items():
        checks = [check for check in run.problems if check.level == level]
        shown = checks if len(checks) <= _MOST else checks[: _MOST - 1]
        lines += [_annotation(command, check) for check in shown]
        if len(shown) < len(checks):
            lines.append(f"::{command} title=dpaudit::{len(checks) - len(shown)} more like these")
    return "".join(f"{line}\n" for line in lines)


def _annotation(command: str, check: Check) -> str:
    where = {"file": check.path, "line": str(check.place.line), "title": check.rule.title}
    properties = ",".join(f"{name}={_escaped(text, _PROPERTY)}" for name, text in where.items())
    return f"::{command} {properties}::{_escaped(check.text, _DATA)}"


def _escaped(text: str, codes: Mapping[str, str]) -> str:
    return "".join(codes.get(letter, letter) for letter in text)


render = Format("Annotations of GitHub Actions, for --report github=-", _render)
