"""Audits of what the server of a federated training sees."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from dpaudit.auditor.measure import Measure, Subject
from dpaudit.audits.federated.config import FederatedConfig
from dpaudit.audits.trained.kind import TrainedAudits
from dpaudit.config.schema import Config

if TYPE_CHECKING:
    from dpaudit.reports.sections.base import Sections


class FederatedAudits(TrainedAudits):
    """Audits of what the server of a federated training sees."""

    name: ClassVar[str] = "federated"
    config: ClassVar[type[Config]] = FederatedConfig

    def subject(self) -> type[Subject[Any]]:
        """Return the class of what is audited."""
        from dpaudit.audits.federated.measures import FederatedModels

        return FederatedModels

    def measures(self) -> Sequence[type[Measure[Any, Any]]]:
        """Return the measures of each model."""
        from dpaudit.audits.federated.measures import Transcripts

        return (*super().measures(), Transcripts)

    def sections(self) -> type[Sections]:
        """Return what reports show of its records."""
        from dpaudit.audits.federated.sections import FederatedSections

        return FederatedSections


KIND = FederatedAudits()
