"""The charts of membership inference: ROC curves, leaks against utility, and who is exposed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from dpaudit.audits.membership import tables
from dpaudit.core import rounding
from dpaudit.core.messages import plain
from dpaudit.record.result import AuditResult, Measurement
from dpaudit.reports import chart_parts as parts
from dpaudit.reports import digest, vega, words
from dpaudit.reports.chart_parts import Axis, Chart, Datum, Label, Look
from dpaudit.reports.sections.line_chart import roc_chart, roc_points

_AGAINST = {
    "series": "model",
    "seen": "target, observer",
    "utility_words": "nDCG",
    "words": "true-positive rate",
    "certified": "certified ε",
}
_EXPOSED = {"series": "model, target, observer", "group": "group", "words": "found"}
_ROW = 26  # from one row to the next, in pixels


def curves(result: AuditResult, look: Look) -> Chart | None:
    """Return the true-positive rate of the strongest attack against the false-positive rate.

    Where the table has a rate, the chart has the number and the range of the table.
    """
    rates = [*digest.of(result, "membership.roc"), *tables.joint(result, "attack.tpr")]
    at = {(rate.model, rate.epsilon, rate.unit, rate.observer, rate.at): rate for rate in rates}
    curves = sorted(at.values(), key=lambda rate: rate.at or 0)
    several = _swept((rate.model, rate.epsilon) for rate in curves)
    data = [
        {**_named(rate, several), "found by": plain(rate.event or rate.attack or ""), **position}
        for rate, position in roc_points(curves)
    ]
    if not data:
        return None
    return roc_chart(
        "membership",
        "Whose data an attacker can tell were used for training",
        "The true-positive rate of the attack that is strongest at each false-positive rate, both "
        "axes logarithmic. The dashed line is a guess. At the left are the targets that an "
        "attacker is almost sure of. A band is the range or interval of each rate by itself, which "
        "the table has.",
        data,
        {"series": "model, target, observer", "found by": "attack"},
        look,
        by="target",
        label="label",
    )


def _swept(points: Iterable[tuple[str, float]]) -> bool:
    """Return whether a model is at several ε."""
    distinct = set(points)
    return len(distinct) > len({model for model, _ in distinct})


def _at(measurement: Measurement, *, several: bool) -> str:
    """Return model and ε, if models have several."""
    finite = several and math.isfinite(measurement.epsilon)
    at = f", ε = {words.epsilon(measurement.epsilon)}" if finite else ""
    return plain(f"{measurement.model}{at}")


def _named(rate: Measurement, several: bool) -> Datum:
    """Return the series of a number, with its colour by the model and its dash by the observer."""
    model = _at(rate, several=several)
    series = plain(f"{model}, {rate.unit}, {rate.observer}")
    return {
        "series": series,
        "name": series,
        "model": plain(rate.model),
        "attack": rate.observer,
        "target": f"target: {rate.unit}",
        "label": plain(f"{model}, {rate.observer}"),
    }


def against_utility(result: AuditResult, look: Look) -> Chart | None:
    """Return what the best placed observer finds against utility, one point a model and ε."""
    data = _points(result)
    if not data:
        return None
    rate = data[0]["rate"]
    popular = sorted({one.estimate.value for one in digest.of(result, "utility.popular")})[:1]
    served = parts.covered(data, "utility", "utility_lower", "utility_upper")
    x = Axis.around("nDCG on held-out interactions", [*served, *popular])
    y = Axis("true-positive rate", 0, 1)
    return Chart(
        "utility",
        "What a model leaks for its utility",
        f"The true-positive rate at {words.percent(rate)} false positives of the strongest attack "
        "of the best placed observer, against nDCG on held-out interactions; bars are ranges over "
        "the judged trainings. Models further right serve better; those further up leak more. The "
        "dashed lines are a guess and the nDCG of the most popular items.",
        parts.extremes("true-positive rate", data),
        parts.panels(data, "target", lambda points: _utility(points, popular, look, x, y)),
        parts.numbers(_AGAINST, data),
    )


def _utility(
    data: list[Datum], popular: Sequence[float], look: Look, x: Axis, y: Axis
) -> dict[str, Any]:
    series = parts.foremost(look.series(data, "value"), data)
    colors = {line.name: line.color for line in series}
    rate = data[0]["rate"]
    named, rows = parts.labels(
        [
            Label(
                datum["series"],
                y.share(datum["value"]) + parts.ABOVE,
                colors[datum["series"]],
                x.share(datum["utility"]),
            )
            for datum in data
        ]
        + [Label(f"guess ({words.percent(rate)})", y.share(rate))]
        + [Label("most popular items", 1.0, x=x.share(utility)) for utility in popular]
    )
    base = parts.drawn_from("points").encode(
        x=x.x("utility"), y=y.y("value"), color=parts.color(series)
    )
    layers = [
        parts.dashed("guess", x=x.x("low"), x2="high", y=y.y("rate")),
        parts.dashed("popular", x=x.x("utility")),
        base.mark_rule(strokeWidth=1.5).encode(y=y.y("lower"), y2="upper"),
        base.mark_rule(strokeWidth=1.5).encode(x=x.x("utility_lower"), x2="utility_upper"),
        base.mark_point(filled=True, size=90, opacity=1),
        *named,
    ]
    guess = [{"low": x.low, "high": x.high, "rate": rate}]
    reference = [{"utility": utility} for utility in popular]
    return parts.spec(layers, points=data, guess=guess, popular=reference, labels=rows)


def exposed(result: AuditResult, look: Look) -> Chart | None:
    """Return how much more often groups are found, by the observer who finds most of a model."""
    worst = tables.most_exposed(result).values()
    games = {(rate.model, rate.epsilon, rate.unit, rate.observer) for rate in worst}
    several = _swept((rate.model, rate.epsilon) for rate in worst)
    data = [
        {
            **_named(group, several),
            "row": f"{group.group}, {_at(group, several=several)}"
            if len(result.points) > 1
            else group.group,
            "group": group.group,
            "seen": group.observer,
            **parts.ends(group.estimate),
        }
        for group in digest.of(result, "membership.group")
        if (group.model, group.epsilon, group.unit, group.observer) in games
    ]
    if not data:
        return None
    data = [{**datum, "name": f"{datum['group']}, {datum['name']}"} for datum in data]
    found = parts.covered(data, "value", "lower", "upper")
    x = Axis.around("found when present, less found when absent", [0.0, *found])
    return Chart(
        "exposed",
        "Who is exposed",
        "How much more often the targets of a group are found when they are in the training data "
        "than when they are not, by the best placed observer of each model; bars are ranges over "
        "the judged trainings. 0 is a guess. Groups are the thirds of the targets with the most "
        "and the fewest interactions, and those that membership.groups names.",
        parts.extremes("difference", data),
        parts.panels(data, "target", lambda points: _exposed(points, look, x)),
        parts.numbers(_EXPOSED, data),
    )


def _exposed(data: list[Datum], look: Look, x: Axis) -> dict[str, Any]:
    data = sorted(data, key=lambda datum: -datum["value"])
    rows = list(dict.fromkeys(datum["row"] for datum in data))
    color = parts.color(look.series(data, "value"))
    title = vega.Y("row:N", sort=rows, title=None, axis=vega.Axis(ticks=False, domain=False))
    base = parts.drawn_from("points").encode(x=x.x("value"), y=title, color=color)
    layers = [
        parts.dashed("guess", x=x.x("value")),
        base.mark_rule(strokeWidth=1.5).encode(x=x.x("lower"), x2="upper"),
        base.mark_point(filled=True, size=90, opacity=1),
    ]
    size = parts.SIZE[0], _ROW * len(rows)
    return parts.spec(layers, size, points=data, guess=[{"value": 0}])


def _points(result: AuditResult) -> list[Datum]:
    utility = {(m.model, m.epsilon): m.estimate for m in digest.of(result, "utility.ndcg")}
    bounds = {
        (game.model, game.epsilon, game.unit, game.observer): game.estimate.lower
        for game in digest.of(result, "epsilon")
    }
    worst = {key: rate for key, rate in tables.most_exposed(result).items() if key[:2] in utility}
    several = _swept(key[:2] for key in worst)
    points = []
    for (model, epsilon, unit), game in worst.items():
        served = utility[model, epsilon]
        series = _at(game, several=several)
        bound = bounds.get((model, epsilon, unit, game.observer))
        points.append(
            {
                "series": series,
                "model": plain(model),
                "name": f"{series}, {unit}",
                "target": f"target: {unit}",
                "seen": f"{unit}, {game.observer}",
                "rate": game.at,
                **parts.ends(game.estimate),
                "utility": served.value,
                "utility_lower": served.lower,
                "utility_upper": served.upper,
                "utility_words": words.interval(served),
                "certified": "–" if bound is None else f"≥ {rounding.at_least(bound)}",
            }
        )
    return points
