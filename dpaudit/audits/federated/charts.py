"""The charts of federated trainings: areas, curves, divergences and errors against rounds."""

from __future__ import annotations

import math
from collections.abc import Sequence

from dpaudit.core.messages import plain
from dpaudit.record.result import WHOLE, AuditResult, Measurement
from dpaudit.reports import digest, words
from dpaudit.reports.chart_parts import Axis, Chart, Datum, Look, edge, extremes
from dpaudit.reports.sections.line_chart import Lines, level, lines_chart, roc_chart, roc_points

# The number of rounds at which a line of errors is drawn, about evenly on a logarithmic axis.
_DRAWN = 40
# The number of attacks that have a picture.
_ATTACKS = 6
_OF_SIX = f" Of more than {_ATTACKS} attacks those are drawn that find most."


def rounds(result: AuditResult, look: Look) -> list[Chart | None]:
    """Return the charts, with None in place of one for which the record has no numbers."""
    return [
        _areas(result, look),
        _curves(result, look),
        _divergences(result, look),
        _errors(result, look),
    ]


def _areas(result: AuditResult, look: Look) -> Chart | None:
    data = _foremost(
        [_by_attack(m) for m in digest.of(result, "transcript.auc") if m.detail is None]
    )
    if not data:
        return None
    x = _rounds(data)
    last = max(datum["x"] for datum in data)
    least = min(_ends(data))
    y = Axis("area under the curve", min(0.48, least - 0.02), 1)
    return lines_chart(
        Lines(
            "transcripts",
            "How fast submissions reveal items",
            "How often an attacker who observes every round scores a real pair of a user and an "
            "item above a fake one. The dashed line is a guess." + _OF_SIX,
            extremes("area", [datum for datum in data if datum["x"] == last]),
            x=x,
            y=y,
            data=data,
            columns={"series": "model", "attack": "attack", "x": "rounds", "words": "area"},
            series=look.series(data, "value"),
            baselines=[level("guess", 0.5, x)],
            by="by",
        )
    )


def _curves(result: AuditResult, look: Look) -> Chart | None:
    data = _foremost(
        [
            {**_by_attack(rate), **position}
            for rate, position in roc_points(digest.of(result, "transcript.roc"))
        ]
    )
    if not data:
        return None
    return roc_chart(
        "roc",
        "How many pairs are found at which false positive rate",
        "The share of real pairs that each attack finds after the last round, against the share of "
        "fakes that it calls real, both axes logarithmic. The dashed line is a guess." + _OF_SIX,
        data,
        {"series": "model", "attack": "attack"},
        look,
        by="by",
    )


def _divergences(result: AuditResult, look: Look) -> Chart | None:
    whole = [m for m in digest.of(result, "transcript.kl") if m.detail == WHOLE]
    data = [_datum(m) for m in whole if m.estimate.value > 0]
    if not data:
        return None
    floor = edge([datum["value"] for datum in data])
    for datum in data:
        datum["lower"] = max(datum.get("lower", floor), floor)
    return lines_chart(
        Lines(
            "divergences",
            "How far real submissions are from fakes",
            "The divergence of a real item's submissions from fakes, a mean over real pairs, both "
            "axes logarithmic.",
            extremes("divergence", data),
            x=_rounds(data),
            y=Axis.over("divergence (nats)", _ends(data)),
            data=data,
            columns={"series": "model", "x": "rounds", "words": "divergence"},
            series=look.series(data, "value"),
        )
    )


def _errors(result: AuditResult, look: Look) -> Chart | None:
    errors = digest.of(result, "transcript.rmse")
    steps = _thinned(sorted({m.step or 0 for m in errors}))
    data = [_datum(m) for m in errors if m.step in steps]
    if not data:
        return None
    return lines_chart(
        Lines(
            "rounds",
            "How fast the model learns",
            "The root mean squared error on held-out ratings after each number of rounds, a mean "
            "over trainings.",
            extremes("rmse", data),
            x=_rounds(data),
            y=Axis.around("rmse on held-out ratings", _ends(data)),
            data=data,
            columns={"series": "model", "x": "rounds", "words": "rmse"},
            series=look.series(data, "value"),
        )
    )


def _foremost(data: Sequence[Datum]) -> list[Datum]:
    """Return the points of the attacks that find most."""
    most: dict[str, float] = {}
    for datum in data:
        most[datum["attack"]] = max(most.get(datum["attack"], 0.0), datum["value"])
    kept = sorted(most, key=lambda attack: -most[attack])[:_ATTACKS]
    return [datum for datum in data if datum["attack"] in kept]


def _ends(data: Sequence[Datum]) -> list[float]:
    return [datum[end] for datum in data for end in ("y", "lower", "upper") if end in datum]


def _rounds(data: Sequence[Datum]) -> Axis:
    steps = sorted({datum["x"] for datum in data})
    return Axis.over("rounds", steps, values=_marks(steps), units=True)


def _marks(steps: Sequence[int]) -> list[int]:
    """Return the rounds to label on the axis, each at least twice the one before."""
    marks: list[int] = []
    for step in reversed(steps):
        if not marks or 2 * step <= marks[-1]:
            marks.append(step)
    return marks[::-1]


def _thinned(steps: Sequence[int]) -> set[int]:
    """Return the first and the last step and some between, about evenly in their logarithms."""
    if len(steps) <= _DRAWN:
        return set(steps)
    ratio = (steps[-1] / max(steps[0], 1)) ** (1 / (_DRAWN - 1))
    kept = [steps[0]]
    for step in steps:
        if step >= kept[-1] * ratio:
            kept.append(step)
    return {*kept, steps[-1]}


def _by_attack(measurement: Measurement) -> Datum:
    datum, attack = _datum(measurement), plain(measurement.attack or "")
    return {
        **datum,
        "attack": attack,
        "by": f"attack: {attack}",
        "name": f"{datum['series']}, {attack}, {measurement.step} rounds",
    }


def _datum(measurement: Measurement) -> Datum:
    ends = {"lower": measurement.estimate.lower, "upper": measurement.estimate.upper}
    series = plain(f"{measurement.model}, ε = {words.epsilon(measurement.epsilon)}")
    return {
        "series": series,
        "model": plain(measurement.model),
        "name": f"{series}, {measurement.step} rounds",
        "x": measurement.step,
        "y": measurement.estimate.value,
        "value": measurement.estimate.value,
        # A single training has no finite interval, and JSON has no infinity.
        **{end: value for end, value in ends.items() if math.isfinite(value)},
        "words": words.interval(measurement.estimate),
    }
