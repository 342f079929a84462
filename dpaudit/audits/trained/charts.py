"""The chart of the error on recovered sensitive ratings against the model's own error."""

from __future__ import annotations

import math
from typing import Any

from dpaudit.core.messages import plain
from dpaudit.record.bases import MEANS, RELEASED
from dpaudit.record.result import AuditResult, Measurement
from dpaudit.reports import chart_parts as parts
from dpaudit.reports import digest, words
from dpaudit.reports.chart_parts import Axis, Chart, Datum, Label, Look

_COLUMNS = {
    "series": "model",
    "attack": "attack",
    "at": "ε",
    "error_words": "rmse",
    "words": "rmse of what is recovered",
}


def recovery(result: AuditResult, look: Look) -> Chart | None:
    """Return the chart of both errors, with one point for each model and ε."""
    points, means = _points(result), _means(result)
    if not points:
        return None
    x = Axis.around("rmse on test ratings", (datum["error"] for datum in points))
    ends = [datum[end] for datum in points for end in ("lower", "upper", "value")]
    y = Axis.around("rmse of what is recovered", [*ends, *(datum["mean"] for datum in means)])
    return Chart(
        "recovery",
        "What is recovered of sensitive ratings",
        "The attacker's error against the model's own, one point for each model and ε; a bar is "
        "the interval over folds. Predictions are better further left, and the attacker errs more "
        "further up. Above the dashed line, guessing the items' means would be better than the "
        "attack. The table says how much of the gain below the line is a leak.",
        parts.extremes("error of what is recovered", points),
        parts.panels(points, None, lambda data: _spec(data, means, look, x, y)),
        parts.numbers(_COLUMNS, points),
    )


def _spec(points: list[Datum], means: list[Datum], look: Look, x: Axis, y: Axis) -> dict[str, Any]:
    from dpaudit.reports.vega import alt

    series = parts.foremost(look.series(points, "leak"), points)
    last = {datum["series"]: datum for datum in points}
    named, rows = parts.labels(
        [
            Label(
                line.name,
                y.share(last[line.name]["value"]) + parts.ABOVE,
                line.color,
                x.share(last[line.name]["error"]),
            )
            for line in series
        ]
        + [Label("guess: item means", y.share(datum["mean"])) for datum in means]
    )
    base = parts.drawn_from("points").encode(
        x=x.x("error"), y=y.y("value"), color=parts.color(series)
    )
    layers = [
        parts.drawn_from("means")
        .mark_rule(strokeDash=[6, 4], color=parts.MUTED)
        .encode(x=x.x("low"), x2="high", y=y.y("mean")),
        base.mark_line().encode(
            order=alt.Order("rank:Q"),
            strokeDash=parts.dash(series),
            strokeWidth=parts.width(series),
        ),
        base.mark_rule(strokeWidth=1.5).encode(y=y.y("lower"), y2="upper"),
        base.mark_point(filled=True, size=80, opacity=1),
        *named,
    ]
    lines = [{**datum, "low": x.low, "high": x.high} for datum in means]
    return parts.spec(layers, points=points, means=lines, labels=rows)


def _of(result: AuditResult, basis: str) -> list[Measurement]:
    return [m for m in digest.of(result, "reconstruction.rmse") if m.detail == basis]


def _points(result: AuditResult) -> list[Datum]:
    errors = {(m.model, m.epsilon): m.estimate for m in digest.of(result, "utility.rmse")}
    recovered = sorted(_of(result, RELEASED), key=lambda error: error.epsilon)
    attacks = {error.attack for error in recovered}
    return [
        {
            "series": plain(one.model if len(attacks) == 1 else f"{one.model}, {one.attack}"),
            "model": plain(one.model),
            "attack": plain(one.attack or ""),
            "at": words.epsilon(one.epsilon),
            "name": plain(f"{one.model}, {one.attack}, ε = {words.epsilon(one.epsilon)}"),
            "rank": rank,
            "error": errors[one.model, one.epsilon].value,
            "error_words": words.interval(errors[one.model, one.epsilon]),
            "value": one.estimate.value,
            "leak": -one.estimate.value,  # the smaller the error, the more leaks
            "lower": one.estimate.lower,
            "upper": one.estimate.upper,
            "words": words.interval(one.estimate),
        }
        for rank, one in enumerate(recovered)
        if (one.model, one.epsilon) in errors and math.isfinite(one.estimate.upper)
    ]


def _means(result: AuditResult) -> list[Datum]:
    # The item means are the same for every model.
    return [{"mean": error.estimate.value} for error in _of(result, MEANS)[:1]]
