"""The chart of risk against utility, with the best ε at a weight that the reader chooses."""

from __future__ import annotations

from collections.abc import Sequence

from dpaudit.core import rounding
from dpaudit.reports import chart_parts as parts
from dpaudit.reports import series, words
from dpaudit.reports.axis import Axis
from dpaudit.reports.chart_parts import Advice, Chart, Label, Look
from dpaudit.reports.digest import Row
from dpaudit.reports.sections.guesses import Guess
from dpaudit.reports.series import ByModel, Claims, Datum, Recommendation
from dpaudit.reports.table import Table

_COLUMNS = {
    "series": "model, attack",
    "at": "ε",
    "utility_words": "utility",
    "words": "risk",
    "claim": "claim",
}


def chart(by_model: ByModel, claims: Claims, look: Look, guesses: Sequence[Guess]) -> Chart | None:
    """Return the chart; a point whose claim is broken or in doubt is drawn, never recommended."""
    data = series.tradeoff(by_model, claims)
    if not data:
        return None
    import altair as alt

    x = Axis("ε-Utility: overlap", 0, 1.04, values=[0, 0.2, 0.4, 0.6, 0.8, 1])
    y = Axis("ε-Risk: attack accuracy", 0, 1.04, values=x.values)
    advice = _advice(by_model, claims)
    lines = look.series(data, "value")
    last = {datum["series"]: datum for datum in data}
    named, rows = parts.labels(
        [Label(each.name, y.share(last[each.name]["value"]), each.color) for each in lines]
        + [Label(label, y.share(share)) for label, share in guesses]
    )
    base = parts.drawn_from("points").encode(
        x=x.x("utility"),
        y=y.y("value"),
        opacity=parts.opacity(),
    )
    best = parts.drawn_from("best").transform_filter("datum.low <= weight && weight <= datum.high")
    best = best.encode(x=x.x("utility"), y=y.y("risk"))
    layers = [
        parts.drawn_from("guesses")
        .mark_rule(strokeDash=[6, 4], color=parts.MUTED)
        .encode(x=x.x("low"), x2="high", y=y.y("share")),
        base.mark_line(strokeWidth=1.5).encode(
            color=parts.color(lines), strokeDash=parts.dash(lines), order=alt.Order("rank:Q")
        ),
        base.mark_point(size=65).encode(
            tooltip=parts.tips(_COLUMNS),
            shape=alt.Shape(
                "offered:N",
                legend=None,
                scale=alt.Scale(domain=[False, True], range=["cross", "circle"]),
            ),
            fill=parts.color(lines, "Fill"),
            stroke=parts.color(lines, "Stroke"),
        ),
        best.mark_point(size=330, strokeWidth=2.5, color=parts.INK),
        best.mark_text(
            fontSize=13, fontWeight="bold", color=parts.INK, dy=alt.expr("datum.offset")
        ).encode(text=alt.Text("label:N")),
    ]
    made = parts.spec(
        [*layers, *named],
        lines,
        points=data,
        guesses=[{"low": x.low, "high": x.high, "share": share} for _, share in guesses],
        best=_rings(advice.best),
        labels=rows,
    )
    made["params"].append({"name": "weight", "value": 0.5})
    return Chart(
        "tradeoff",
        "Which ε to choose",
        "Risk against utility, one point for each ε. The slider sets the weight w: the best ε of a "
        "model has the largest score (1 − w) · utility − w · risk, where the risk is the largest "
        "accuracy of any attack at that ε (the strongest adversary). The best ε is ringed. It is "
        "chosen by point estimates; near-ties may be chance. A cross (✚) is a claim that is "
        "broken or in doubt, which is not offered.",
        parts.extremes("risk", data),
        made,
        columns=_COLUMNS,
        series=lines,
        advice=advice,
    )


def _rings(best: Sequence[Recommendation]) -> list[Datum]:
    """Return where the best ε are; the labels of models stand alternately below and above."""
    models = list(dict.fromkeys(each.model for each in best))
    found = []
    for each in best:
        place = models.index(each.model)
        offset = 24 + 14 * (place // 2)
        found.append(
            {
                "low": each.low,
                "high": each.high,
                "utility": each.utility,
                "risk": each.risk,
                "label": f"ε = {each.at}",
                "offset": -offset if place % 2 else offset,
                "words": each.words,
            }
        )
    return found


def _advice(by_model: ByModel, claims: Claims) -> Advice:
    best = series.recommendations(by_model, claims)
    cells = [
        [
            each.model,
            f"{each.low:.2f} to {each.high:.2f}",
            each.at,
            rounding.measured(each.utility),
            rounding.measured(each.risk),
            each.claim,
        ]
        for each in best
    ]
    header = ["model", "weight w of leakage", "best ε", "utility", "risk", "claim"]
    table = Table("The best ε at every weight", header, cells)
    notes = [_not_offered(model, here, claims) for model, here in by_model.items()]
    return Advice(best, [note for note in notes if note], table)


def _not_offered(model: str, here: Sequence[Row], claims: Claims) -> str:
    """Return at which ε a model is not offered and why; empty if it is offered at every ε."""
    shut: dict[str, list[float]] = {}
    for row in here:
        if not series.offered(row, claims):
            claim = claims[model, row.point.epsilon]
            shut.setdefault(claim, []).append(row.point.epsilon)
    if not shut:
        return ""
    why = " and ".join(
        f"{claim.removeprefix('claim ')} at ε = {words.listed(found)}"
        for claim, found in sorted(shut.items())
    )
    every = sum(map(len, shut.values())) == len(here)
    return f"{model} is {'not offered' if every else 'offered at some ε only'}: its claim is {why}."
