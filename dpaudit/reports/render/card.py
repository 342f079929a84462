"""The privacy card as one HTML page."""

from __future__ import annotations

from dpaudit.record.result import AuditResult
from dpaudit.reports.card.build import card_of
from dpaudit.reports.card.sections import header, sections
from dpaudit.reports.render import page


def render(result: AuditResult) -> str:
    """Render the privacy card as one HTML file that loads nothing."""
    card = card_of(result)
    return page.render("card.html.j2", charts=[], header=header(card), sections=sections(card))
