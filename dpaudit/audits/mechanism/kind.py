"""Audits of a mechanism by its outputs alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from dpaudit.auditor.kind import AuditKind, Forecast, without
from dpaudit.auditor.measure import Measure, Subject
from dpaudit.audits.mechanism.config import MechanismConfig
from dpaudit.config.schema import Config
from dpaudit.core.errors import ConfigError
from dpaudit.execution.sampling import Cost
from dpaudit.record.result import AuditResult, Measurement


class MechanismAudits(AuditKind):
    """Audits of a mechanism by its outputs alone."""

    name: ClassVar[str] = "mechanism"
    config: ClassVar[type[Config]] = MechanismConfig
    words: ClassVar[str] = "[defense]"
    samples: ClassVar[str] = "audit.trials"
    games: ClassVar[str] = "audit.trials"

    def subject(self) -> type[Subject[Any]]:
        """Return the class of what is audited."""
        from dpaudit.audits.mechanism.subject import BlackBox

        return BlackBox

    def measures(self) -> Sequence[type[Measure[Any, Any]]]:
        """Return the measures of each model."""
        from dpaudit.audits.mechanism.subject import OutputGame

        return (OutputGame,)

    def about(self, result: AuditResult, number: Measurement) -> dict[str, Any]:
        """Return what a number is about: all of the game but the function that is called.

        The more trials there are, the better a score that is learned from half of them.
        """
        game = without(result.config.get("defense"), "target", "label")
        trials = (result.config.get("audit") or {}).get("trials")
        return {**super().about(result, number), "defense": game, "audit.trials": trials}

    def forecast(
        self, config: MechanismConfig, *, factor: float | None = None, minutes: float | None = None
    ) -> Sequence[Forecast]:
        """Refuse, and name the command that plans the same claim."""
        claim, learned = config.defense, config.defense.score == "learned"
        raise ConfigError(
            "a Python mechanism is planned without CONFIG: use --epsilon "
            f"{claim.epsilon:g} --delta {claim.delta:g} --confidence {config.audit.confidence:g} "
            f"--trials {config.audit.trials // (2 if learned else 1)}"
            + (" (half of its trials train the score)" if learned else "")
        )

    def cost(self, config: MechanismConfig, sampled: Callable[[], Cost]) -> Cost:
        """Refuse: an output may depend on those before it, so none of a run stands for the others.

        Raises:
            ConfigError: names the remedy.
        """
        raise ConfigError(
            "a run of [defense] cannot be estimated, as its calls may depend on each other: run it "
            "with few trials first (-s audit.trials=400)"
        )


KIND = MechanismAudits()
