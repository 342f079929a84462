"""Audits of trainings by DP-SGD, step by step."""

from __future__ import annotations

from dpaudit.auditor.kind import NamedKind
from dpaudit.audits.dp_training.config import DPTrainingConfig
from dpaudit.record.result import Measurement


class DPTrainingAudits(NamedKind):
    """Audits of trainings by DP-SGD, step by step."""

    name = "dp_training"
    config = DPTrainingConfig
    words = "[dp-training]"
    audited = "dpaudit.audits.dp_training.measures:WatchedTraining"
    measured = ("dpaudit.audits.dp_training.measures:Checks",)
    shown = "dpaudit.audits.dp_training.sections:DPTrainingSections"

    def remedy(self, number: Measurement) -> str:
        """Say that more steps decide, and that what was not tested names its own remedy."""
        return "make more steps, and what each check that was not made asks for"


KIND = DPTrainingAudits()
