"""The JSON of a shields.io endpoint badge.

It is green only if every stated claim was tested and none is broken: a lower bound is no proof, and
an untested claim is not a kept one.
"""

from __future__ import annotations

import json
from collections import Counter

from dpaudit.reports import rules
from dpaudit.reports.ci import Format, Run


def _render(run: Run) -> str:
    message, color = _words(run)
    badge = {"schemaVersion": 1, "label": "privacy audit", "message": message, "color": color}
    return json.dumps({**badge, "isError": run.exit_code != 0}, indent=1) + "\n"


def _words(run: Run) -> tuple[str, str]:
    """Return the message and the colour."""
    claims = Counter(check.state for check in run.checks if check.rule in _STATED)
    broken = claims["fail"] or claims["accepted"]
    tested = broken + claims["pass"]
    stated = tested + claims["untested"]
    of = f"of {stated} claim{'s' if stated > 1 else ''}"
    gates = "gates pass, " if any(check.kind == "gate" for check in run.checks) else ""
    cases = (
        (run.outcome == "error", "no result", "lightgrey"),
        (claims["fail"], f"{broken} {of} broken", "red"),
        (run.outcome == "fail", "gates fail", "red"),
        (run.outcome == "inconclusive", "gates inconclusive", "orange"),
        (claims["accepted"], f"{broken} {of} broken, accepted", "orange"),
        (not tested, f"{gates}no claim tested", "lightgrey"),
        (tested < stated, f"{tested} {of} tested, none broken", "yellow"),
        (True, f"{tested} {of} tested, none broken", "green"),
    )
    return next((message, color) for holds, message, color in cases if holds)


# What a claim that is stated can have; a model without one has nothing to test.
_STATED = (rules.BROKEN, rules.UNTESTED)

render = Format("JSON of a shields.io endpoint badge", _render)
