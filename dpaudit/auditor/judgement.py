"""Judge the gates and waivers of a run: at its end, and anew whenever a gate is evaluated."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date

from dpaudit.auditor.gate import judge
from dpaudit.auditor.ruling import Trainings
from dpaudit.config.gate import Gate, check_rated
from dpaudit.core import registry
from dpaudit.core.errors import ConfigError
from dpaudit.core.registry import suggestion
from dpaudit.data.ratings import Scale
from dpaudit.record.result import AuditResult
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
        trainings = trainings_of(result, gates)
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


def trainings_of(result: AuditResult, gates: Sequence[Gate]) -> Trainings:
    """Return what the record's kind of audit says of numbers that each of several trainings has."""
    if result.kind not in registry.names("audits"):
        return Trainings()
    trainings: Trainings = registry.load("audits", result.kind).trainings(result, gates)
    return trainings


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
