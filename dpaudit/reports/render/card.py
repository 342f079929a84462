"""What is deployed: its privacy card, as a page and as YAML, and the evidence for standards."""

from __future__ import annotations

from collections import Counter

from dpaudit.record.result import AuditResult
from dpaudit.reports import palette
from dpaudit.reports.card.build import card_of, deployed_part
from dpaudit.reports.card.page import sheet
from dpaudit.reports.card.requirements import STANDARDS
from dpaudit.reports.card.sections import appendix
from dpaudit.reports.render import page
from dpaudit.reports.sections import summary, verdicts
from dpaudit.reports.sections.outcome import decision_of


def render(result: AuditResult) -> str:
    """Render the privacy card as one HTML file that loads nothing."""
    card, part = card_of(result), deployed_part(result)
    return page.render(
        "card.html.j2",
        charts=[],
        card=card,
        sheet=sheet(card),
        appendix=appendix(card),
        outcome=palette.RUN[result.outcome],
        badge=verdicts.badge(part, part.models),
    )


def render_yaml(result: AuditResult) -> str:
    """Render the privacy card as YAML, in the layout of `PrivacyCard`."""
    import yaml

    values = card_of(result).model_dump()
    text: str = yaml.safe_dump(values, sort_keys=False, allow_unicode=True, width=100)
    return text


def render_evidence(result: AuditResult) -> str:
    """Render what the audit answers to each requirement as one HTML file that loads nothing."""
    deployed, part = card_of(result).deployment, deployed_part(result)
    answered = [
        (standard, [(asked, asked.answer(part)) for asked in standard.requirements])
        for standard in STANDARDS
    ]
    counts = Counter[str](answer.status for _, rows in answered for _, answer in rows)
    return page.render(
        "evidence.html.j2",
        charts=[],
        system=summary.system(result),
        audited=summary.audited(result),
        decision=decision_of(result),
        deployed=deployed.choice or deployed.named,
        counts=", ".join(f"{counts[word]} {word}" for word in palette.ANSWER if counts[word]),
        standards=answered,
        words=palette.ANSWER,
    )
