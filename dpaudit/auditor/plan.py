"""The numbers that a run will emit, decided by the config alone.

They give the size of the family of intervals, and what gates can pick.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

from dpaudit.auditor.context import Subject
from dpaudit.auditor.gate import identifier
from dpaudit.auditor.judgement import check_ids
from dpaudit.auditor.measure import Measure, MetricKey
from dpaudit.config.compatibility.gates import RATED
from dpaudit.config.schema import Config, Gate
from dpaudit.core.errors import ConfigError
from dpaudit.data.ratings import Ratings
from dpaudit.record.metrics import METRICS
from dpaudit.record.result import Family
from dpaudit.record.verdicts import claim_id


class Kind(NamedTuple):
    """The kind of subject that is audited, and the measures applied to it."""

    subject: type[Subject]
    measures: Sequence[type[Measure[Any]]]


def kind_of(config: Config) -> Kind:
    """Select the subject: a black box, models of a membership game, trained, or on demand."""
    if config.defense:
        from dpaudit.audits.mechanism.subject import BlackBox, OutputGame

        return Kind(BlackBox, (OutputGame,))
    if config.membership:
        from dpaudit.audits.membership.measures import MembershipInferences
        from dpaudit.audits.membership.subject import MemberModels

        return Kind(MemberModels, (MembershipInferences,))
    if config.trains:
        from dpaudit.audits.federated.measures import Transcripts
        from dpaudit.audits.federated.submissions import SubmissionRecovery
        from dpaudit.audits.trained.assumptions import Assumptions
        from dpaudit.audits.trained.games import TrainedGames
        from dpaudit.audits.trained.personal import Personal
        from dpaudit.audits.trained.subject import TrainedModels
        from dpaudit.audits.trained.utility import TrainedUtility

        measures = (
            TrainedUtility,
            Assumptions,
            Personal,
            Transcripts,
            SubmissionRecovery,
            TrainedGames,
        )
        return Kind(TrainedModels, measures)
    from dpaudit.audits.on_demand.convergence import Convergence
    from dpaudit.audits.on_demand.games import Games
    from dpaudit.audits.on_demand.risk import Risk
    from dpaudit.audits.on_demand.subject import OnDemandModels
    from dpaudit.audits.on_demand.utility import Utility
    from dpaudit.audits.sybil.measures import SybilAttacks

    return Kind(OnDemandModels, (Risk, Utility, Convergence, Games, SybilAttacks))


def plan(config: Config) -> list[MetricKey]:
    """List every number that a run of this config emits, in the order of the measures."""
    return [key for measure in kind_of(config).measures for key in measure.plan(config)]


def family_of(config: Config, ratings: Ratings | None) -> Family:
    """Return the family of joint intervals, which share the error probability equally.

    Args:
        config: a checked config.
        ratings: the data. Purchases have no errors of ratings, and the config alone may not reveal
            that a file holds purchases.
    """
    rated = ratings is None or ratings.scale.width > 0
    keys = [key for key in plan(config) if rated or key.metric not in RATED]
    return Family.of(config.audit.confidence, max(1, sum(key.counted for key in keys)))


def check_named(config: Config) -> None:
    """Refuse a config that does not say what is audited: defaults are nobody's data and model.

    Args:
        config: a checked config.

    Raises:
        ConfigError: it names no data, or data of the user's and nothing that is trained on them.
    """
    if config.defense:
        return
    if not config.data.model_fields_set & {"format", "synthetic"}:
        raise ConfigError(
            "data.format is missing, so no data are named: write [data] with the format and path "
            "of your ratings (or format = 'synthetic' for generated ones), and [[model]] or "
            "[[recommender]]; 'dpaudit init --data FILE' writes them"
        )
    named = config.model_fields_set & {"model", "recommender", "membership"}
    if config.data.format != "synthetic" and not named:
        raise ConfigError(
            "no model is named, so nothing of yours would be audited: add a [[recommender]] of "
            "your own or a [[model]] with the defense that is audited, see 'dpaudit list defenses'"
        )


def check_gates(config: Config) -> None:
    """Refuse gates that pick none of the planned measurements.

    Args:
        config: a checked config.

    Raises:
        ConfigError: a gate picks nothing; names the gate and the remedy.
    """
    keys = [asdict(key) for key in plan(config) if key.joint] if config.gate else []
    for index, gate in enumerate(config.gate):
        _check_gate(f"gate.{index}", gate, keys)


def check_waivers(config: Config, place: str = "") -> None:
    """Refuse waivers of what a run does not judge.

    Args:
        config: a checked config.
        place: prefix of the message, such as the file of the waivers.

    Raises:
        ConfigError: a waiver names no claim and no gate of the run; names those that it may mean.
    """
    if config.waiver:
        claims = (claim_id(key.model, key.epsilon) for key in plan(config))
        check_ids(config.waiver, {*claims, *map(identifier, config.gate)}, place)


def _check_gate(place: str, gate: Gate, keys: Sequence[dict[str, Any]]) -> None:
    keys = [key for key in keys if key["metric"] == gate.metric]
    if not keys:
        needed = " or ".join(METRICS[gate.metric].sources)
        raise ConfigError(f"{place}.metric = {gate.metric!r} is not measured: it needs {needed}")
    for name, value in gate.where.items():
        known = list(dict.fromkeys(key.get(name) for key in keys))
        if value not in known:
            choices = ", ".join(f"{choice}" for choice in known if choice is not None)
            raise ConfigError(
                f"{place}.where.{name} = {value!r} is not measured"
                + (f"; there is {choices}" if choices else f" for {gate.metric}: remove it")
            )
    if not any(gate.picks(key) for key in keys):
        raise ConfigError(f"{place}.where picks no point: no point has all these values")
