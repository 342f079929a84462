"""Judge the gates and waivers of a run: at its end, and anew whenever a gate is evaluated."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date
from typing import Any

from dpaudit.auditor.gate import judge
from dpaudit.auditor.trainings import JudgedTrainings
from dpaudit.config.gate import Gate, check_rated, picked_by
from dpaudit.core.errors import ConfigError
from dpaudit.core.registry import suggestion
from dpaudit.data.ratings import Scale
from dpaudit.record.metrics import entry
from dpaudit.record.result import STRONGEST, AuditResult, Measurement
from dpaudit.record.verdicts import decided, waivable
from dpaudit.record.waivers import Waiver, judged


def judge_run(
    result: AuditResult,
    day: date,
    *,
    gates: Sequence[Gate] | None = None,
    waivers: Sequence[Waiver] | None = None,
) -> AuditResult:
    """Return the record of a run as judged on this day.

    Args:
        result: the record.
        day: the day in UTC; waivers whose last day is before it are expired.
        gates: gates to judge; None keeps those of the record with their outcomes.
        waivers: waivers to apply; None applies those of the record.

    Raises:
        ConfigError: a gate picks nothing, or does not fit the data.
    """
    config, gate_records = dict(result.config), result.gates
    if gates is not None:
        if result.data:
            check_rated(gates, Scale(*result.data.scale))
        trainings = judged_trainings(result, gates)
        measured = result.points, result.measurements, result.findings
        gate_records = [
            judge(gate, *measured, trainings, result.family, result.kind) for gate in gates
        ]
        config["gate"] = [gate.model_dump(mode="json") for gate in gates]
    if waivers is not None:
        config["waiver"] = [waiver.model_dump(mode="json") for waiver in waivers]
    asked = result.waivers if waivers is None else waivers
    applied = judged(asked, waivable(gate_records, result.verdicts), day)
    outcome = decided(
        gate_records,
        result.verdicts,
        fail_on_false_claim=result.fail_on_false_claim,
        waivers=applied,
    )
    return result.model_copy(
        update={"config": config, "gates": gate_records, "waivers": applied, "outcome": outcome}
    )


def judged_trainings(result: AuditResult, gates: Sequence[Gate]) -> JudgedTrainings:
    """Return the judged trainings of a run, with the level that is left to the next one.

    The joint intervals that decide a claim or another gate take theirs, as `left_for_next` of
    membership audits plans it. What decides nothing takes none.

    Args:
        result: the record.
        gates: the gates to judge.
    """
    stated = [gate.model_dump(mode="json") for gate in gates] == result.config.get("gate")
    judged = [(gate, picked_by(gate, result.measurements, result.points)) for gate in gates]
    claims = {(point.model, point.epsilon): point.claim for point in result.points}
    deciding: dict[tuple[Any, ...], float] = {}
    for measurement in result.measurements:
        claim = claims[measurement.model, measurement.epsilon]
        if measurement.metric == "epsilon" and claim is not None and measurement.tests(claim):
            deciding[measurement.key] = result.family.alpha
    for gate, measurements in judged:
        for measurement in measurements:
            if gate.of == "this-model" and measurement.census:
                # Trainings that end early have used up the share of all that were planned.
                whole = result.family.alpha * _intervals(measurement, result)
                deciding[(*measurement.key, gate.of)] = (
                    whole if stated else measurement.census.level
                )
            elif gate.of == "average" or not measurement.census:
                # Trainings that end early keep what is planned for means, and have none.
                joint = not entry(measurement.metric).derived and (
                    measurement.estimate.kind == "frequentist"
                    or (stated and measurement.census is not None)
                )
                deciding[measurement.key] = result.family.alpha if joint else 0.0
    left = 1 - result.family.confidence - sum(deciding.values())
    # Rounding of shares that add up to the whole.
    table = result.config.get("membership", {})
    return JudgedTrainings.of(
        judged,
        max(left, 0.0),
        beforehand=stated,
        hold=left > -1e-9,
        judged=max(
            (len(one.census.values) for one in result.measurements if one.census), default=0
        ),
        calibrating=table.get("calibrating") if isinstance(table, dict) else None,
    )


def _intervals(measurement: Measurement, result: AuditResult) -> int:
    """Return how many joint intervals a number rests on: a leak on those of all its advantages."""
    if measurement.metric != "leak":
        return 1
    return sum(
        other.metric == "attack.advantage"
        and other.attack == STRONGEST
        and (other.model, other.epsilon) == (measurement.model, measurement.epsilon)
        for other in result.measurements
    )


def check_ids(waivers: Iterable[Waiver], known: Iterable[str], prefix: str = "") -> None:
    """Refuse waivers of unknown ids.

    Args:
        waivers: the waivers.
        known: the ids of claims and gates.
        prefix: prefix of the message, such as the file of the waivers.

    Raises:
        ConfigError: an id is unknown; names those that it may mean.
    """
    ids = set(known)
    for index, waiver in enumerate(waivers):
        if waiver.id not in ids:
            raise ConfigError(
                f"{prefix}waiver.{index}.id = {waiver.id!r} is no claim or gate of the run"
                f"{suggestion(waiver.id, ids)}"
            )
