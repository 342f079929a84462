"""Charts of lines with their intervals: numbers along an axis, against ε, and ROC curves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dpaudit.core.messages import plain
from dpaudit.record.result import Measurement
from dpaudit.reports import chart_parts as parts
from dpaudit.reports import words
from dpaudit.reports.chart_parts import (
    Axis,
    ByModel,
    Chart,
    Datum,
    Label,
    Look,
    Series,
    by_point,
    ends,
    extremes,
    position,
)
from dpaudit.reports.frequency import Guess

_WEAK = " An accuracy below guessing shows a weak attack, not a private model."
# Where a point and the ends of its band are drawn, by what they are.
_DRAWN = {"y": "value", "lower": "lower", "upper": "upper"}


@dataclass(frozen=True)
class ReferenceLine:
    """What an attacker or model without the release reaches, drawn as a dashed line.

    Attributes:
        label: what it is.
        points: where it is, as x and y, in the order of x.
    """

    label: str
    points: Sequence[tuple[float, float]]


def level(label: str, value: float, x: Axis) -> ReferenceLine:
    """Return a baseline that is the same everywhere."""
    return ReferenceLine(label, [(x.low, value), (x.high, value)])


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
    baselines: Sequence[ReferenceLine] = ()
    by: str | None = None
    label: str = "series"
    shape: Any = None
    band: bool = False
    size: tuple[int, int] = parts.SIZE


def lines_chart(lines: Lines) -> Chart:
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


def accuracy_chart(by_model: ByModel, look: Look, guesses: Sequence[Guess]) -> Chart | None:
    """Return the chart of attack accuracy against ε, with what a guess reaches."""
    data = [
        {**position(model, row, label), **ends(estimate), "attack": plain(label)}
        for model, row in by_point(by_model)
        for label, estimate in row.accuracy.items()
    ]
    if not finite(data):
        return None
    y = Axis("attack accuracy (ε-Risk)", 0, 1)
    x = _epsilons(data)
    weak = any(datum["value"] < share for datum in data for _, share in guesses)
    lines = against_epsilon(
        "accuracy",
        "How much the attacks recover",
        "The share of hidden ratings that each attack recovered, with its interval."
        + (_WEAK if weak else ""),
        "attack accuracy",
        data,
        look,
        y,
        baselines=[level(label, share, x) for label, share in guesses],
    )
    return lines_chart(lines)


def error_chart(by_model: ByModel, look: Look) -> Chart | None:
    """Return the chart of the error on held-out ratings against ε."""
    data = [
        {**position(model, row), **ends(error)}
        for model, row in by_point(by_model)
        if (error := row.estimate("utility.rmse"))
    ]
    if not finite(data):
        return None
    covered = [datum[end] for datum in data for end in ("y", "lower", "upper")]
    lines = against_epsilon(
        "rmse",
        "What the noise costs: the predictions",
        "The root mean squared error on held-out ratings.",
        "error",
        data,
        look,
        Axis.around("rmse on held-out ratings", covered),
    )
    return lines_chart(lines)


def against_epsilon(
    name: str,
    title: str,
    caption: str,
    what: str,
    data: list[Datum],
    look: Look,
    y: Axis,
    baselines: Sequence[ReferenceLine] = (),
    shape: Any = None,
) -> Lines:
    """Return lines with their intervals; what has no noise is a dotted line across."""
    dotted = any(datum["x"] is None for datum in data)
    return Lines(
        name,
        title,
        caption + (" A dotted line is a model without noise (ε = ∞)." if dotted else ""),
        extremes(what, data),
        x=_epsilons(data),
        y=y,
        data=data,
        columns={"series": "series", "at": "ε", "words": what, "trials": "trials"},
        series=look.series(data, "value"),
        baselines=baselines,
        shape=shape,
    )


def _epsilons(data: list[Datum]) -> Axis:
    epsilons = sorted({datum["x"] for datum in finite(data)})
    return Axis.over("ε", epsilons, values=epsilons)


def finite(data: list[Datum]) -> list[Datum]:
    """Return the points at a finite ε; without any there is no axis, and no chart."""
    return [datum for datum in data if datum["x"] is not None]


def roc_points(rates: Sequence[Measurement]) -> Iterator[tuple[Measurement, Datum]]:
    """Yield the rates at some false positives, with their positions on the axes."""
    for rate in rates:
        if rate.at:
            yield (
                rate,
                {
                    "x": rate.at,
                    "value": rate.estimate.value,
                    "lower": rate.estimate.lower,
                    "upper": rate.estimate.upper,
                    "words": words.interval(rate.estimate),
                },
            )


def roc_chart(
    name: str,
    title: str,
    caption: str,
    data: Sequence[Datum],
    columns: Mapping[str, str],
    look: Look,
    by: str,
    label: str = "series",
) -> Chart:
    """Draw ROC curves and a guess, those that are highest at the fewest false positives first.

    Both axes are logarithmic, as what matters is at few false positives (Carlini et al. 2022,
    arXiv:2112.03570, section III).

    Args:
        name: its id in the page.
        title: its heading.
        caption: how to read it.
        data: the points: `series`, `model`, `name`, the fields of `columns` and of `roc_points`.
        columns: the fields of the table of numbers that say whose curve it is, with their titles.
        look: the colours of the models.
        by: the field that names the panel of a point.
        label: the field of a curve's label.
    """
    least = min(datum["x"] for datum in data)
    # Both axes are the same, so that a guess is the diagonal; 0 has no place on them, but the edge.
    axis = Axis("", least / 2, 1, log=True)
    drawn = [
        {
            **datum,
            **{end: max(datum[of], axis.low) for end, of in _DRAWN.items()},
            "leak": datum["value"] if datum["x"] == least else 0.0,
        }
        for datum in data
    ]
    rate = f"true-positive rate at {words.percent(least)} false positives"
    return lines_chart(
        Lines(
            name,
            title,
            caption,
            extremes(rate, [datum for datum in drawn if datum["x"] == least]),
            x=replace(axis, title="false-positive rate"),
            y=replace(axis, title="true-positive rate"),
            data=drawn,
            columns={**columns, "x": "false-positive rate", "words": "true-positive rate"},
            series=look.series(drawn, "leak"),
            baselines=[ReferenceLine("guess", [(axis.low, axis.low), (1, 1)])],
            by=by,
            label=label,
            band=True,
            size=(300, 300),
        )
    )
