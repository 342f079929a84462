"""The subject of recommenders on demand that accounts and public lists attack."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dpaudit.auditor.records import attack_record
from dpaudit.audits.on_demand.subject import OnDemandModels
from dpaudit.audits.sybil.config import SybilConfig


@dataclass(frozen=True)
class AttackedModels(OnDemandModels[SybilConfig]):
    """Recommenders that serve on demand, with the attackers."""

    def trials(self) -> int:
        """Return the number of trials, with those of the attackers."""
        trials = sum(sybil.trials for sybil in self.context.config.sybil)
        return super().trials() + trials * sum(len(model.defenses) for model in self.served)

    def sybil_attacks(self) -> Mapping[str, dict[str, Any]]:
        """Return the records of the Sybil attacks and passive attacks, by label."""
        return {
            sybil.label: {**attack_record(sybil.create("sybil")), **sybil.settings}
            for sybil in self.context.config.sybil
        }
