"""The chart of the error on recovered sensitive ratings against the model's own error."""

from __future__ import annotations

import math

from dpaudit.core.messages import plain
from dpaudit.record.bases import MEANS, RELEASED
from dpaudit.record.result import AuditResult, Measurement
from dpaudit.reports import chart_parts as parts
from dpaudit.reports import words
from dpaudit.reports.axis import Axis
from dpaudit.reports.chart_parts import Chart, Label, Look
from dpaudit.reports.series import Datum

_COLUMNS = {
    "series": "model",
    "attack": "attack",
    "at": "ε",
    "error_words": "rmse",
    "words": "rmse of what is recovered",
}


def chart(result: AuditResult, look: Look) -> Chart | None:
    """Return the chart of both errors, with one point for each model and ε."""
    points, means = _points(result), _means(result)
    if not points:
        return None
    import altair as alt

    x = Axis.around("rmse on test ratings", (datum["error"] for datum in points))
    ends = [datum[end] for datum in points for end in ("lower", "upper", "value")]
    y = Axis.around("rmse of what is recovered", [*ends, *(datum["mean"] for datum in means)])
    series = look.series(points, "leak")
    last = {datum["series"]: datum for datum in points}
    named, rows = parts.labels(
        [Label(each.name, y.share(last[each.name]["value"]), each.color) for each in series]
        + [Label("guess: item means", y.share(datum["mean"])) for datum in means]
    )
    base = parts.drawn_from("points").encode(
        x=x.x("error"), y=y.y("value"), color=parts.color(series), opacity=parts.opacity()
    )
    layers = [
        parts.drawn_from("means")
        .mark_rule(strokeDash=[6, 4], color=parts.MUTED)
        .encode(x=x.x("low"), x2="high", y=y.y("mean")),
        base.mark_line(strokeWidth=1).encode(order=alt.Order("rank:Q")),
        base.mark_rule(strokeWidth=1.5).encode(y=y.y("lower"), y2="upper"),
        base.mark_point(filled=True, size=80).encode(tooltip=parts.tips(_COLUMNS)),
    ]
    return Chart(
        "recovery",
        "What is recovered of sensitive ratings",
        "The attacker's error against the model's own, one point for each model and ε; a bar is "
        "the interval over folds. Predictions are better further left, and the attacker errs more "
        "further up. Above the dashed line, guessing the items' means would be better than the "
        "attack. The table says how much of the gain below the line is a leak.",
        parts.extremes("error of what is recovered", points),
        parts.spec(
            [*layers, *named],
            series,
            points=points,
            means=[{**each, "low": x.low, "high": x.high} for each in means],
            labels=rows,
        ),
        columns=_COLUMNS,
        series=series,
    )


def _of(result: AuditResult, states: str) -> list[Measurement]:
    return [
        each
        for each in result.measurements
        if each.metric == "reconstruction.rmse" and each.detail == states
    ]


def _points(result: AuditResult) -> list[Datum]:
    errors = {
        (each.model, each.epsilon): each.estimate
        for each in result.measurements
        if each.metric == "utility.rmse"
    }
    found = sorted(_of(result, RELEASED), key=lambda each: each.epsilon)
    attacks = {each.attack for each in found}
    return [
        {
            "series": plain(each.model if len(attacks) == 1 else f"{each.model}, {each.attack}"),
            "model": plain(each.model),
            "attack": plain(each.attack or ""),
            "at": words.epsilon(each.epsilon),
            "name": plain(f"{each.model}, {each.attack}, ε = {words.epsilon(each.epsilon)}"),
            "rank": rank,
            "error": errors[each.model, each.epsilon].value,
            "error_words": words.interval(errors[each.model, each.epsilon]),
            "value": each.estimate.value,
            "leak": -each.estimate.value,  # the smaller the error, the more leaks
            "lower": each.estimate.lower,
            "upper": each.estimate.upper,
            "words": words.interval(each.estimate),
        }
        for rank, each in enumerate(found)
        if math.isfinite(each.estimate.upper)
    ]


def _means(result: AuditResult) -> list[Datum]:
    # The item means are the same for every model.
    return [{"mean": each.estimate.value} for each in _of(result, MEANS)[:1]]
