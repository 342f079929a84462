"""Audits of trained recommenders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from dpaudit.auditor.kind import NamedKind
from dpaudit.audits.trained.config import TrainedConfig
from dpaudit.config.schema import Config


class TrainedAudits(NamedKind):
    """Audits of trained recommenders."""

    name = "trained"
    config: ClassVar[type[Config]] = TrainedConfig
    words = "trained models"
    samples = "train.trials"
    audited = "dpaudit.audits.trained.subject:TrainedModels"
    measured: ClassVar[Sequence[str]] = (
        "dpaudit.audits.trained.measures:TrainedUtility",
        "dpaudit.audits.trained.measures:Assumptions",
        "dpaudit.audits.trained.measures:Personal",
        "dpaudit.audits.trained.recovery:SubmissionRecovery",
        "dpaudit.audits.trained.games:TrainedGames",
    )
    shown = "dpaudit.audits.trained.sections:TrainedSections"


KIND = TrainedAudits()
