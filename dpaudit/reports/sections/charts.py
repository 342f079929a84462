"""Charts of results: lines with their intervals, ROC curves, and certified against claimed ε."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dpaudit.core import rounding
from dpaudit.core.messages import plain
from dpaudit.record.result import Measurement
from dpaudit.reports import chart_parts as parts
from dpaudit.reports import digest, vega, words
from dpaudit.reports.chart_parts import Axis, ByModel, Chart, Datum, Label, Look, Series
from dpaudit.reports.frequency import Guess

_WEAK = " An accuracy below guessing shows a weak attack, not a private model."
# Where a point and the ends of its band are drawn, by what they are.
_DRAWN = {"y": "value", "lower": "lower", "upper": "upper"}


@dataclass(frozen=True)
class ReferenceLine:
    """What an attacker or model without the release reaches, drawn as a dashed line.

    Attributes:
        label: what it is.
        left: its height at the left edge.
        right: its height at the right edge; None if it is the same everywhere.
    """

    label: str
    left: float
    right: float | None = None

    @property
    def end(self) -> float:
        """Its height at the right edge."""
        return self.left if self.right is None else self.right


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

    def chart(self) -> Chart:
        """Draw lines, intervals and points; a point without a place is a dotted line across."""
        panels = parts.panels(self.data, self.by, self._spec)
        thin = ""
        if not all(point["bold"] for panel in panels for point in panel.spec["datasets"]["points"]):
            thin = " Six lines are in colour; the table of numbers names the thin grey ones too."
        numbers = parts.numbers(self.columns, self.data)
        return Chart(self.name, self.title, self.caption + thin, self.summary, panels, numbers)

    def _spec(self, data: Sequence[Datum]) -> dict[str, Any]:
        series = parts.foremost(self.series, data)
        # What leaks most lies above the rest.
        rank = {line.name: (line.thin, place) for place, line in enumerate(series)}
        points = [
            {**datum, "bold": not rank[datum["series"]][0]}
            for datum in sorted(data, key=lambda datum: rank[datum["series"]], reverse=True)
        ]
        named, rows = parts.labels(self._labels(points, series), self.size)
        flat = [
            {"series": line.label, "x": x, "y": y}
            for line in self.baselines
            for x, y in ((self.x.low, line.left), (self.x.high, line.end))
        ]
        layers = [*self._layers(points, series), *named]
        return parts.spec(layers, self.size, points=points, baselines=flat, labels=rows)

    def _layers(self, data: Sequence[Datum], series: Sequence[Series]) -> list[Any]:
        base = parts.drawn_from("points").encode(y=self.y.y(), color=parts.color(series))
        placed = base.transform_filter("isValid(datum.x)").encode(x=self.x.x())
        bold = placed.transform_filter("datum.bold")
        ends = bold.transform_filter("isValid(datum.lower) && isValid(datum.upper)")
        between = ends.mark_area(opacity=0.13) if self.band else ends.mark_rule(opacity=0.45)
        shape = {"shape": self.shape} if self.shape else {}
        layers = [
            between.encode(y=self.y.y("lower"), y2="upper"),
            placed.mark_line().encode(**parts.strokes(series)),
            bold.mark_point(filled=True, size=40, opacity=1).encode(**shape),
        ]
        if self.baselines:
            line = parts.drawn_from("baselines").mark_line(strokeDash=[6, 4], color=parts.MUTED)
            layers.insert(0, line.encode(x=self.x.x(), y=self.y.y(), detail="series:N"))
        if any(datum["x"] is None for datum in data):
            across = base.transform_filter("!isValid(datum.x)").mark_rule(strokeDash=[2, 4])
            left, right = vega.XDatum(self.x.low), vega.X2Datum(self.x.high)
            layers.append(across.encode(x=left, x2=right, size=parts.width(series)))
        return layers

    def _labels(self, data: Sequence[Datum], series: Sequence[Series]) -> list[Label]:
        """Return the labels of the lines at the heights of their last points, and of baselines."""
        last: dict[str, Datum] = {}
        for datum in data:
            name = datum["series"]
            if name not in last or (last[name]["x"] or 0) <= (datum["x"] or 0):
                last[name] = datum
        return [
            Label.of(line, last[line.name][self.label], self.y.share(last[line.name]["y"]))
            for line in series
        ] + [Label(line.label, self.y.share(line.end)) for line in self.baselines]


def accuracy_chart(by_model: ByModel, look: Look, guesses: Sequence[Guess]) -> Chart | None:
    """Return the chart of attack accuracy against ε, with what a guess reaches."""
    data = [
        {**parts.position(model, row, label), **parts.ends(estimate), "attack": plain(label)}
        for model, row in parts.by_point(by_model)
        for label, estimate in row.accuracy.items()
    ]
    weak = any(datum["value"] < share for datum in data for _, share in guesses)
    return against_epsilon(
        "accuracy",
        "How much the attacks recover",
        "The share of hidden ratings that each attack recovered, with its interval."
        + (_WEAK if weak else ""),
        "attack accuracy",
        data,
        look,
        Axis("attack accuracy (ε-Risk)", 0, 1),
        guesses,
    )


def error_chart(by_model: ByModel, look: Look) -> Chart | None:
    """Return the chart of the error on held-out ratings against ε."""
    data = [
        {**parts.position(model, row), **parts.ends(error)}
        for model, row in parts.by_point(by_model)
        if (error := row.estimate("utility.rmse"))
    ]
    return against_epsilon(
        "rmse",
        "What the noise costs: the predictions",
        "The root mean squared error on held-out ratings.",
        "error",
        data,
        look,
        "rmse on held-out ratings",
    )


def against_epsilon(
    name: str,
    title: str,
    caption: str,
    what: str,
    data: list[Datum],
    look: Look,
    y: Axis | str,
    guesses: Sequence[Guess] = (),
    shape: Any = None,
) -> Chart | None:
    """Draw lines with their intervals; what has no noise is a dotted line across.

    Args:
        name: its id in the page.
        title: its heading.
        caption: how to read it.
        what: what the numbers are, in a few words.
        data: the points; without any at a finite ε there is no axis, and no chart.
        look: the colours of the models.
        y: the vertical axis, or the title of one around the points and their intervals.
        guesses: what is reached without the release.
        shape: the encoding of the shape of points.
    """
    epsilons = sorted({datum["x"] for datum in data if datum["x"] is not None})
    if not epsilons:
        return None
    dotted = any(datum["x"] is None for datum in data)
    if isinstance(y, str):
        y = Axis.around(y, parts.covered(data, "y", "lower", "upper"))
    return Lines(
        name,
        title,
        caption + (" A dotted line is a model without noise (ε = ∞)." if dotted else ""),
        parts.extremes(what, data),
        Axis.over("ε", epsilons, values=epsilons),
        y,
        data,
        {"series": "series", "at": "ε", "words": what, "trials": "trials"},
        look.series(data, "value"),
        [ReferenceLine(*guess) for guess in guesses],
        shape=shape,
    ).chart()


def roc_points(rates: Sequence[Measurement]) -> Iterator[tuple[Measurement, Datum]]:
    """Yield the rates at some false positives, with their positions on the axes."""
    yield from ((rate, {**parts.ends(rate.estimate), "x": rate.at}) for rate in rates if rate.at)


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
    return Lines(
        name,
        title,
        caption,
        parts.extremes(rate, [datum for datum in drawn if datum["x"] == least]),
        replace(axis, title="false-positive rate"),
        replace(axis, title="true-positive rate"),
        drawn,
        {**columns, "x": "false-positive rate", "words": "true-positive rate"},
        look.series(drawn, "leak"),
        [ReferenceLine("guess", axis.low, axis.high)],
        by,
        label,
        band=True,
        size=(300, 300),
    ).chart()


_MOST = "the most that so many trials can certify"
_COLUMNS = {
    "series": "model, pair",
    "at": "claimed ε",
    "words": "certified ε",
    "verdict": "certified",
    "power": "power, measured on mutants",
}
_WITHIN = "not more than claimed"
_NOTHING = "nothing certified (drawn at the edge)"
_NO_POWER = "not more than claimed, by a game that finds no mutant"


def certified_chart(by_model: ByModel, look: Look) -> Chart | None:
    """Return the chart of the certified lower bounds on ε, both axes logarithmic."""
    data = _points(by_model)
    if not data:
        return None
    claims = sorted({datum["claimed"] for datum in data})
    x = Axis.over("claimed ε", claims, values=claims)
    drawn = [datum["mutant"] for datum in data if datum["mutant"]]
    # The largest ε that the games at each claim could certify.
    most: dict[float, float] = {}
    for datum in data:
        if datum["most"] is not None:
            most[datum["claimed"]] = max(most.get(datum["claimed"], 0.0), datum["most"])
    ends = [*claims, *drawn, *most.values(), *parts.covered(data, "y")]
    y = Axis.over("certified ε", ends)
    panels = parts.panels(data, None, lambda points: _spec(points, look, x, y, most))
    return Chart(
        "certified",
        "Whether the claims hold",
        "The certified lower bound on ε against the claimed ε, both axes logarithmic. A filled "
        "triangle (▲) above the dashed line breaks its claim. A circle (○) is a bound that is not "
        "more than claimed, of a game that finds a mutant; a grey triangle (▼) at the edge is such "
        "a game that certifies nothing. A small dot (•) is a bound of a game that finds no mutant: "
        "it says nothing about the claim. A short dash (–) is the power of the game: the smallest "
        "ε of a copy with more leakage that the game found to break the claim."
        + (f" The dotted line is {_MOST}: where every guess is right." if most else ""),
        _summary(data),
        panels,
        parts.numbers(_COLUMNS, data),
    )


def _points(by_model: ByModel) -> list[Datum]:
    """Return the certified and the claimed ε; a certified zero is drawn at the edge."""
    data: list[Datum] = []
    for model, row in parts.by_point(by_model):
        claim = row.point.claim
        if claim is None or claim.epsilon == math.inf:
            continue
        for pair, game in row.games.items():
            if not game.tests(claim):
                continue
            lower, control = game.estimate.lower, game.control
            caught = control is not None and control.found and not row.exceeds(pair)
            data.append(
                {
                    **parts.position(model, row, pair),
                    "attack": plain(pair),
                    "claimed": claim.epsilon,
                    "lower": lower,
                    "multiple": lower / claim.epsilon,
                    "value": lower,
                    "words": f"≥ {rounding.at_least(lower)}",
                    "mutant": control.factor * claim.epsilon if control and caught else None,
                    "power": row.power(pair) or "–",
                    "most": digest.most(game, claim),
                    "verdict": _verdict(row, pair),
                }
            )
    least = parts.edge(parts.covered(data, "lower", "claimed"))
    return [{**datum, "y": max(datum["lower"], least)} for datum in data]


def _verdict(row: digest.Row, pair: str) -> str:
    game = row.games[pair]
    if row.exceeds(pair):
        return digest.MORE
    if game.control is None or not game.control.found:
        return _NO_POWER
    return _WITHIN if game.estimate.lower > 0 else _NOTHING


def _spec(
    data: list[Datum], look: Look, x: Axis, y: Axis, most: dict[float, float]
) -> dict[str, Any]:
    series = parts.foremost(look.series(data, "multiple"), data)
    last = {datum["series"]: datum for datum in sorted(data, key=lambda point: point["claimed"])}
    ends = sorted(most.items())
    ends = [(x.low, ends[0][1]), *ends, (x.high, ends[-1][1])] if ends else []
    named, rows = parts.labels(
        [Label.of(line, line.name, y.share(last[line.name]["y"])) for line in series]
        + [Label("claimed ε", y.share(x.high))]
        + [Label(_MOST, y.share(bound)) for _, bound in ends[-1:]]
    )
    base = parts.drawn_from("points").encode(x=x.x("claimed"), y=y.y())
    color = parts.color(series)
    claimed = parts.drawn_from("claimed").encode(x=x.x("claimed"), y=y.y("claimed"))
    ceiling = parts.drawn_from("ceiling").encode(x=x.x("claimed"), y=y.y("most"))
    layers = [
        claimed.mark_line(strokeDash=[6, 4], color=parts.MUTED),
        ceiling.mark_line(strokeDash=[1, 3], color=parts.MUTED),
        base.mark_tick(orient="horizontal", size=14, thickness=2, opacity=0.6)
        .transform_filter("isValid(datum.mutant)")
        .encode(y=y.y("mutant"), color=color),
        base.mark_line().encode(color=color, **parts.strokes(series)),
        base.mark_point(strokeWidth=1.5, opacity=1).encode(
            stroke=parts.color(series, "Stroke"),
            shape=_by_verdict("Shape", ["triangle-up", "circle", "triangle-down", "circle"]),
            fill=_by_verdict("Fill", [parts.FALSE, "var(--card)", parts.MUTED, parts.MUTED]),
            size=vega.SizeValue(
                170, condition={"test": f"datum.verdict === '{_NO_POWER}'", "value": 30}
            ),
        ),
    ]
    return parts.spec(
        [*layers, *named],
        points=data,
        claimed=[{"claimed": x.low}, {"claimed": x.high}],
        ceiling=[{"claimed": claim, "most": bound} for claim, bound in ends],
        labels=rows,
    )


def _by_verdict(channel: str, values: list[Any]) -> Any:
    names = [digest.MORE, _WITHIN, _NOTHING, _NO_POWER]
    return parts.by_name(channel, "verdict", names, values)


def _summary(data: list[Datum]) -> str:
    broken = sum(datum["verdict"] == digest.MORE for datum in data)
    bounds = "bound" if len(data) == 1 else "bounds"
    above = "is above its claim" if 1 in (broken, len(data)) else "are above their claims"
    most = max(data, key=lambda datum: datum["multiple"])
    return (
        f"{broken} of {len(data)} {bounds} {above}. {'Furthest above' if broken else 'Closest to'} "
        f"its claim: {most['series']}, at ε = {most['at']}, where ε {most['words']} is certified, "
        f"{rounding.at_least(most['multiple'], 1)} times the claim."
    )
