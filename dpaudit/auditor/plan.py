"""What a run will emit, decided by the config alone: the source of multiplicity and of gates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

from dpaudit.auditor.context import Subject
from dpaudit.auditor.measures.base import Measure, MetricKey
from dpaudit.config.schema import Config, Gate
from dpaudit.core.errors import ConfigError
from dpaudit.data.ratings import Ratings
from dpaudit.record.result import Family


class Kind(NamedTuple):
    """What kind of thing is audited, and what is measured of it."""

    subject: type[Subject]
    measures: Sequence[type[Measure[Any]]]


def kind_of(config: Config) -> Kind:
    """Models on demand, models that are trained, or a mechanism's outputs."""
    if config.defense:
        from dpaudit.auditor.black_box.subject import BlackBox, OutputGame

        return Kind(BlackBox, (OutputGame,))
    if config.trains:
        from dpaudit.auditor.measures.assumptions import Assumptions
        from dpaudit.auditor.measures.submissions import Reading
        from dpaudit.auditor.measures.trained_games import TrainedGames
        from dpaudit.auditor.measures.trained_utility import TrainedUtility
        from dpaudit.auditor.measures.transcripts import Transcripts
        from dpaudit.auditor.subjects.trained import TrainedModels

        measures = (TrainedUtility, Assumptions, Transcripts, Reading, TrainedGames)
        return Kind(TrainedModels, measures)
    from dpaudit.auditor.measures.convergence import Convergence
    from dpaudit.auditor.measures.games import Games
    from dpaudit.auditor.measures.risk import Risk
    from dpaudit.auditor.measures.sybil import Campaigns
    from dpaudit.auditor.measures.utility import Utility
    from dpaudit.auditor.subjects.on_demand import OnDemandModels

    return Kind(OnDemandModels, (Risk, Utility, Convergence, Games, Campaigns))


def plan(config: Config) -> list[MetricKey]:
    """Every number that a run of this config emits, in the order of the measures."""
    return [key for measure in kind_of(config).measures for key in measure.plan(config)]


def family_of(config: Config, ratings: Ratings | None) -> Family:
    """Every joint interval of the run gets the same share of the error probability.

    Args:
        config: a checked config.
        ratings: the data; of a file of purchases alone there is no rmse, which the config may not
            tell.
    """
    rated = ratings is None or ratings.scale.width > 0
    keys = [key for key in plan(config) if rated or key.metric != "utility.rmse"]
    return Family.of(config.audit.confidence, max(1, sum(key.joint for key in keys)))


def check_gates(config: Config, place: str = "") -> None:
    """Refuse gates that pick nothing of what will be measured.

    Args:
        config: a checked config.
        place: what the message begins with, such as the config's file.

    Raises:
        ConfigError: with the gate and the remedy.
    """
    keys = [asdict(key) for key in plan(config) if key.joint] if config.gate else []
    for index, gate in enumerate(config.gate):
        _check_gate(f"{place}gate.{index}", gate, keys)


def _check_gate(place: str, gate: Gate, keys: Sequence[dict[str, Any]]) -> None:
    keys = [key for key in keys if key["metric"] == gate.metric]
    if not keys:
        needs = {
            "attack.accuracy": "[[attack]]",
            "attack.auc": "[transcript] and a private model",
            "epsilon": "[[game]]",
            "campaign.accuracy": "[[campaign]]",
        }
        remedy = needs.get(gate.metric, "a model that predicts ratings")
        raise ConfigError(f"{place}.metric = {gate.metric!r} is not measured: add {remedy}")
    for name, value in gate.where.items():
        known = list(dict.fromkeys(key.get(name) for key in keys))
        if value not in known:
            choices = ", ".join(f"{choice}" for choice in known if choice is not None)
            raise ConfigError(
                f"{place}.where.{name} = {value!r} is not measured"
                + (f"; there is {choices}" if choices else f" for {gate.metric}: remove it")
            )
    if not any(gate.picks(key) for key in keys):
        raise ConfigError(f"{place}.where picks no point: its keys fit none together")
