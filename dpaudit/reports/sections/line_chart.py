"""A chart of lines with their intervals: one drawing for every number that varies along an axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dpaudit.reports import chart_parts as parts
from dpaudit.reports.axis import Axis
from dpaudit.reports.chart_parts import Chart, Label, Series
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
        y: the vertical axis; it contains the points and their intervals.
        data: the points: `series`, `name`, `x` (None: the same everywhere), `y`, perhaps `lower`
            and `upper`, the `value` and its `words`, and the fields of `columns`.
        columns: the fields of the table of numbers, with their titles.
        series: the lines, those that leak most first.
        baselines: what can be had without the release.
        by: the field that names the panel of a point; None if there is one panel.
        label: the field of a line's label.
        shape: the encoding of the shape of points.
        band: whether intervals are drawn as a band along the line.
        size: width and height of a panel's plot in pixels.
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
    by: str | None = None
    label: str = "series"
    shape: Any = None
    band: bool = False
    size: tuple[int, int] = parts.SIZE


def chart(lines: Lines) -> Chart:
    """Draw lines, intervals and points; a point without a place is a dotted line across."""
    panels = parts.panels(lines.data, lines.by, lambda data: _spec(lines, data))
    return Chart(
        name=lines.name,
        title=lines.title,
        caption=lines.caption + _thin(lines, [panel.spec for panel in panels]),
        summary=lines.summary,
        panels=panels,
        numbers=parts.numbers(lines.columns, lines.data),
    )


def _thin(lines: Lines, specs: Sequence[dict[str, Any]]) -> str:
    if all(point["bold"] for spec in specs for point in spec["datasets"]["points"]):
        return ""
    return " Six lines are in colour; the table of numbers names the thin grey ones too."


def _spec(lines: Lines, data: Sequence[Datum]) -> dict[str, Any]:
    series = parts.foremost(lines.series, data)
    # What leaks most lies above the rest.
    rank = {line.name: (line.thin, place) for place, line in enumerate(series)}
    points = [
        {**datum, "bold": not rank[datum["series"]][0]}
        for datum in sorted(data, key=lambda datum: rank[datum["series"]], reverse=True)
    ]
    named, rows = parts.labels(_labels(lines, points, series), lines.size)
    flat = [
        {"series": baseline.label, "x": x, "y": y}
        for baseline in lines.baselines
        for x, y in baseline.points
    ]
    return parts.spec(
        [*_baselines(lines), *_layers(lines, points, series), *named],
        lines.size,
        points=points,
        baselines=flat,
        labels=rows,
    )


def _baselines(lines: Lines) -> list[Any]:
    if not lines.baselines:
        return []
    base = parts.drawn_from("baselines").encode(x=lines.x.x(), y=lines.y.y(), detail="series:N")
    return [base.mark_line(strokeDash=[6, 4], color=parts.MUTED)]


def _layers(lines: Lines, data: Sequence[Datum], series: Sequence[Series]) -> list[Any]:
    from dpaudit.reports.vega import alt

    base = parts.drawn_from("points").encode(y=lines.y.y(), color=parts.color(series))
    placed = base.transform_filter("isValid(datum.x)").encode(x=lines.x.x())
    bold = placed.transform_filter("datum.bold")
    ends = bold.transform_filter("isValid(datum.lower) && isValid(datum.upper)")
    between = ends.mark_area(opacity=0.13) if lines.band else ends.mark_rule(opacity=0.45)
    shape = {"shape": lines.shape} if lines.shape else {}
    layers = [
        between.encode(y=lines.y.y("lower"), y2="upper"),
        placed.mark_line().encode(strokeDash=parts.dash(series), strokeWidth=parts.width(series)),
        bold.mark_point(filled=True, size=40, opacity=1).encode(**shape),
    ]
    if any(datum["x"] is None for datum in data):
        across = base.transform_filter("!isValid(datum.x)").encode(
            x=alt.XDatum(lines.x.low), x2=alt.X2Datum(lines.x.high), size=parts.width(series)
        )
        layers.append(across.mark_rule(strokeDash=[2, 4]))
    return layers


def _labels(lines: Lines, data: Sequence[Datum], series: Sequence[Series]) -> list[Label]:
    """Return the labels of the lines at the heights of their last points, and of baselines."""
    last: dict[str, Datum] = {}
    for datum in data:
        name = datum["series"]
        if name not in last or (last[name]["x"] or 0) <= (datum["x"] or 0):
            last[name] = datum
    return [
        Label.of(line, last[line.name][lines.label], lines.y.share(last[line.name]["y"]))
        for line in series
    ] + [
        Label(baseline.label, lines.y.share(baseline.points[-1][1])) for baseline in lines.baselines
    ]
