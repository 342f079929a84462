"""The JSON of a shields.io endpoint badge.

It is green only if every stated claim was tested and none is false: a lower bound is no proof, and
an untested claim is not a kept one.
"""

from __future__ import annotations

import json
from collections import Counter

from dpaudit.reports import rules
from dpaudit.reports.ci import Format, Kind, Run


def _render(run: Run) -> str:
    message, color = _words(run)
    badge = {"schemaVersion": 1, "label": "privacy audit", "message": message, "color": color}
    return json.dumps({**badge, "isError": run.exit_code != 0}, indent=1) + "\n"


def _words(run: Run) -> tuple[str, str]:
    """Return the message and the colour."""
    claims = Counter(check.state for check in run.checks if check.rule in _STATED)
    false = claims["fail"] + claims["accepted"]
    tested = false + claims["pass"]
    stated = tested + claims["untested"]
    of = f"of {stated} claim{'s' if stated > 1 else ''}"
    gates = "gates pass, " if any(check.kind == "gate" for check in run.checks) else ""
    failing = next((check.kind for check in run.checks if check.state == "fail"), None)
    waived = any(check.state == "accepted" for check in run.checks)
    cases = (
        (run.outcome == "error", "no result", "lightgrey"),
        (claims["fail"], f"{false} {of} false", "red"),
        (run.outcome == "stop", _FAILS.get(failing, "fails"), "red"),
        (run.outcome == "undecided", "undecided", "orange"),
        (claims["accepted"], f"{false} {of} false, accepted", "orange"),
        (waived, "a gate is waived", "orange"),
        (not tested, f"{gates}no claim tested", "lightgrey"),
        (tested < stated, f"{tested} {of} tested, none false", "yellow"),
        (True, f"{tested} {of} tested, none false", "green"),
    )
    return next((message, color) for holds, message, color in cases if holds)


_FAILS: dict[Kind | None, str] = {
    "gate": "a gate fails",
    "waiver": "a waiver is expired",
    "baseline": "worse than its baseline",
}
# What a claim that is stated can have; a model without one has nothing to test.
_STATED = (rules.FALSE, rules.UNTESTED)

render = Format("JSON of a shields.io endpoint badge", _render)
