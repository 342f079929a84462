"""Which numbers of an audit answer what standards ask, as one HTML page to file."""

from __future__ import annotations

from collections import Counter
from itertools import groupby

from dpaudit.record.result import AuditResult
from dpaudit.reports import deployed, palette
from dpaudit.reports.evidence.requirements import REQUIREMENTS
from dpaudit.reports.render import page
from dpaudit.reports.sections import summary
from dpaudit.reports.sections.outcome import decision_of


def render(result: AuditResult) -> str:
    """Render what the audit answers to each requirement as one HTML file that loads nothing."""
    part = deployed.alone(result)
    answered = [(requirement, requirement.answer(part)) for requirement in REQUIREMENTS]
    counts = Counter[str](answer.status for _, answer in answered)
    return page.render(
        "evidence.html.j2",
        charts=[],
        system=summary.system(result),
        audited=summary.audited(result),
        decision=decision_of(result),
        deployed=deployed.choice(part) or deployed.named(part),
        counts=", ".join(f"{counts[word]} {word}" for word in palette.ANSWER if counts[word]),
        documents=[
            (document, list(rows))
            for document, rows in groupby(answered, lambda row: row[0].document)
        ],
        words=palette.ANSWER,
    )
