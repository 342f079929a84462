"""The privacy card as one HTML page, which prints on one sheet."""

from __future__ import annotations

from dpaudit.record.result import AuditResult
from dpaudit.reports import deployed, palette
from dpaudit.reports.card import page as sheet
from dpaudit.reports.card.build import card_of
from dpaudit.reports.card.sections import sections
from dpaudit.reports.render import page
from dpaudit.reports.sections import verdicts


def render(result: AuditResult) -> str:
    """Render the privacy card as one HTML file that loads nothing."""
    card, part = card_of(result), deployed.alone(result)
    return page.render(
        "card.html.j2",
        charts=[],
        card=card,
        page=sheet.of(card),
        outcome=palette.RUN[result.outcome],
        badge=verdicts.badge(part, part.models),
        sections=sections(card),
    )
