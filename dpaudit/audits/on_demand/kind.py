"""Audits of recommenders that serve on demand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from dpaudit.auditor.kind import AuditKind, Forecast
from dpaudit.auditor.measure import Measure, Subject
from dpaudit.audits.on_demand.config import OnDemandConfig
from dpaudit.config.schema import Config

if TYPE_CHECKING:
    from dpaudit.reports.sections.base import Sections


class OnDemandAudits(AuditKind):
    """Audits of recommenders that serve on demand."""

    name: ClassVar[str] = "on_demand"
    config: ClassVar[type[Config]] = OnDemandConfig
    words: ClassVar[str] = "models on demand"
    samples: ClassVar[str] = "audit.trials"

    def subject(self) -> type[Subject[Any]]:
        """Return the class of what is audited."""
        from dpaudit.audits.on_demand.subject import OnDemandModels

        return OnDemandModels

    def measures(self) -> Sequence[type[Measure[Any, Any]]]:
        """Return the measures of each model."""
        from dpaudit.audits.on_demand.games import OnDemandGames
        from dpaudit.audits.on_demand.measures import ChainDivergence, OnDemandUtility, Risk

        return (Risk, OnDemandUtility, ChainDivergence, OnDemandGames)

    def sections(self) -> type[Sections]:
        """Return what reports show of its records."""
        from dpaudit.audits.on_demand.sections import OnDemandSections

        return OnDemandSections

    def forecast(
        self, config: OnDemandConfig, *, factor: float | None = None, minutes: float | None = None
    ) -> Sequence[Forecast]:
        """Forecast the games."""
        from dpaudit.audits.on_demand.games import forecast

        return forecast(config, factor=factor, minutes=minutes) if config.game else ()


KIND = OnDemandAudits()
