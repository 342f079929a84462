"""The parts that the charts share: series and their colours, labels, tooltips."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

from dpaudit.reports.axis import edge
from dpaudit.reports.series import Datum
from dpaudit.reports.table import Table

# Colours are properties of the page's style, so that they follow its scheme, on paper too.
COLORS = tuple(f"var(--series-{place})" for place in range(1, 7))
REST = "var(--rest)"  # a series beyond the six in colour, until it is picked
BROKEN, MUTED, INK = "var(--broken)", "var(--muted)", "var(--text)"
HEIGHT = 320  # of the plot, in pixels
_LABEL = 15  # from one label to the next, in pixels
_DASHES: tuple[tuple[int, ...], ...] = ((1, 0), (7, 3), (2, 3), (9, 3, 2, 3))
# The length from which a label at the end of a line is cut; the list of series has all of it.
_LONGEST = 190
_LETTER = 6.2  # about the width of a letter
_PICKED = "datum.series === picked"


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


@dataclass(frozen=True)
class Choice:
    """A chart of one group at a time; paper has them all.

    Attributes:
        label: what is chosen.
        field: the field of the data that names the group.
        options: the groups.
    """

    label: str
    field: str
    options: Sequence[str]


@dataclass(frozen=True)
class Advice:
    """What a slider recommends.

    Attributes:
        notes: sentences that hold at every weight.
        table: what is recommended at which weights, perhaps nothing.
    """

    notes: Sequence[str]
    table: Table


@dataclass(frozen=True)
class Chart:
    """A chart with its heading, its texts and its controls.

    Attributes:
        name: its id in the page.
        title: its heading.
        caption: how to read it.
        summary: what it shows, in a sentence made from its numbers.
        spec: the Vega-Lite specification.
        columns: the fields of the data set `points` that a table of its numbers has, by title.
        series: the series, those that leak most first.
        choice: the groups of which it shows one at a time.
        advice: what its slider recommends.
    """

    name: str
    title: str
    caption: str
    summary: str
    spec: dict[str, Any]
    columns: Mapping[str, str] = field(default_factory=dict)
    series: Sequence[Series] = ()
    choice: Choice | None = None
    advice: Advice | None = None


@dataclass(frozen=True)
class Look:
    """The colours of models, the same in every chart.

    Attributes:
        models: the labels of all models, those that leak most first.
    """

    models: Sequence[str]

    def series(self, data: Sequence[Datum], leak: str) -> list[Series]:
        """Return the series of the data, those with the largest value of `leak` first.

        Six are in colour. Each series has the colour of its model, and dashes that tell the series
        of a model apart by their `attack`. Where there are more models than colours, or a model has
        several series with one attack, the series are `ranked`.
        """
        series = ranked(data, leak)
        of_model = dict(zip(self.models, COLORS, strict=False))
        kinds = {datum["series"]: (datum["model"], datum.get("attack")) for datum in data}
        if len(self.models) > len(COLORS) or len(set(kinds.values())) < len(kinds):
            return series
        attacks = list(dict.fromkeys(attack for _, attack in kinds.values()))
        return [
            Series(
                line.name,
                REST if line.color == REST else of_model[kinds[line.name][0]],
                _DASHES[attacks.index(kinds[line.name][1]) % len(_DASHES)],
            )
            for line in series
        ]


def ranked(data: Sequence[Datum], leak: str) -> list[Series]:
    """Return the series, those with the largest value of `leak` first; six are in colour."""
    most: dict[str, float] = {}
    for datum in data:
        most[datum["series"]] = max(most.get(datum["series"], -math.inf), datum[leak])
    names = sorted(most, key=lambda name: -most[name])
    return [
        Series(name, color)
        for name, color in zip_longest(names, COLORS[: len(names)], fillvalue=REST)
    ]


def drawn_from(name: str) -> Any:
    """Return a chart of the data set of this name, which `spec` adds."""
    import altair as alt

    return alt.Chart(alt.NamedData(name))


def spec(
    layers: list[Any], series: Sequence[Series], choice: Choice | None = None, **data: list[Datum]
) -> dict[str, Any]:
    """Join layers into one specification as wide as its container, with their data by name.

    The page's script sets `picked` to a series, `narrow` on small screens, and `shown` to a group.
    """
    import altair as alt

    text = {"labelColor": INK, "titleColor": INK}
    # One call sets everything, as each `properties` or `configure` copies the whole chart.
    chart = alt.layer(
        *layers,
        width="container",
        height=HEIGHT,
        background="transparent",
        config=alt.Config(
            aria=False,  # the page describes the whole chart
            mark=alt.MarkConfig(aria=False),
            font="system-ui, sans-serif",
            padding={"left": 4, "top": 12, "right": 12, "bottom": 4},
            axis=alt.AxisConfig(
                labelFontSize=12, titleFontSize=13, gridColor="var(--grid)",
                domainColor=MUTED, tickColor=MUTED, **text,
            ),
            view=alt.ViewConfig(stroke="var(--grid)"),
        ),
    )  # fmt: skip
    # Only the tests validate against the schema: it takes as long as all the rest.
    chart_spec: dict[str, Any] = chart.to_dict(validate=False)
    longest = max((len(row["series"]) for row in data.get("labels", ())), default=0)
    room = math.ceil(min(_LONGEST, _LETTER * longest) + 10) if longest else 0
    chart_spec["params"] = [
        {"name": "picked", "value": ""},
        {"name": "narrow", "value": False},
        {"name": "room", "expr": f"narrow ? 0 : {room}"},
        {"name": "grey", "value": [line.name for line in series if line.color == REST]},
        *([{"name": "shown", "value": choice.options[0]}] if choice else []),
    ]
    chart_spec["datasets"] = data
    return chart_spec


def tips(columns: Mapping[str, str]) -> list[Any]:
    """Return tooltip lines for fields and their titles."""
    import altair as alt

    return [alt.Tooltip(f"{name}:N", title=title) for name, title in columns.items()]


def color(series: Sequence[Series], channel: str = "Color") -> Any:
    """Colour by series; a grey one has the text's colour while it is picked."""
    import altair as alt

    names, colors = [line.name for line in series], [line.color for line in series]
    return getattr(alt, channel)(
        "series:N",
        legend=None,
        scale=alt.Scale(domain=names, range=colors),
        condition={"test": f"{_PICKED} && indexof(grey, datum.series) >= 0", "value": INK},
    )


