"""Which numbers of an audit answer what standards ask, as one HTML page to file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import groupby

from dpaudit.record.result import AuditResult
from dpaudit.reports import deployed
from dpaudit.reports.evidence.answers import Status
from dpaudit.reports.evidence.requirements import REQUIREMENTS
from dpaudit.reports.render import page
from dpaudit.reports.sections import summary

# Tones are classes of CSS of page.html.j2.
_TONES: Mapping[Status, str] = {
    "met": "good",
    "not met": "bad",
    "undecided": "open",
    "to judge": "neutral",
    "gap": "open",
}


def render(result: AuditResult) -> str:
    """Render what the audit answers to each requirement as one HTML file that loads nothing."""
    part = deployed.alone(result)
    answered = [(requirement, requirement.answer(part)) for requirement in REQUIREMENTS]
    counts = Counter(answer.status for _, answer in answered)
    return page.render(
        "evidence.html.j2",
        charts=[],
        system=summary.system(result),
        audited=summary.audited(result),
        deployed=deployed.choice(part) or deployed.named(part),
        counts=", ".join(f"{counts[status]} {status}" for status in _TONES if counts[status]),
        documents=[
            (document, list(rows))
            for document, rows in groupby(answered, lambda row: row[0].document)
        ],
        tones=_TONES,
    )
