"""Audits of fake accounts, and public lists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from dpaudit.auditor.context import Subject
from dpaudit.auditor.measure import Measure
from dpaudit.audits.on_demand.kind import OnDemandAudits
from dpaudit.audits.sybil.config import SybilConfig
from dpaudit.config.schema import Config


class SybilAudits(OnDemandAudits):
    """Audits of fake accounts, and public lists."""

    name: ClassVar[str] = "sybil"
    config: ClassVar[type[Config]] = SybilConfig

    def subject(self) -> type[Subject[Any]]:
        """Return the class of what is audited."""
        from dpaudit.audits.sybil.subject import AttackedModels

        return AttackedModels

    def measures(self) -> Sequence[type[Measure[Any, Any]]]:
        """Return the measures of each model."""
        from dpaudit.audits.sybil.measures import SybilAttacks

        return (*super().measures(), SybilAttacks)


KIND = SybilAudits()
