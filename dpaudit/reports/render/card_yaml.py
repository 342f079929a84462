"""The privacy card as YAML, for machines."""

from __future__ import annotations

from dpaudit.record.result import AuditResult
from dpaudit.reports.card.build import card_of


def render(result: AuditResult) -> str:
    """Render the privacy card as YAML, in the layout of `PrivacyCard`."""
    import yaml

    values = card_of(result).model_dump()
    text: str = yaml.safe_dump(values, sort_keys=False, allow_unicode=True, width=100)
    return text
