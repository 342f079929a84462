"""Audits of what the server of a federated training sees."""

from __future__ import annotations

from dpaudit.audits.federated.config import FederatedConfig
from dpaudit.audits.trained.kind import TrainedAudits


class FederatedAudits(TrainedAudits):
    """Audits of what the server of a federated training sees."""

    name = "federated"
    config = FederatedConfig
    audited = "dpaudit.audits.federated.measures:FederatedModels"
    measured = (*TrainedAudits.measured, "dpaudit.audits.federated.measures:Transcripts")
    shown = "dpaudit.audits.federated.sections:FederatedSections"


KIND = FederatedAudits()
