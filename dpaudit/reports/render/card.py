"""The privacy card as one HTML page, which prints on one sheet."""

from __future__ import annotations

from dpaudit.record.result import AuditResult
from dpaudit.reports import deployed
from dpaudit.reports.card import page as sheet
from dpaudit.reports.card.build import card_of
from dpaudit.reports.card.sections import sections
from dpaudit.reports.render import page
from dpaudit.reports.sections.screen import TONES


def render(result: AuditResult) -> str:
    """Render the privacy card as one HTML file that loads nothing."""
    card = card_of(result)
    return page.render(
        "card.html.j2",
        charts=[],
        card=card,
        page=sheet.of(card),
        tone=TONES[result.outcome],
        badge_tone=deployed.badge(deployed.alone(result))[1],
        sections=sections(card),
    )
