"""A chart of lines with their intervals: one drawing for every number that varies along an axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dpaudit.reports import chart_parts as parts
from dpaudit.reports.axis import Axis
from dpaudit.reports.chart_parts import Chart, Choice, Label, Series
from dpaudit.reports.series import Datum


@dataclass(frozen=True)
class Baseline:
    """What an attacker or model without the release reaches, drawn as a dashed line.

    Attributes:
        label: what it is.
        points: where it is, as x and y, in the order of x.
    """

    label: str
    points: Sequence[tuple[float, float]]


def level(label: str, value: float, x: Axis) -> Baseline:
    """Return a baseline that is the same everywhere."""
    return Baseline(label, [(x.low, value), (x.high, value)])


@dataclass(frozen=True)
class Lines:
    """What a chart of lines shows.

    Attributes:
        name: its id in the page.
        title: its heading.
        caption: how to read it.
        summary: what it shows, in a sentence made from its numbers.
        x: the horizontal axis.
        y: the vertical axis.
        data: the points: `series`, `name`, `x` (None: the same everywhere), `y`, perhaps `lower`
            and `upper`, the `value` and its `words`, and the fields of `columns`.
        columns: the fields of tooltips and tables, with their titles.
        series: the lines, those that leak most first.
        baselines: what can be had without the release.
        choice: the groups of which it shows one at a time.
        shape: the encoding of the shape of points.
    """

    name: str
    title: str
    caption: str
    summary: str
    x: Axis
    y: Axis
    data: Sequence[Datum]
    columns: Mapping[str, str]
    series: Sequence[Series]
    baselines: Sequence[Baseline] = ()
    choice: Choice | None = None
    shape: Any = None


def chart(lines: Lines) -> Chart:
    """Draw lines, intervals and points; a point without a place is a dotted line across."""
    rank = {line.name: place for place, line in enumerate(lines.series)}
    fields = {"series", "x", "y", "lower", "upper", "drawn", *lines.columns}
    if lines.choice:
        fields.add(lines.choice.field)
    data = [
        {field: value for field, value in datum.items() if field in fields}
        # What leaks most lies above the rest.
        for datum in sorted(lines.data, key=lambda datum: -rank[datum["series"]])
    ]
    named, rows = parts.labels(_labels(lines), lines.choice)
    flat = [
        {"series": baseline.label, "x": x, "y": y}
        for baseline in lines.baselines
        for x, y in baseline.points
    ]
    return Chart(
        name=lines.name,
        title=lines.title,
        caption=lines.caption,
        summary=lines.summary,
        spec=parts.spec(
            [*_baselines(lines), *_layers(lines), *named],
            lines.series,
            lines.choice,
            points=data,
            baselines=flat,
            labels=rows,
        ),
        columns=lines.columns,
        series=lines.series,
        choice=lines.choice,
    )


def _baselines(lines: Lines) -> list[Any]:
    if not lines.baselines:
        return []
    base = parts.drawn_from("baselines").encode(x=lines.x.x(), y=lines.y.y(), detail="series:N")
    return [base.mark_line(strokeDash=[6, 4], color=parts.MUTED)]


def _layers(lines: Lines) -> list[Any]:
    import altair as alt

    base = parts.drawn_from("points")
    if lines.choice:
        base = base.transform_filter(f"datum.{lines.choice.field} === shown")
    base = base.encode(y=lines.y.y(), color=parts.color(lines.series), opacity=parts.opacity())
    placed = base.transform_filter("isValid(datum.x)").encode(x=lines.x.x())
    tips = parts.tips(lines.columns)
    layers = [
        placed.transform_filter("isValid(datum.lower) && isValid(datum.upper)")
        .mark_rule(clip=True)
        .encode(y=lines.y.y("lower"), y2="upper", opacity=parts.opacity(0.45, grey=0)),
        placed.mark_line(strokeWidth=2, clip=True).encode(strokeDash=parts.dash(lines.series)),
        placed.mark_point(filled=True, size=45).encode(
            tooltip=tips, **({"shape": lines.shape} if lines.shape else {})
        ),
    ]
    if any(datum["x"] is None for datum in lines.data):
        ends = {"x": alt.XDatum(lines.x.low), "x2": alt.X2Datum(lines.x.high)}
        across = base.transform_filter("!isValid(datum.x)").encode(**ends, tooltip=tips)
        layers.append(across.mark_rule(strokeWidth=2, strokeDash=[2, 4]))
    return layers


def _labels(lines: Lines) -> list[Label]:
    """Return the labels of the lines at the heights of their last points, and of baselines."""
    field = lines.choice.field if lines.choice else None
    groups = lines.choice.options if lines.choice else [""]
    color = {line.name: line.color for line in lines.series}
    last: dict[tuple[str, str], Datum] = {}
    for datum in lines.data:
        key = (datum[field] if field else "", datum["series"])
        if key not in last or (last[key]["x"] or 0) <= (datum["x"] or 0):
            last[key] = datum
    labels = [
        Label(name, lines.y.share(datum["y"]), color[name], group)
        for (group, name), datum in last.items()
    ]
    return labels + [
        Label(
            baseline.label,
            lines.y.share(baseline.points[-1][1]),
            group=group,
            start=lines.y.share(baseline.points[0][1]),
        )
        for group in groups
        for baseline in lines.baselines
    ]
