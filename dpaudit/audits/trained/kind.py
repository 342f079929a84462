"""Audits of trained recommenders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from dpaudit.auditor.kind import AuditKind
from dpaudit.auditor.measure import Measure, Subject
from dpaudit.audits.trained.config import TrainedConfig
from dpaudit.config.schema import Config

if TYPE_CHECKING:
    from dpaudit.reports.sections.base import Sections


class TrainedAudits(AuditKind):
    """Audits of trained recommenders."""

    name: ClassVar[str] = "trained"
    config: ClassVar[type[Config]] = TrainedConfig
    words: ClassVar[str] = "trained models"
    samples: ClassVar[str] = "train.trials"

    def subject(self) -> type[Subject[Any]]:
        """Return the class of what is audited."""
        from dpaudit.audits.trained.subject import TrainedModels

        return TrainedModels

    def measures(self) -> Sequence[type[Measure[Any, Any]]]:
        """Return the measures of each model."""
        from dpaudit.audits.trained.games import TrainedGames
        from dpaudit.audits.trained.measures import Assumptions, Personal, TrainedUtility
        from dpaudit.audits.trained.recovery import SubmissionRecovery

        return (TrainedUtility, Assumptions, Personal, SubmissionRecovery, TrainedGames)

    def sections(self) -> type[Sections]:
        """Return what reports show of its records."""
        from dpaudit.audits.trained.sections import TrainedSections

        return TrainedSections


KIND = TrainedAudits()
