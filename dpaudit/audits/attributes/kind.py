"""Audits of what a model's answers tell of users' attributes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from dpaudit.auditor.kind import AuditKind, without
from dpaudit.auditor.measure import Measure, Subject
from dpaudit.audits.attributes.config import AttributesConfig
from dpaudit.config.schema import Config
from dpaudit.record.result import AuditResult, Measurement

if TYPE_CHECKING:
    from dpaudit.reports.sections.base import Sections


class AttributeAudits(AuditKind):
    """Audits of what a model's answers tell of users' attributes."""

    name: ClassVar[str] = "attributes"
    config: ClassVar[type[Config]] = AttributesConfig
    words: ClassVar[str] = "[attributes]"

    def subject(self) -> type[Subject[Any]]:
        """Return the class of what is audited."""
        from dpaudit.audits.attributes.subject import GuessedUsers

        return GuessedUsers

    def measures(self) -> Sequence[type[Measure[Any, Any]]]:
        """Return the measures of each model."""
        from dpaudit.audits.attributes.measures import AttributeInferences

        return (AttributeInferences,)

    def remedy(self, number: Measurement) -> str:
        """Say that the users are the sample, and that the data have no more of them."""
        return (
            f"these data have no more: all {number.estimate.n:,} users who are left to guess are "
            "used, and more attributes.trainings average out no difference between users; use data "
            "of more users, or another limit"
        )

    def about(self, result: AuditResult, number: Measurement) -> dict[str, Any]:
        """Return what a number is about; it names who observes, and only lists have a length."""
        unread = ["observers", *(["k"] if number.observer != "own-list" else [])]
        facts = super().about(result, number)
        return {**facts, "attributes": without(facts.get("attributes"), *unread)}

    def sections(self) -> type[Sections]:
        """Return what reports show of its records."""
        from dpaudit.audits.attributes.sections import AttributeSections

        return AttributeSections


KIND = AttributeAudits()
