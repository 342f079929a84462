"""The numbers that a run will emit, decided by the config alone.

They give the size of the family of intervals, and what gates can pick.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpaudit.auditor.gate import identifier
from dpaudit.auditor.judgement import check_ids
from dpaudit.auditor.kind import measures_of
from dpaudit.auditor.measure import MetricKey, picked
from dpaudit.auditor.trainings import NEXT
from dpaudit.config.compatibility.gates import rated
from dpaudit.config.schema import Config, Gate
from dpaudit.core.errors import ConfigError
from dpaudit.data.ratings import Ratings
from dpaudit.record.metrics import entry
from dpaudit.record.result import Family
from dpaudit.record.verdicts import claim_id


def plan(config: Config) -> list[MetricKey]:
    """List every number that a run of this config emits, in the order of the measures."""
    return [key for measure in measures_of(config) for key in measure.plan(config)]


def family_of(config: Config, ratings: Ratings | None) -> Family:
    """Return the family of joint intervals, which share the error probability equally.

    Args:
        config: a checked config.
        ratings: the data. Purchases have no errors of ratings, and the config alone may not reveal
            that a file holds purchases.
    """
    has_ratings = ratings is None or ratings.scale.width > 0
    keys = [key for key in plan(config) if has_ratings or not rated(key.metric)]
    trained = [key for key in keys if key.census and not entry(key.metric).derived]
    size = sum(key.counted for key in keys)
    size += sum(picked(config, key, "this-model") for key in trained)
    # All gates about the next training count as one.
    size += any(picked(config, key, *NEXT) for key in trained)
    return Family.of(config.audit.confidence, max(1, size))


def check_gates(config: Config) -> None:
    """Refuse gates that pick none of the planned measurements.

    Args:
        config: a checked config.

    Raises:
        ConfigError: a gate picks nothing; names the gate and the remedy.
    """
    planned = plan(config) if config.gate else []
    keys = [key for key in planned if key.joint or key.census]
    for index, gate in enumerate(config.gate):
        _check_gate(f"gate.{index}", gate, keys)


def check_waivers(config: Config, prefix: str = "") -> None:
    """Refuse waivers of what a run does not judge.

    Args:
        config: a checked config.
        prefix: prefix of the message, such as the file of the waivers.

    Raises:
        ConfigError: a waiver names no claim and no gate of the run; names those that it may mean.
    """
    if config.waiver:
        claims = (claim_id(key.model, key.epsilon) for key in plan(config))
        check_ids(config.waiver, {*claims, *map(identifier, config.gate)}, prefix)


def _check_gate(table: str, gate: Gate, keys: Sequence[MetricKey]) -> None:
    keys = [key for key in keys if gate.about(key.picked_by, key.traits)]
    if not keys:
        needed = " or ".join(entry(gate.metric).sources)
        raise ConfigError(f"{table}.metric = {gate.metric!r} is not measured: it needs {needed}")
    for name, value in gate.where.items():
        known = list(dict.fromkeys(key.picked_by.get(name) for key in keys))
        if value not in known:
            choices = ", ".join(f"{choice}" for choice in known if choice is not None)
            raise ConfigError(
                f"{table}.where.{name} = {value!r} is not measured"
                + (f"; there is {choices}" if choices else f" for {gate.metric}: remove it")
            )
    picked = [key for key in keys if gate.picks(key.picked_by, key.traits)]
    if gate.of and not any(key.census for key in picked):
        raise ConfigError(
            f"{table}.of = {gate.of!r} is for numbers that each training of [membership] has, and "
            f"{gate.metric} is none here: remove it"
        )
    if not picked:
        raise ConfigError(f"{table}.where picks no point: no point has all these values")
