"""Audits of what a model's answers tell of users' attributes."""

from __future__ import annotations

from typing import Any

from dpaudit.auditor.kind import NamedKind, without
from dpaudit.audits.attributes.config import AttributesConfig
from dpaudit.record.result import AuditResult, Measurement


class AttributeAudits(NamedKind):
    """Audits of what a model's answers tell of users' attributes."""

    name = "attributes"
    config = AttributesConfig
    words = "[attributes]"
    audited = "dpaudit.audits.attributes.measures:GuessedUsers"
    measured = ("dpaudit.audits.attributes.measures:AttributeInferences",)
    shown = "dpaudit.audits.attributes.sections:AttributeSections"

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


KIND = AttributeAudits()
