"""The charts of membership inference: ROC curves, and what a model leaks against its utility."""

from __future__ import annotations

import math

from dpaudit.audits.membership import tables
from dpaudit.core import rounding
from dpaudit.core.messages import plain
from dpaudit.record.result import AuditResult, Measurement
from dpaudit.reports import chart_parts as parts
from dpaudit.reports import digest, words
from dpaudit.reports.axis import Axis
from dpaudit.reports.chart_parts import Chart, Choice, Label, Look
from dpaudit.reports.sections import roc_chart
from dpaudit.reports.series import Datum

_AGAINST = {
    "series": "model",
    "seen": "target, observer",
    "utility_words": "nDCG",
    "words": "true-positive rate",
    "certified": "certified ε",
}


def curves(result: AuditResult) -> Chart | None:
    """Return the true-positive rate of the strongest attack against the false-positive rate.

    Where the table has a rate, the chart has the number and the range of the table.
    """
    rates = [*digest.of(result, "membership.roc"), *tables.joint(result, "attack.tpr")]
    at = {(rate.model, rate.epsilon, rate.unit, rate.observer, rate.at): rate for rate in rates}
    curves = sorted(at.values(), key=lambda rate: rate.at or 0)
    several = len({(rate.model, rate.epsilon) for rate in curves}) > len(result.models)
    data = [
        {**_named(rate, several), "attack": plain(rate.event or rate.attack or ""), **position}
        for rate, position in roc_chart.positions(curves)
    ]
    if not data:
        return None
    return roc_chart.chart(
        "membership",
        "Whose data an attacker can tell were used for training",
        "The true-positive rate of the attack that is strongest at each false-positive rate, both "
        "axes logarithmic. The dashed line is a guess. At the left are the targets that an "
        "attacker is almost sure of.",
        data,
        {"series": "model, target, observer", "attack": "attack"},
    )


def _named(rate: Measurement, several: bool) -> Datum:
    """Return the series of a rate, with its ε if models have several."""
    finite = several and math.isfinite(rate.epsilon)
    at = f", ε = {words.epsilon(rate.epsilon)}" if finite else ""
    series = plain(f"{rate.model}{at}, {rate.unit}, {rate.observer}")
    return {"series": series, "name": series}


def against_utility(result: AuditResult, look: Look) -> Chart | None:
    """Return what the best placed observer finds against utility, one point a model and ε."""
    data = _points(result)
    if not data:
        return None
    rate = data[0]["rate"]
    units = list(dict.fromkeys(datum["unit"] for datum in data))
    choice = Choice("target", "unit", units) if len(units) > 1 else None
    x = Axis.around("nDCG on held-out interactions", _ends(data, "utility"))
    y = Axis("true-positive rate", 0, 1)
    series = look.series(data, "value")
    colors = {line.name: line.color for line in series}
    named, rows = parts.labels(
        [
            Label(datum["series"], y.share(datum["value"]), colors[datum["series"]], datum["unit"])
            for datum in data
        ]
        + [Label(f"guess ({words.percent(rate)})", y.share(rate), group=unit) for unit in units],
        choice,
    )
    base = parts.drawn_from("points")
    if choice:
        base = base.transform_filter("datum.unit === shown")
    base = base.encode(
        x=x.x("utility"), y=y.y("value"), color=parts.color(series), opacity=parts.opacity()
    )
    layers = [
        parts.drawn_from("guess")
        .mark_rule(strokeDash=[6, 4], color=parts.MUTED)
        .encode(x=x.x("low"), x2="high", y=y.y("rate")),
        base.mark_rule(strokeWidth=1.5).encode(y=y.y("lower"), y2="upper"),
        base.mark_rule(strokeWidth=1.5).encode(x=x.x("utility_lower"), x2="utility_upper"),
        base.mark_point(filled=True, size=90).encode(tooltip=parts.tips(_AGAINST)),
    ]
    guess = [{"low": x.low, "high": x.high, "rate": rate}]
    return Chart(
        "utility",
        "What a model leaks for its utility",
        f"The true-positive rate at {words.percent(rate)} false positives of the strongest attack "
        "of the best placed observer, against nDCG on held-out interactions; bars are ranges over "
        "the judged trainings. Models further right serve better; those further up leak more. The "
        "dashed line is a guess.",
        parts.extremes("true-positive rate", data),
        parts.spec([*layers, *named], series, choice, points=data, guess=guess, labels=rows),
        columns=_AGAINST,
        series=series,
        choice=choice,
    )


def _ends(data: list[Datum], of: str) -> list[float]:
    return [datum[f"{of}{end}"] for datum in data for end in ("", "_lower", "_upper")]


def _points(result: AuditResult) -> list[Datum]:
    utility = {(m.model, m.epsilon): m.estimate for m in digest.of(result, "utility.ndcg")}
    bounds = {
        (game.model, game.epsilon, game.unit, game.observer): game.estimate.lower
        for game in digest.of(result, "epsilon")
    }
    worst = {key: rate for key, rate in tables.most_exposed(result).items() if key[:2] in utility}
    several = len({key[:2] for key in worst}) > len({model for model, _, _ in worst})
    points = []
    for (model, epsilon, unit), game in worst.items():
        served = utility[model, epsilon]
        at = "" if math.isinf(epsilon) or not several else f", ε = {words.epsilon(epsilon)}"
        bound = bounds.get((model, epsilon, unit, game.observer))
        points.append(
            {
                "series": plain(f"{model}{at}"),
                "model": plain(model),
                "name": plain(f"{model}{at}, {unit}"),
                "unit": unit,
                "seen": f"{unit}, {game.observer}",
                "rate": game.at,
                "value": game.estimate.value,
                "lower": game.estimate.lower,
                "upper": game.estimate.upper,
                "words": words.interval(game.estimate),
                "utility": served.value,
                "utility_lower": served.lower,
                "utility_upper": served.upper,
                "utility_words": words.interval(served),
                "certified": "–" if bound is None else f"≥ {rounding.at_least(bound)}",
            }
        )
    return points
