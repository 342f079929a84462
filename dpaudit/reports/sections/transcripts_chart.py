"""The charts of federated trainings: areas, divergences and errors against rounds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from dpaudit.core.messages import plain
from dpaudit.record.result import WHOLE, AuditResult, Measurement
from dpaudit.reports import chart_parts as parts
from dpaudit.reports import words
from dpaudit.reports.chart_parts import Chart
from dpaudit.reports.sections.transcripts import found_in
from dpaudit.reports.series import Datum

_PICK = " Click a legend entry to highlight it, double-click to show all."


def charts(result: AuditResult) -> list[Chart]:
    """Return the charts for which the record has numbers."""
    found = [_areas(result), _curves(result), _divergences(result), _errors(result)]
    return [chart for chart in found if chart]


def _areas(result: AuditResult) -> Chart | None:
    data = [
        {**_datum(m), "attack": plain(m.attack or "")}
        for m in found_in(result, "transcript.auc")
        if m.detail is None
    ]
    if not data:
        return None
    import altair as alt

    series = list(dict.fromkeys(datum["series"] for datum in data))
    shown = alt.param(
        name="transcript",
        value=series[0],
        bind=alt.binding_select(options=series, element="#transcripts-control", name="model "),
    )
    least = min(0.48, *(datum["shown"] - 0.02 for datum in data))
    scale = alt.Scale(domain=[least, 1], nice=False)
    base = (
        parts.drawn_from("areas")
        .transform_filter("datum.series === transcript")
        .encode(
            x=_rounds(data),
            y=alt.Y("shown:Q", title="area under the curve", scale=scale),
            color=alt.Color(
                "attack:N", title="attack", sort=None, scale=alt.Scale(scheme="tableau20")
            ),
            opacity=parts.picked("attack"),
        )
    )
    tips = parts.tips(series="model", attack="attack", step="rounds", words="area")
    layers = [
        parts.drawn_from("level")
        .mark_rule(strokeDash=[4, 3], color="#444")
        .encode(y=alt.Y("level:Q", scale=scale)),
        base.mark_rule(strokeWidth=1, clip=True).encode(
            y=alt.Y("lower:Q", scale=scale), y2=alt.Y2("upper:Q")
        ),
        base.mark_line(strokeWidth=2),
        base.mark_point(filled=True, size=50)
        .encode(tooltip=tips)
        .add_params(shown, parts.pick("attack"))
        .properties(name="areas"),
    ]
    return Chart(
        "transcripts",
        "How fast submissions reveal items",
        "How often an attacker who observes every round scores a real pair of a user and an item "
        "above a fake one. The dashed line is a guess." + _PICK,
        parts.spec(
            layers, "Area under the curve against rounds", areas=data, level=[{"level": 0.5}]
        ),
    )


def _curves(result: AuditResult) -> Chart | None:
    data = [
        {**_datum(m), "attack": plain(m.attack or ""), "at": m.at}
        for m in found_in(result, "transcript.roc")
    ]
    if not data:
        return None
    import altair as alt

    series = list(dict.fromkeys(datum["series"] for datum in data))
    shown = alt.param(
        name="curve",
        value=series[0],
        bind=alt.binding_select(options=series, element="#roc-control", name="model "),
    )
    least = min(datum["at"] for datum in data)
    x_scale, x_axis = parts.decades(least, 1)
    base = (
        parts.drawn_from("curves")
        .transform_filter("datum.series === curve")
        .encode(
            x=alt.X("at:Q", title="false positives", scale=x_scale, axis=x_axis),
            y=alt.Y("shown:Q", title="true positives", scale=alt.Scale(domain=[0, 1])),
            color=alt.Color(
                "attack:N", title="attack", sort=None, scale=alt.Scale(scheme="tableau20")
            ),
            opacity=parts.picked("attack"),
        )
    )
    tips = parts.tips(series="model", attack="attack", at="false positives", words="found")
    layers = [
        parts.drawn_from("guess")
        .mark_line(strokeDash=[4, 3], color="#444")
        .encode(x=alt.X("at:Q", scale=x_scale), y=alt.Y("at:Q")),
        base.mark_line(strokeWidth=2),
        base.mark_point(filled=True, size=25)
        .encode(tooltip=tips)
        .add_params(shown, parts.pick("attack"))
        .properties(name="curves"),
    ]
    guess = [{"at": rate} for rate in sorted({datum["at"] for datum in data})]
    return Chart(
        "roc",
        "How many pairs are found at which false positive rate",
        "The share of real pairs that each attack finds after the last round, against the share of "
        "fakes that it calls real, on a logarithmic axis. The dashed line is a guess." + _PICK,
        parts.spec(layers, "True against false positives", curves=data, guess=guess),
    )


def _divergences(result: AuditResult) -> Chart | None:
    found = [m for m in found_in(result, "transcript.kl") if m.detail == WHOLE]
    data = [_datum(m) for m in found if m.estimate.value > 0]
    if not data:
        return None
    import altair as alt

    scale, axis = parts.decades(*parts.span([datum["shown"] for datum in data]))
    y = alt.Y("shown:Q", title="divergence (nats)", scale=scale, axis=axis)
    return Chart(
        "divergences",
        "How far real submissions are from fakes",
        "The divergence of a real item's submissions from fakes, a mean over real pairs, both axes "
        "logarithmic." + _PICK,
        _lines(data, y, "divergence"),
    )


def _errors(result: AuditResult) -> Chart | None:
    data = [_datum(m) for m in found_in(result, "transcript.rmse")]
    if not data:
        return None
    import altair as alt

    y = alt.Y("shown:Q", title="rmse on held-out ratings", scale=alt.Scale(zero=False))
    return Chart(
        "rounds",
        "How fast the model learns",
        "The root mean squared error on held-out ratings after each number of rounds, a mean over "
        "trainings." + _PICK,
        _lines(data, y, "rmse"),
    )


def _lines(data: Sequence[Datum], y: Any, title: str) -> dict[str, Any]:
    import altair as alt

    base = parts.drawn_from("points").encode(
        x=_rounds(data),
        y=y,
        color=alt.Color("series:N", title="model", sort=None, scale=alt.Scale(scheme="tableau20")),
        opacity=parts.picked("series"),
    )
    layers = [
        base.mark_line(strokeWidth=2),
        base.mark_point(filled=True, size=25)
        .encode(tooltip=parts.tips(series="model", step="rounds", words=title))
        .add_params(parts.pick("series"))
        .properties(name=title),
    ]
    return parts.spec(layers, f"{title} against rounds", points=list(data))


def _rounds(data: Sequence[Datum]) -> Any:
    import altair as alt

    low, high = parts.span([datum["step"] for datum in data])
    return alt.X(
        "step:Q",
        title="rounds",
        scale=parts.log(low, high),
        axis=alt.Axis(format="~s", labelOverlap="greedy", values=_marks(data)),
    )


def _marks(data: Sequence[Datum]) -> list[int]:
    """Return the rounds to label on the axis, each at least twice the one before."""
    marks: list[int] = []
    for step in sorted({datum["step"] for datum in data}, reverse=True):
        if not marks or 2 * step <= marks[-1]:
            marks.append(step)
    return marks[::-1]


def _datum(found: Measurement) -> Datum:
    ends = {"lower": found.estimate.lower, "upper": found.estimate.upper}
    return {
        "series": f"{plain(found.model)}, ε = {words.epsilon(found.epsilon)}",
        "step": found.step,
        "shown": found.estimate.value,
        # A single training has no finite interval, and JSON has no infinity.
        **{end: value for end, value in ends.items() if math.isfinite(value)},
        "words": words.interval(found.estimate),
    }
