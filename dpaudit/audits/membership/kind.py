"""Audits of who is in the data of trained models."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from dpaudit.auditor.context import Subject
from dpaudit.auditor.kind import AuditKind
from dpaudit.auditor.measure import Measure
from dpaudit.audits.membership.config import MembershipConfig
from dpaudit.config.schema import Config
from dpaudit.record.result import Measurement

if TYPE_CHECKING:
    from dpaudit.reports.sections.base import Sections


class MembershipAudits(AuditKind):
    """Audits of who is in the data of trained models."""

    name: ClassVar[str] = "membership"
    config: ClassVar[type[Config]] = MembershipConfig
    words: ClassVar[str] = "[membership]"
    samples: ClassVar[str] = "membership.trainings"

    def subject(self) -> type[Subject[Any]]:
        """Return the class of what is audited."""
        from dpaudit.audits.membership.subject import MemberModels

        return MemberModels

    def measures(self) -> Sequence[type[Measure[Any, Any]]]:
        """Return the measures of each model."""
        from dpaudit.audits.membership.measures import MembershipInferences

        return (MembershipInferences,)

    def remedy(self, number: Measurement) -> str:
        """Name the trainings, and of a bound on ε, whose coins both have, the targets too."""
        return f"use more {self.samples}{' or targets' * (number.metric == 'epsilon')}"

    def decisions(self, config: Any) -> Iterable[str]:
        """Say what numbers of trainings decide of the gates about the next one."""
        from dpaudit.audits.membership.decisions import decisions

        return decisions(config)

    def sections(self) -> type[Sections]:
        """Return what reports show of its records."""
        from dpaudit.audits.membership.sections import MembershipSections

        return MembershipSections


KIND = MembershipAudits()
