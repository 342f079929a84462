"""Which measurements a gate judges: for whoever judges it, and for reports that show its number."""

from __future__ import annotations

from collections.abc import Sequence

from dpaudit.config.schema import Gate
from dpaudit.record.result import STRONGEST, Measurement, PointRecord


def picked_by(
    gate: Gate, measurements: Sequence[Measurement], points: Sequence[PointRecord]
) -> list[Measurement]:
    """Return what a gate judges of all that was measured.

    Args:
        gate: the gate.
        measurements: what was measured.
        points: the points of the sweep.
    """
    traits = {(point.model, point.epsilon): point.traits for point in points}
    # Single membership inference attacks are not judged: a choice among them needs other trainings.
    able = (
        measurement
        for measurement in measurements
        if not measurement.unit or measurement.attack == STRONGEST
    )
    return _joint(
        [
            measurement
            for measurement in able
            if measurement.metric == gate.judged
            and gate.picks(
                measurement.fields, traits.get((measurement.model, measurement.epsilon), {})
            )
        ]
    )


def _joint(picked: Sequence[Measurement]) -> list[Measurement]:
    """Leave out numbers that stand by themselves beside a joint one of the same game.

    So a divergence is judged after the last round alone, and by the one estimate that may gate.
    """

    def game(measurement: Measurement) -> tuple[object, ...]:
        return measurement.model, measurement.epsilon, measurement.attack, measurement.pair

    joint = {
        game(measurement) for measurement in picked if measurement.estimate.kind == "frequentist"
    }
    return [
        measurement
        for measurement in picked
        if measurement.census
        or measurement.estimate.kind == "frequentist"
        or game(measurement) not in joint
    ]
