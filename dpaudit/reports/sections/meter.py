"""The leak meter: what each attacker finds, beside a guess and what the gates allow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import zip_longest
from operator import itemgetter

from pydantic import ValidationError

from dpaudit.config.picked import picked_by
from dpaudit.config.schema import Gate
from dpaudit.record.result import AuditResult, GateRecord, Measurement
from dpaudit.reports import digest, words
from dpaudit.reports.frequency import Frequency
from dpaudit.reports.sections.base import sections_of

# Rows of the first screen; the tables of results have all.
MOST = 8


def rows(result: AuditResult) -> list[Frequency]:
    """Return what each attacker finds of each model, the surest first.

    Of a sweep it is the ε at which the attacker finds most, of those that a gate limits if any are.
    """
    sections, judged = sections_of(result), gates(result)
    most: dict[tuple[str, str], Frequency] = {}
    for measurement in sections.metered():
        frequency = _limited(sections.frequency(measurement), judged)
        if frequency is not None:
            key = measurement.model, frequency.attacker
            most[key] = max(most.get(key, frequency), frequency, key=_order)
    ordered = sorted(most.values(), key=_sureness, reverse=True)
    if len(ordered) > MOST:
        ordered = _from_all_models(ordered)
    return [
        replace(row, attacker=f"{row.attacker}, ε = {words.epsilon(row.measurement.epsilon)}")
        if digest.swept(result, row.measurement.model)
        else row
        for row in ordered
    ]


def of(measurement: Measurement, result: AuditResult) -> Frequency | None:
    """Return a measurement as a natural frequency with its limit, if it counts what is found."""
    return _limited(sections_of(result).frequency(measurement), gates(result))


def _limited(
    frequency: Frequency | None, judged: Sequence[tuple[Gate | None, GateRecord]]
) -> Frequency | None:
    limits = [
        gate.max
        for gate, _ in judged
        if frequency
        and gate
        and isinstance(gate.max, float)
        and picked_by(gate, [frequency.measurement])
    ]
    return frequency and replace(frequency, limit=min(limits, default=None))


def gates(result: AuditResult) -> list[tuple[Gate | None, GateRecord]]:
    """Return the gates of a record as they are set and as they were judged.

    One on a metric of a package that is not installed has no threshold here.
    """
    stated = result.config.get("gate", ())
    return [
        (_gate(table), record)
        for table, record in zip_longest(stated[: len(result.gates)], result.gates)
    ]


def _gate(table: object) -> Gate | None:
    try:
        return Gate.model_validate(table)
    except ValidationError:
        return None


def _from_all_models(rows: Sequence[Frequency]) -> list[Frequency]:
    """Order rows so that the first are those with limits, then the surest of each model."""
    places: Counter[str] = Counter()
    keys = []
    for row in rows:
        keys.append((row.limit is None, places[row.measurement.model]))
        places[row.measurement.model] += 1
    return [row for _, row in sorted(zip(keys, rows, strict=True), key=itemgetter(0))]


def _order(frequency: Frequency) -> tuple[bool, float, float]:
    return frequency.limit is not None, *_sureness(frequency)


def _sureness(frequency: Frequency) -> tuple[float, float]:
    return frequency.measurement.estimate.lower, frequency.value
