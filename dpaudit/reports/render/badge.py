"""The JSON of a shields.io endpoint badge: the outcome, and how many of the claims were tested.

Its colour is that of the worse of the two: green only if nothing is open, neither in the gates nor
in the claims. A lower bound is no proof, and an untested claim is not a kept one.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator

from dpaudit.reports import palette, rules
from dpaudit.reports.ci import CiCheck, Format, Kind, Run
from dpaudit.reports.palette import Word

_STOPS: dict[Kind, Word] = {
    "gate": Word("a gate fails", "bad"),
    "waiver": Word("a waiver is expired", "bad"),
    "baseline": Word("worse than its baseline", "bad"),
}
_WAIVED = Word("a gate is waived", "open")
# What a claim that is stated can have; a model without one has nothing to test.
_STATED = (rules.FALSE, rules.UNTESTED)


def _render(run: Run) -> str:
    words = [run.word, *_more(run)][:2]
    badge = {
        "schemaVersion": 1,
        "label": "privacy audit",
        "message": ", ".join([run.word.shown, *(word.text for word in words[1:])]),
        "color": min(words, key=palette.order).shield,
        "isError": run.exit_code != 0,
    }
    return json.dumps(badge, indent=1) + "\n"


def _more(run: Run) -> Iterator[Word]:
    """Yield what the badge says besides the outcome, the most important first."""
    claims = [check for check in run.checks if check.rule in _STATED]
    count = Counter(check.state for check in claims)
    of = f"of {len(claims)} claim{'s' if len(claims) > 1 else ''}"
    false = f"{count['fail'] + count['accepted']} {of} false"
    if count["fail"]:
        yield Word(false, "bad")
    if run.outcome == "stop":
        yield from (_STOPS[check.kind] for check in run.checks if _stops(check))
    if count["accepted"]:
        yield palette.harmless(Word(false, "bad"))
    if any(check.state == "accepted" for check in run.checks):
        yield _WAIVED
    if claims and not count["pass"]:
        yield Word("no claim tested", "neutral")
    if claims:
        tone = palette.survived(count["pass"], len(claims)).tone
        yield Word(f"{count['pass']} {of} survived", tone)


def _stops(check: CiCheck) -> bool:
    return check.state == "fail" and check.kind in _STOPS


render = Format("JSON of a shields.io endpoint badge", _render)
