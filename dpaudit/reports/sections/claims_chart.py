"""The chart of a verification: certified ε and ε by the law, as multiples of the claimed ε."""

from __future__ import annotations

from dpaudit.claims.record import Game, Verification
from dpaudit.reports import chart_parts as parts
from dpaudit.reports.chart_parts import Chart
from dpaudit.reports.series import Datum

_ROW = 20
# The least multiple of a claim that is drawn; smaller ones are drawn there.
_LEAST = 0.1


def render(found: Verification) -> list[Chart]:
    """Return the chart, if any game was run."""
    data = [
        _datum(f"{entry.id}  {game.role}: {game.label}", game)
        for entry in found.entries
        for game in entry.games
        if game.certified and game.claimed
    ]
    if not data:
        return []
    import altair as alt

    most = 2 * max(datum["certified"] for datum in data)
    for datum in data:
        datum["law"] = min(datum["law"], most) if datum["law"] is not None else None
    order = [datum["name"] for datum in data]
    low, high = _LEAST / 1.1, most * 1.1
    _, axis = parts.decades(low, high)
    x_scale = parts.log(low, high)
    y = alt.Y("name:N", sort=order, title=None, axis=alt.Axis(labelLimit=520, labelFontSize=11))
    tips = parts.tips(
        name="game", claim="claimed ε", bound="certified ε", truth="ε by the law", verdict="verdict"
    )
    base = parts.drawn_from("games").encode(y=y, tooltip=tips)
    color = alt.Color(
        "verdict:N",
        title="verdict",
        scale=alt.Scale(
            domain=["falsified", "not falsified", "holds", "inconclusive"],
            range=[parts.BROKEN, "#0072B2", "#009E73", "#777777"],
        ),
    )
    x = alt.X("certified:Q", title="multiple of the claimed ε", scale=x_scale, axis=axis)
    layers = [
        parts.drawn_from("claim").mark_rule(strokeDash=[4, 3], color="#444").encode(x=x),
        base.mark_rule(opacity=0.4)
        .transform_filter("datum.law != null")
        .encode(x=x, x2="law:Q", color=color),
        base.mark_point(shape="diamond", size=70, strokeWidth=1.5)
        .transform_filter("datum.law != null")
        .encode(x=alt.X("law:Q", scale=x_scale), color=color),
        base.mark_point(filled=True, size=80, opacity=1).encode(x=x, color=color),
    ]
    spec = parts.spec(
        layers,
        "Certified lower bounds on epsilon as multiples of the claims",
        games=data,
        claim=[{"certified": 1.0}],
    )
    spec["height"] = _ROW * len(data)
    caption = (
        "Dots: the certified lower bound on ε over the claimed ε. Diamonds: the pair's ε by the "
        "mechanism's law over the claimed ε, at the right edge if it is infinite or far beyond "
        "what these trials can certify. Right of the dashed line the claim is false. Values below "
        "a tenth of the claimed ε are drawn at a tenth."
    )
    return [Chart("claims", "Certified ε as a multiple of the claimed ε", caption, spec)]


def _datum(name: str, game: Game) -> Datum:
    claimed = game.claimed or 1.0
    bound = game.certified.lower if game.certified else 0.0
    law = None if game.truth is None else max(game.truth.value / claimed, _LEAST)
    return {
        "name": name,
        "claim": f"{claimed:g}",
        "bound": f"≥ {bound:.3g}",
        "truth": "not known" if game.truth is None else f"{game.truth.value:.4g}",
        "certified": max(bound / claimed, _LEAST),
        "law": law,
        "verdict": game.verdict,
    }
