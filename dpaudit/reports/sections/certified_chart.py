"""The chart of certified against claimed ε."""

from __future__ import annotations

import math
from typing import Any

from dpaudit.bounds.frequentist.labels import most_certified
from dpaudit.core import rounding
from dpaudit.core.messages import plain
from dpaudit.record.result import ClaimRecord, Measurement
from dpaudit.reports import chart_parts as parts
from dpaudit.reports import vega
from dpaudit.reports.chart_parts import Axis, ByModel, Chart, Datum, Label, Look
from dpaudit.reports.digest import MORE, Row

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
            found = control is not None and control.found and not row.exceeds(pair)
            data.append(
                {
                    **parts.position(model, row, pair),
                    "attack": plain(pair),
                    "claimed": claim.epsilon,
                    "lower": lower,
                    "multiple": lower / claim.epsilon,
                    "value": lower,
                    "words": f"≥ {rounding.at_least(lower)}",
                    "mutant": control.factor * claim.epsilon if control and found else None,
                    "power": row.power(pair) or "–",
                    "most": _most(game, claim),
                    "verdict": _verdict(row, pair),
                }
            )
    least = parts.edge(parts.covered(data, "lower", "claimed"))
    return [{**datum, "y": max(datum["lower"], least)} for datum in data]


def _most(game: Measurement, claim: ClaimRecord) -> float | None:
    """Return the largest ε that the game's trials can certify; None if that is not known."""
    bound = game.estimate
    if bound.kind != "frequentist" or bound.n == 0:
        return None
    most = most_certified(bound.n, delta=claim.delta, alpha=bound.alpha)
    return most if most > bound.lower else None


def _verdict(row: Row, pair: str) -> str:
    game = row.games[pair]
    if row.exceeds(pair):
        return MORE
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
    scale = vega.Scale(domain=[MORE, _WITHIN, _NOTHING, _NO_POWER], range=values)
    return getattr(vega, channel)("verdict:N", legend=None, scale=scale)


def _summary(data: list[Datum]) -> str:
    broken = sum(datum["verdict"] == MORE for datum in data)
    bounds = "bound" if len(data) == 1 else "bounds"
    above = "is above its claim" if 1 in (broken, len(data)) else "are above their claims"
    most = max(data, key=lambda datum: datum["multiple"])
    return (
        f"{broken} of {len(data)} {bounds} {above}. {'Furthest above' if broken else 'Closest to'} "
        f"its claim: {most['series']}, at ε = {most['at']}, where ε {most['words']} is certified, "
        f"{rounding.at_least(most['multiple'], 1)} times the claim."
    )