def dash(series: Sequence[Series]) -> Any:
    """Dashes by series."""
    import altair as alt

    names, dashes = [line.name for line in series], [list(line.dash) for line in series]
    return alt.StrokeDash("series:N", legend=None, scale=alt.Scale(domain=names, range=dashes))


def opacity(shown: float = 1.0, *, grey: float | None = None) -> Any:
    """Fade every series while another one is picked; `grey` ones have less while none is."""
    import altair as alt

    conditions = [{"test": f"picked === '' || {_PICKED}", "value": shown}]
    if grey is not None:
        unpicked = "picked === '' && indexof(grey, datum.series) >= 0"
        conditions.insert(0, {"test": unpicked, "value": grey})
    return alt.OpacityValue(0.12, condition=conditions)


@dataclass(frozen=True)
class Label:
    """A label at the right edge of a chart.

    Attributes:
        text: the label; of a series, its name.
        place: its height on the axis, from 0 to 1.
        color: its colour.
        group: the group in which it is shown, in a chart that shows one group at a time.
        start: the height of a baseline at the left edge, if that is another one.
    """

    text: str
    place: float
    color: str = MUTED
    group: str = ""
    start: float | None = None


def labels(wanted: Sequence[Label], choice: Choice | None = None) -> tuple[list[Any], list[Datum]]:
    """Return layers that name series and baselines at the right edge, and their data.

    Labels do not overlap. Where there is no room, on small screens, the baselines alone have theirs
    inside the plot. A grey series has its label while it is picked.
    """
    import altair as alt

    rows: list[Datum] = []
    for group in dict.fromkeys(label.group for label in wanted):
        here = [label for label in wanted if label.group == group]
        shown = [label for label in here if label.color != REST]
        at = spread([HEIGHT * (1 - label.place) for label in shown], _LABEL, HEIGHT)
        rows += [_row(label, place) for label, place in zip(shown, at, strict=True)]
        grey = [label for label in here if label.color == REST]
        rows += [_row(label, HEIGHT * (1 - label.place)) for label in grey]
    base = drawn_from("labels").encode(
        y=alt.Y("at:Q", scale=None, axis=None),
        text=alt.Text("series:N"),
        color=alt.Color("ink:N", scale=None),
    )
    if choice:
        base = base.transform_filter("datum.group === shown")
    named = f"picked === '' ? datum.kind !== 'grey' : {_PICKED}"
    layers = [
        base.transform_filter(f"!narrow && ({named})")
        .mark_text(align="left", dx=8, limit=_LONGEST)
        .encode(x=alt.XValue(edge())),
        base.transform_filter("narrow && datum.kind === 'baseline'")
        .mark_text(align="left", dx=4, dy=10)
        .encode(x=alt.XValue(0), y=alt.Y("start:Q", scale=None, axis=None)),
    ]
    return layers, rows


def _row(label: Label, at: float) -> Datum:
    kind = {MUTED: "baseline", REST: "grey"}.get(label.color, "series")
    ink = INK if kind == "grey" else label.color
    start = HEIGHT * (1 - (label.place if label.start is None else label.start))
    return {"series": label.text, "at": at, "start": start, "ink": ink, "kind": kind,
            "group": label.group}  # fmt: skip


def spread(wanted: Sequence[float], gap: float, most: float) -> list[float]:
    """Return places near the wanted ones, at least `gap` apart and at most `most`."""
    order = sorted(range(len(wanted)), key=lambda index: wanted[index])
    places = list(wanted)
    least = -math.inf
    for index in order:
        places[index] = max(places[index], least)
        least = places[index] + gap
    for index in reversed(order):
        places[index] = min(places[index], most)
        most = places[index] - gap
    return places


def extremes(what: str, data: Sequence[Datum]) -> str:
    """Return a sentence on the largest and the smallest value of a chart."""
    most = max(data, key=lambda datum: datum["value"])
    least = min(data, key=lambda datum: datum["value"])
    largest = f"{most['words']} ({most['name']})"
    if len(data) == 1:
        return f"The {what} is {largest}."
    return f"The largest {what} is {largest}, the smallest {least['words']} ({least['name']})."
