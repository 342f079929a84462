"""Audits of recommenders that serve on demand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from dpaudit.auditor.kind import Forecast, NamedKind
from dpaudit.audits.on_demand.config import OnDemandConfig
from dpaudit.config.schema import Config


class OnDemandAudits(NamedKind):
    """Audits of recommenders that serve on demand."""

    name = "on_demand"
    config: ClassVar[type[Config]] = OnDemandConfig
    words = "models on demand"
    samples = "audit.trials"
    audited = "dpaudit.audits.on_demand.subject:OnDemandModels"
    measured: ClassVar[Sequence[str]] = (
        "dpaudit.audits.on_demand.measures:Risk",
        "dpaudit.audits.on_demand.measures:OnDemandUtility",
        "dpaudit.audits.on_demand.measures:ChainDivergence",
        "dpaudit.audits.on_demand.games:OnDemandGames",
    )
    shown = "dpaudit.audits.on_demand.sections:OnDemandSections"

    def forecast(
        self, config: OnDemandConfig, *, factor: float | None = None, minutes: float | None = None
    ) -> Sequence[Forecast]:
        """Forecast the games."""
        from dpaudit.audits.on_demand.games import forecast

        return forecast(config, factor=factor, minutes=minutes) if config.game else ()


KIND = OnDemandAudits()
