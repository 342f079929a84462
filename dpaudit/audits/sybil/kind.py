"""Audits of fake accounts, and public lists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from dpaudit.auditor.measure import Measure, Subject
from dpaudit.audits.on_demand.kind import OnDemandAudits
from dpaudit.audits.sybil.config import SybilConfig
from dpaudit.config.schema import Config

if TYPE_CHECKING:
    from dpaudit.reports.sections.base import Sections


class SybilAudits(OnDemandAudits):
    """Audits of fake accounts, and public lists."""

    name: ClassVar[str] = "sybil"
    config: ClassVar[type[Config]] = SybilConfig

    def subject(self) -> type[Subject[Any]]:
        """Return the class of what is audited."""
        from dpaudit.audits.sybil.measures import AttackedModels

        return AttackedModels

    def measures(self) -> Sequence[type[Measure[Any, Any]]]:
        """Return the measures of each model."""
        from dpaudit.audits.sybil.measures import SybilAttacks

        return (*super().measures(), SybilAttacks)

    def sections(self) -> type[Sections]:
        """Return what reports show of its records."""
        from dpaudit.audits.sybil.sections import SybilSections

        return SybilSections


KIND = SybilAudits()
