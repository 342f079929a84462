"""The leak meter: what each attacker finds, beside a guess and what the gates allow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from operator import itemgetter
from typing import Any

from pydantic import ValidationError

from dpaudit.config.gate import Gate, picked_by
from dpaudit.record.result import AuditResult, GateRecord, Measurement, Outcome, PointRecord, worst
from dpaudit.reports import digest, words
from dpaudit.reports.frequency import Frequency
from dpaudit.reports.sections.base import sections_of

# Rows of the first screen; the tables of results have all.
MOST = 5


def rows(result: AuditResult) -> list[Frequency]:
    """Return what each attacker finds of each model, the surest first.

    It is the number that decides a gate, if there is one, the worst outcome first; else one with a
    limit. Of a sweep it is else that at `epsilon`, else the largest one.
    """
    at, decide = epsilon(result), _decide(result)

    def order(row: Frequency) -> tuple[int, bool, bool, float, float]:
        shown = row.measurement.epsilon == at
        return _urgency(row, decide), row.limit is not None, shown, *_sureness(row)

    most: dict[tuple[str, str], Frequency] = {}
    for frequency in _all(result):
        key = frequency.measurement.model, frequency.attacker
        most[key] = max(most.get(key, frequency), frequency, key=order)
    ordered = sorted(most.values(), key=lambda row: (row.over, row.value), reverse=True)
    if len(ordered) > MOST:
        ordered = _from_all_models(ordered, decide)
    return [_named(row, result) for row in ordered]


def epsilon(result: AuditResult) -> float | None:
    """Return the ε of sweeps on the first screen: the least that a gate is about, if any."""
    judged = (
        {
            measurement.epsilon
            for measurement in picked_by(gate, result.measurements, result.points)
            if digest.swept(result, measurement.model)
        }
        for gate, _ in gates(result)
        if gate
    )
    return min((min(several) for several in judged if len(several) == 1), default=None)


def unlimited(result: AuditResult) -> list[Frequency]:
    """Return the numbers without a limit, at every ε, the largest first."""
    free = [row for row in _all(result) if row.limit is None]
    return [_named(row, result) for row in sorted(free, key=lambda row: row.value, reverse=True)]


def of(measurement: Measurement, result: AuditResult) -> Frequency | None:
    """Return a measurement as a natural frequency with its limit, if it counts what is found."""
    frequency = sections_of(result).frequency(measurement)
    return frequency and _named(_limited(frequency, gates(result), result.points), result)


def _all(result: AuditResult) -> Iterator[Frequency]:
    """Yield what each attacker finds of each model at each ε, and all that gates judge."""
    sections, judged = sections_of(result), gates(result)
    picked = [
        number
        for gate, _ in judged
        if gate
        for number in picked_by(gate, result.measurements, result.points)
    ]
    every = {number.key: number for number in (*sections.metered(), *picked)}
    for number in every.values():
        if frequency := sections.frequency(number):
            yield _limited(frequency, judged, result.points)


def _named(row: Frequency, result: AuditResult) -> Frequency:
    """Return a row whose attacker is named with the effort, and the ε if its model has several."""
    number = row.measurement
    effort = f", effort {number.effort}" if number.effort else ""
    at = f", ε = {words.epsilon(number.epsilon)}" if digest.swept(result, number.model) else ""
    return replace(row, attacker=f"{row.attacker}{effort}{at}")


def _limited(
    frequency: Frequency,
    judged: Sequence[tuple[Gate | None, GateRecord]],
    points: Sequence[PointRecord],
) -> Frequency:
    limits = (limit for limit, _ in limiting(judged, frequency.measurement, points))
    return replace(frequency, limit=min(limits, default=None))


def limiting(
    judged: Sequence[tuple[Gate | None, GateRecord]],
    number: Measurement,
    points: Sequence[PointRecord],
) -> list[tuple[float, GateRecord]]:
    """Return the gates that limit a number from above, each with its limit.

    Args:
        judged: the gates of a record.
        number: the number.
        points: the points of the record.
    """
    return [
        (gate.max, record)
        for gate, record in judged
        if gate and isinstance(gate.max, float) and picked_by(gate, [number], points)
    ]


def gates(result: AuditResult) -> list[tuple[Gate | None, GateRecord]]:
    """Return the gates of a record as they are set and as they were judged.

    One on a metric of a package that is not installed has no threshold here.
    """
    stated = result.config.get("gate", ())
    return [
        (_gate(table), record)
        for table, record in zip_longest(stated[: len(result.gates)], result.gates)
    ]


def numbers(
    gate: Gate | None, record: GateRecord, result: AuditResult
) -> list[tuple[Measurement | None, Outcome]]:
    """Return what a gate judged with its outcome on each number, first the one that decides.

    A point that lacks its number has None, as has what the record has no more. The screen, the
    sentence of the outcome and the kinds take the number of a gate from here alone.
    """
    # Other bases of a metric have the same place.
    picked = picked_by(gate, result.measurements, result.points) if gate else ()
    at = {
        (measurement.model, measurement.epsilon, measurement.place): measurement
        for measurement in picked
    }
    return [
        (at.get((judged.model, judged.epsilon, judged.place)), judged.outcome)
        for judged in record.numbers
    ]


def _decide(result: AuditResult) -> dict[tuple[Any, ...], Outcome]:
    """Return the numbers that decide gates which count, by their keys, with the worst outcome."""
    decide: dict[tuple[Any, ...], Outcome] = {}
    for gate, record in gates(result):
        for number, outcome in numbers(gate, record, result)[:1]:
            if number and record.id not in result.waived:
                decide[number.key] = worst([outcome, decide.get(number.key, outcome)])
    return decide


def _urgency(row: Frequency, decide: Mapping[tuple[Any, ...], Outcome]) -> int:
    order: tuple[Outcome | None, ...] = (None, "pass", "inconclusive", "fail")
    return order.index(decide.get(row.measurement.key))


def _gate(table: object) -> Gate | None:
    try:
        return Gate.model_validate(table)
    except ValidationError:
        return None


def _from_all_models(
    rows: Sequence[Frequency], decide: Mapping[tuple[Any, ...], Outcome]
) -> list[Frequency]:
    """Order rows: what decides a gate, then what has a limit, then the surest of each model."""
    places: Counter[str] = Counter()
    keys = []
    for row in rows:
        place = places[row.measurement.model]
        keys.append((-_urgency(row, decide), row.limit is None, place))
        places[row.measurement.model] += 1
    return [row for _, row in sorted(zip(keys, rows, strict=True), key=itemgetter(0))]


def _sureness(frequency: Frequency) -> tuple[float, float]:
    return frequency.measurement.estimate.lower, frequency.value
