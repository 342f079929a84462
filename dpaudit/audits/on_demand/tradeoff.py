"""The chart of risk against utility, with the best ε at every weight of one against the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dpaudit.audits.on_demand.advice import (
    Claims,
    Recommendation,
    claims_of,
    offered,
    point_of,
    recommendations,
)
from dpaudit.core import rounding
from dpaudit.core.messages import plain
from dpaudit.record.result import AuditResult
from dpaudit.reports import chart_parts as parts
from dpaudit.reports import digest, words
from dpaudit.reports.chart_parts import Axis, ByModel, Chart, Datum, Label, Look, position
from dpaudit.reports.digest import Row
from dpaudit.reports.frequency import Guess, attack_guesses
from dpaudit.reports.table import Table

_HALF = 0.5  # the weight at which the best ε are ringed
_COLUMNS = {
    "series": "model, attack",
    "at": "ε",
    "utility_words": "utility",
    "words": "risk",
    "claim": "claim",
}


def chart(result: AuditResult, look: Look) -> Chart | None:
    """Return the chart; a point whose claim is false or in doubt is drawn, never recommended."""
    by_model, claims = digest.rows(result), claims_of(result.verdicts)
    data, shares = _points(by_model, claims), attack_guesses(result)
    if not data:
        return None
    x = Axis("ε-Utility: overlap", 0, 1.04, values=[0, 0.2, 0.4, 0.6, 0.8, 1])
    y = Axis("ε-Risk: attack accuracy", 0, 1.04, values=x.values)
    recommended = recommendations(by_model, claims)
    notes = [_not_offered(model, sweep, claims) for model, sweep in by_model.items()]
    advice = _advice(recommended)
    return Chart(
        "tradeoff",
        "Which ε to choose",
        "Risk against utility, one point for each ε. The best ε of a model at a weight w of "
        "leakage has the largest score (1 − w) · utility − w · risk, where the risk is the largest "
        "accuracy of any attack at that ε (the strongest adversary). The best ε at w = 0.5 is "
        "ringed; the table has the others. It is chosen by point estimates; near-ties may be "
        "chance. A cross (✚) is a claim that is broken or in doubt, which is not offered.",
        parts.extremes("risk", data),
        parts.panels(data, None, lambda points: _spec(points, shares, recommended, look, x, y)),
        parts.numbers(_COLUMNS, data),
        notes=[note for note in notes if note],
        advice=advice if advice.cells else None,
    )


def _spec(
    data: list[Datum],
    shares: Sequence[Guess],
    recommended: Sequence[Recommendation],
    look: Look,
    x: Axis,
    y: Axis,
) -> dict[str, Any]:
    from dpaudit.reports.vega import alt

    lines = parts.foremost(look.series(data, "value"), data)
    last = {datum["series"]: datum for datum in data}
    named, rows = parts.labels(
        [Label.of(line, line.name, y.share(last[line.name]["value"])) for line in lines]
        + [Label(label, y.share(share)) for label, share in shares]
    )
    base = parts.drawn_from("points").encode(x=x.x("utility"), y=y.y("value"))
    best = parts.drawn_from("best").encode(x=x.x("utility"), y=y.y("risk"))
    layers = [
        parts.drawn_from("guesses")
        .mark_rule(strokeDash=[6, 4], color=parts.MUTED)
        .encode(x=x.x("low"), x2="high", y=y.y("share")),
        base.mark_line().encode(
            color=parts.color(lines),
            strokeDash=parts.dash(lines),
            strokeWidth=parts.width(lines),
            order=alt.Order("rank:Q"),
        ),
        base.mark_point(size=55, opacity=1).encode(
            shape=alt.Shape(
                "offered:N",
                legend=None,
                scale=alt.Scale(domain=[False, True], range=["cross", "circle"]),
            ),
            fill=parts.color(lines, "Fill"),
            stroke=parts.color(lines, "Stroke"),
        ),
        best.mark_point(size=330, strokeWidth=2.5, color=parts.INK, opacity=1),
        best.mark_text(fontWeight="bold", color=parts.INK, dy=alt.expr("datum.offset")).encode(
            text=alt.Text("label:N")
        ),
        *named,
    ]
    guesses = [{"low": x.low, "high": x.high, "share": share} for _, share in shares]
    return parts.spec(layers, points=data, guesses=guesses, best=_rings(recommended), labels=rows)


def _points(by_model: ByModel, claims: Claims) -> list[Datum]:
    """Return ε-Risk and ε-Utility; `rank` orders the ε."""
    data: list[Datum] = []
    for model, sweep in by_model.items():
        for rank, row in enumerate(sweep):
            kept = row.estimate("utility.overlap")
            if kept is None:
                continue
            data.extend(
                {
                    **position(model, row, label),
                    "rank": rank,
                    "attack": plain(label),
                    "utility": kept.value,
                    "utility_words": words.interval(kept),
                    "value": estimate.value,
                    "words": words.interval(estimate),
                    "claim": claims[point_of(row)],
                    "offered": offered(row, claims),
                }
                for label, estimate in row.accuracy.items()
            )
    return data


def _rings(best: Sequence[Recommendation]) -> list[Datum]:
    """Return where the best ε at equal weights are; labels stand alternately below and above."""
    at_half = [one for one in best if one.low <= _HALF <= one.high]
    return [
        {
            "utility": one.utility,
            "risk": one.risk,
            "label": f"ε = {one.at}",
            "offset": (24 + 14 * (place // 2)) * (-1) ** place,
        }
        for place, one in enumerate(at_half)
    ]


def _advice(best: Sequence[Recommendation]) -> Table:
    cells = [
        [
            one.model,
            f"{one.low:.2f} to {one.high:.2f}",
            one.at,
            rounding.measured(one.utility),
            rounding.measured(one.risk),
            one.claim,
        ]
        for one in best
    ]
    header = ["model", "weight w of leakage", "best ε", "utility", "risk", "claim"]
    return Table("The best ε at every weight", header, cells)


def _not_offered(model: str, sweep: Sequence[Row], claims: Claims) -> str:
    """Return at which ε a model is not offered and why; empty if it is offered at every ε."""
    shut: dict[str, list[float]] = {}
    for row in sweep:
        if not offered(row, claims):
            claim = claims[model, row.point.epsilon]
            shut.setdefault(claim, []).append(row.point.epsilon)
    if not shut:
        return ""
    why = " and ".join(
        f"{claim.removeprefix('claim ')} at ε = {words.listed(epsilons)}"
        for claim, epsilons in sorted(shut.items())
    )
    every = sum(map(len, shut.values())) == len(sweep)
    return f"{model} is {'not offered' if every else 'offered at some ε only'}: its claim is {why}."
