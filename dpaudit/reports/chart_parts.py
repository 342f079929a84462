"""The parts that the charts share: points, axes, series and their colours, panels, labels.

A chart is a picture without interaction: what it says stands in it, in its texts and in the table
of its numbers.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dpaudit.core.estimate import Estimate
from dpaudit.core.messages import plain
from dpaudit.reports import digest, vega, words
from dpaudit.reports.table import NONE, Table

# Colours are properties of the page's style, so that they follow its scheme, on paper too.
COLORS = tuple(f"var(--series-{place})" for place in range(1, 7))
REST = "var(--rest)"  # a series beyond the six in colour
FALSE, MUTED, INK = "var(--bad)", "var(--muted)", "var(--text)"
SIZE = (360, 260)  # of a plot without axes and labels, in pixels
ABOVE = 0.035  # from a point to a label that no bar of the point strikes, as a share of an axis
_FONT, _LINE = 13, 15  # of a text, and from one line of it to the next
_SAMPLE = 20  # length of the sample of a line
_LETTERS = 26  # of a label in one line; a longer one has a second line
_DASHES: tuple[tuple[int, ...], ...] = ((1, 0), (7, 3), (2, 3), (9, 3, 2, 3))
# No label is a long row of zeros.
_NUMBER = "format(datum.value, datum.value && abs(datum.value) < 0.001 ? '~e' : '~g')"

# A point: plain numbers, and their texts.
Datum = dict[str, Any]
# The rows of each model.
ByModel = Mapping[str, list[digest.Row]]


def by_point(by_model: ByModel) -> Iterator[tuple[str, digest.Row]]:
    """Yield the rows of all models, each with its model."""
    for model, sweep in by_model.items():
        for row in sweep:
            yield model, row


def position(model: str, row: digest.Row, *labels: str) -> Datum:
    """Return model, ε and name of a point; an infinite ε is None, as JSON and log axes lack it."""
    epsilon = row.point.epsilon
    series = plain(", ".join([model, *labels]))
    return {
        "series": series,
        "model": plain(model),
        "x": epsilon if math.isfinite(epsilon) else None,
        "at": words.epsilon(epsilon),
        "name": f"{series}, ε = {words.epsilon(epsilon)}",
    }


def ends(estimate: Estimate) -> Datum:
    """Return a value with its interval and its words."""
    return {
        "value": estimate.value,
        "y": estimate.value,
        "lower": estimate.lower,
        "upper": estimate.upper,
        "words": words.interval(estimate),
        "trials": estimate.n,
    }


def covered(data: Sequence[Datum], *fields: str) -> list[float]:
    """Return the values of these fields, which an axis is to cover; an open end has none."""
    return [datum[field] for datum in data for field in fields if field in datum]


def edge(values: Sequence[float]) -> float:
    """Return the lower end of a logarithmic axis that shows these values."""
    return min((value for value in values if value > 0), default=1.0) / 2


@dataclass(frozen=True)
class Axis:
    """A quantitative axis.

    Attributes:
        title: what it shows.
        low: its lower or left end.
        high: its other end.
        log: whether it is logarithmic.
        values: where it has ticks; by default Vega's, or powers of ten.
        units: whether large numbers are written with k and M.
        label: a Vega expression of the labels.
    """

    title: str
    low: float
    high: float
    log: bool = False
    values: Sequence[float] | None = None
    units: bool = False
    label: str | None = None

    @classmethod
    def over(cls, title: str, covered: Iterable[float], **changes: Any) -> Axis:
        """Return a logarithmic axis that covers these values."""
        points = list(covered)
        return cls(title, min(points) / 1.25, max(points) * 1.25, log=True, **changes)

    @classmethod
    def around(cls, title: str, values: Iterable[float]) -> Axis:
        """Return a linear axis that covers these values, with some room at either end."""
        numbers = list(values)
        room = (max(numbers) - min(numbers)) / 20 or abs(max(numbers)) / 20 or 1.0
        return cls(title, min(numbers) - room, max(numbers) + room)

    def share(self, value: float) -> float:
        """Return the place of a value on the axis, from 0 to 1 if it lies between the ends."""
        if not self.log:
            return (value - self.low) / (self.high - self.low)
        return math.log(value / self.low) / math.log(self.high / self.low)

    def scale(self) -> Any:
        """Return the scale."""
        kind = {"type": "log"} if self.log else {"zero": False}
        return vega.Scale(domain=[self.low, self.high], nice=False, **kind)

    def ticks(self, **style: Any) -> Any:
        """Return ticks and labels."""
        values = self.values or (self._powers() if self.log else None)
        how = {"format": "~s"} if self.units else {"labelExpr": self.label or _NUMBER}
        given = {"values": list(values)} if values else {"tickCount": 6}
        return vega.Axis(labelOverlap="greedy", **given, **how, **style)

    def x(self, of: str = "x") -> Any:
        """Encode a field as the horizontal place."""
        return vega.X(f"{of}:Q", title=self.title, scale=self.scale(), axis=self.ticks())

    def y(self, of: str = "y") -> Any:
        """Encode a field as the vertical place."""
        # The title stands above the axis, where no label is in its way.
        title = {"titleAngle": 0, "titleAlign": "left", "titleAnchor": "end", "titleX": 0,
                 "titleY": -14}  # fmt: skip
        return vega.Y(f"{of}:Q", title=self.title, scale=self.scale(), axis=self.ticks(**title))

    def _powers(self) -> list[float]:
        """Return the powers of ten, or finer steps, near the axis."""
        low, high = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        steps = (1,) if self.high > 100 * self.low else (1, 2, 5)
        return [float(f"{step}e{power}") for power in range(low, high + 1) for step in steps]


@dataclass(frozen=True)
class Series:
    """One line or group of points of a chart.

    Attributes:
        name: its label.
        color: a colour of the page's style.
        dash: lengths of dashes and gaps.
    """

    name: str
    color: str
    dash: tuple[int, ...] = _DASHES[0]

    @property
    def thin(self) -> bool:
        """Whether it is one of many, without a label and an interval."""
        return self.color == REST


@dataclass(frozen=True)
class Panel:
    """One drawing of a chart.

    Attributes:
        name: the group that it shows; empty if it shows all.
        spec: the Vega-Lite specification.
    """

    name: str
    spec: dict[str, Any]


@dataclass(frozen=True)
class Chart:
    """A chart with its heading and its texts.

    Attributes:
        name: its id in the page.
        title: its heading.
        caption: how to read it.
        summary: what it shows, in a sentence made from its numbers.
        panels: its drawings, one for each group; none if there is nothing to compare.
        numbers: the table of its numbers.
        notes: sentences below it.
        advice: a table of what follows from it.
    """

    name: str
    title: str
    caption: str
    summary: str
    panels: Sequence[Panel]
    numbers: Table
    notes: Sequence[str] = ()
    advice: Table | None = None


@dataclass(frozen=True)
class Look:
    """The colours of models, the same in every chart.

    Attributes:
        models: the labels of all models, those that leak most first.
    """

    models: Sequence[str]

    def series(self, data: Sequence[Datum], leak: str) -> list[Series]:
        """Return the series of the data, those with the largest value of `leak` first.

        Each has the colour of its `model`, grey beyond the six models that leak most, and dashes by
        what tells the series of a model apart: its `attack`, if the data have one.
        """
        most: dict[str, float] = {}
        for datum in data:
            most[datum["series"]] = max(most.get(datum["series"], -math.inf), datum[leak])
        kinds = {datum["series"]: (datum["model"], datum.get("attack")) for datum in data}
        attacks = list(dict.fromkeys(attack for _, attack in kinds.values()))
        series = []
        for name in sorted(most, key=lambda name: -most[name]):
            model, attack = kinds[name]
            color = (*COLORS, REST)[min(self.models.index(model), len(COLORS))]
            series.append(Series(name, color, _DASHES[attacks.index(attack) % 4]))
        return series


def foremost(series: Sequence[Series], data: Sequence[Datum]) -> list[Series]:
    """Return the series of these data; beyond the first six in colour they are grey."""
    names = {datum["series"] for datum in data}
    here = [line for line in series if line.name in names]
    bold = [line for line in here if not line.thin][: len(COLORS)]
    return [line if line in bold else replace(line, color=REST) for line in here]


def panels(
    data: Sequence[Datum], by: str | None, draw: Callable[[list[Datum]], dict[str, Any]]
) -> list[Panel]:
    """Return a drawing of each group that has more than one point.

    Args:
        data: the points.
        by: the field that names the group of a point; None if there is one group.
        draw: returns the specification of a group.
    """
    groups: dict[str, list[Datum]] = {}
    for datum in data:
        groups.setdefault(datum[by] if by else "", []).append(datum)
    return [Panel(name, draw(group)) for name, group in groups.items() if len(group) > 1]


def numbers(columns: Mapping[str, str], data: Sequence[Datum]) -> Table:
    """Return the table of a chart's numbers.

    Args:
        columns: fields of the data, with their titles.
        data: the points.
    """
    cells = [[_cell(datum.get(name)) for name in columns] for datum in data]
    return Table("The numbers of this chart", list(columns.values()), cells)


def _cell(value: object) -> str:
    if value is None:
        return NONE
    return f"{value:.5g}" if isinstance(value, float) else str(value)


def drawn_from(name: str) -> Any:
    """Return a chart of the data set of this name, which `spec` adds."""
    return vega.Chart(vega.NamedData(name))


def dashed(name: str, **encodings: Any) -> Any:
    """Draw the data set of this name as dashed straight lines, which stand for a reference."""
    return drawn_from(name).mark_rule(strokeDash=[6, 4], color=MUTED).encode(**encodings)


def spec(
    layers: list[Any], size: tuple[int, int] = SIZE, **data: Sequence[Datum]
) -> dict[str, Any]:
    """Join layers into one specification, with their data by name.

    Args:
        layers: the layers.
        size: width and height of the plot in pixels; axes and labels stand around it.
        data: the data sets.
    """
    text = {"labelColor": INK, "titleColor": INK, "labelFontSize": _FONT, "titleFontSize": _FONT}
    # One call sets everything, as each `properties` or `configure` copies the whole chart.
    chart = vega.layer(
        *layers,
        width=size[0],
        height=size[1],
        background="transparent",
        config=vega.Config(
            aria=False,  # the page describes the whole chart
            mark=vega.MarkConfig(aria=False),
            text=vega.MarkConfig(fontSize=_FONT, lineHeight=_LINE),
            # Of the same widths where the picture is made and where it is shown.
            font="Arial, 'Liberation Sans', sans-serif",
            padding={"left": 16, "top": 8, "right": 16, "bottom": 6},
            axis=vega.AxisConfig(
                gridColor="var(--grid)", domainColor=MUTED, tickColor=MUTED,
                titleFontWeight="normal", labelLimit=260, **text,
            ),
            legend=vega.LegendConfig(orient="top", title=None, **text),
            view=vega.ViewConfig(stroke="var(--grid)"),
        ),
    )  # fmt: skip
    # Only the tests validate against the schema: it takes as long as all the rest.
    chart_spec: dict[str, Any] = chart.to_dict(validate=False)
    chart_spec["datasets"] = data
    return chart_spec


def color(series: Sequence[Series], channel: str = "Color") -> Any:
    """Colour by series."""
    return _by_series(channel, series, [line.color for line in series])


def strokes(series: Sequence[Series]) -> dict[str, Any]:
    """Dashes and widths of lines by series."""
    dashes = _by_series("StrokeDash", series, [list(line.dash) for line in series])
    return {"strokeDash": dashes, "strokeWidth": width(series)}


def width(series: Sequence[Series]) -> Any:
    """Width of lines by series: the grey ones are thin."""
    return _by_series("StrokeWidth", series, [0.8 if line.thin else 2 for line in series])


def _by_series(channel: str, series: Sequence[Series], values: list[Any]) -> Any:
    return by_name(channel, "series", [line.name for line in series], values)


def by_name(channel: str, field: str, names: list[Any], values: list[Any]) -> Any:
    """Encode a field by a channel, with a value for each of its names, and without a legend."""
    scale = vega.Scale(domain=names, range=values)
    return getattr(vega, channel)(f"{field}:N", legend=None, scale=scale)


@dataclass(frozen=True)
class Label:
    """A label at a line or a point.

    Attributes:
        text: the label.
        y: its height on the axis, from 0 to 1.
        color: its colour.
        x: the place on the horizontal axis that it stands right of; by default the right edge.
        dash: the dashes of the sample of its line; None without a sample.
    """

    text: str
    y: float
    color: str = MUTED
    x: float = 1.0
    dash: tuple[int, ...] | None = None

    @classmethod
    def of(cls, line: Series, text: str, y: float) -> Label:
        """Return the label of a line, with a sample of it."""
        return cls(text, y, line.color, dash=line.dash)


def labels(wanted: Sequence[Label], size: tuple[int, int] = SIZE) -> tuple[list[Any], list[Datum]]:
    """Return the layers of labels that do not overlap, and their data; grey series have none.

    Lines have samples beside their labels if these differ.
    """
    shown = [label for label in wanted if label.color != REST]
    texts = [
        textwrap.wrap(label.text, _LETTERS, max_lines=2, placeholder=" …") or [label.text]
        for label in shown
    ]
    heights = [_LINE * len(lines) for lines in texts]
    wide, high = size
    dashes = list(dict.fromkeys(label.dash for label in shown if label.dash))
    indent = _SAMPLE + 6 if len(dashes) > 1 else 0
    places = spread([high * (1 - label.y) for label in shown], heights, high + _LINE / 2)
    rows = [
        {
            "text": lines,
            "left": wide * label.x + 8,
            "text at": wide * label.x + 8 + (indent if label.dash else 0),
            "end": wide * label.x + 8 + _SAMPLE,
            "middle": place - _LINE * (len(lines) - 1) / 2,
            "dash": dashes.index(label.dash) if indent and label.dash else None,
            "ink": label.color,
        }
        for label, lines, place in zip(shown, texts, places, strict=True)
    ]
    base = drawn_from("labels").encode(
        y=vega.Y("middle:Q", scale=None, axis=None), color=vega.Color("ink:N", scale=None)
    )
    text = base.mark_text(align="left", baseline="middle")
    layers = [text.encode(x=vega.X("text at:Q", scale=None, axis=None), text=vega.Text("text:N"))]
    if indent:
        ends = {"x": vega.X("left:Q", scale=None, axis=None), "x2": "end:Q"}
        # A scale of dashes would be merged with that of the lines.
        for place, dash in enumerate(dashes):
            sample = base.transform_filter(f"datum.dash === {place}")
            layers.append(sample.mark_rule(strokeWidth=2, strokeDash=list(dash)).encode(**ends))
    return layers, rows


def spread(wanted: Sequence[float], heights: Sequence[float], most: float) -> list[float]:
    """Return middles near the wanted ones, of pieces that do not overlap and end at `most`.

    Args:
        wanted: the middles `(n,)`.
        heights: the heights of the pieces `(n,)`.
        most: the largest end of a piece.
    """
    order = sorted(range(len(wanted)), key=lambda index: wanted[index])
    places = list(wanted)
    least = -math.inf
    for index in order:
        places[index] = max(places[index], least + heights[index] / 2)
        least = places[index] + heights[index] / 2
    for index in reversed(order):
        places[index] = min(places[index], most - heights[index] / 2)
        most = places[index] - heights[index] / 2
    return places


def extremes(what: str, data: Sequence[Datum]) -> str:
    """Return a sentence on the largest and the smallest value of a chart."""
    most = max(data, key=lambda datum: datum["value"])
    least = min(data, key=lambda datum: datum["value"])
    largest = f"{most['words']} ({most['name']})"
    if len(data) == 1:
        return f"The {what} is {largest}."
    return f"The largest {what} is {largest}, the smallest {least['words']} ({least['name']})."
