"""Audits of fake accounts, and public lists."""

from __future__ import annotations

from dpaudit.audits.on_demand.kind import OnDemandAudits
from dpaudit.audits.sybil.config import SybilConfig


class SybilAudits(OnDemandAudits):
    """Audits of fake accounts, and public lists."""

    name = "sybil"
    config = SybilConfig
    audited = "dpaudit.audits.sybil.measures:AttackedModels"
    measured = (*OnDemandAudits.measured, "dpaudit.audits.sybil.measures:SybilAttacks")
    shown = "dpaudit.audits.sybil.sections:SybilSections"


KIND = SybilAudits()
