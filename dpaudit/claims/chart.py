"""The chart of a verification: certified ε and ε by the law, as multiples of the claimed ε."""

from __future__ import annotations

from dpaudit.claims.record import GameRecord, Verification
from dpaudit.core import rounding
from dpaudit.reports import chart_parts as parts
from dpaudit.reports.chart_parts import Axis, Chart, Datum, Panel, Series

_WIDTH, _ROW = 520, 32  # of the plot, and from one row to the next, in pixels
# The least multiple of a claim that is drawn; smaller ones are drawn there.
_LEAST = 0.1
_VERDICTS = [
    Series("falsified", parts.FALSE),
    Series("not falsified", parts.COLORS[0]),
    Series("holds", parts.COLORS[1]),
    Series("no power", parts.COLORS[3]),
    Series("inconclusive", parts.REST),
]
_COLUMNS = {
    "entry": "claim",
    "game": "game",
    "claim": "claimed ε",
    "bound": "certified ε",
    "truth": "ε by the law",
    "series": "verdict",
}


def render(verification: Verification) -> list[Chart]:
    """Return the chart, if any game was run: one row for each claim, one dot for each game."""
    data = [
        _datum(entry.id, game)
        for entry in verification.entries
        for game in entry.games
        if game.certified and game.claimed
    ]
    if not data:
        return []
    from dpaudit.reports.vega import alt

    most = 2 * max(datum["certified"] for datum in data)
    for datum in data:
        datum["law"] = min(datum["law"], most) if datum["law"] is not None else None
    entries = list(dict.fromkeys(datum["entry"] for datum in data))
    x = Axis("multiple of the claimed ε", _LEAST / 1.1, most * 1.1, log=True)
    verdicts = [series for series in _VERDICTS if any(series.name == d["series"] for d in data)]
    color = parts.color(verdicts)
    color.legend = alt.Legend(symbolOpacity=1)
    base = parts.drawn_from("points").encode(
        y=alt.Y("entry:N", sort=entries, title=None, axis=None),
        color=color,
    )
    names = parts.drawn_from("entries").mark_text(align="left", dx=4, dy=-9, color=parts.INK)
    layers = [
        parts.drawn_from("claimed")
        .mark_rule(strokeDash=[4, 3], color=parts.MUTED)
        .encode(x=x.x("certified")),
        base.mark_rule(yOffset=5, opacity=0.4)
        .transform_filter("isValid(datum.law)")
        .encode(x=x.x("certified"), x2="law:Q"),
        base.mark_point(shape="diamond", size=60, strokeWidth=1.5, yOffset=5)
        .transform_filter("isValid(datum.law)")
        .encode(x=x.x("law")),
        base.mark_point(filled=True, size=70, yOffset=5).encode(x=x.x("certified")),
        names.encode(
            y=alt.Y("entry:N", sort=entries, title=None, axis=None),
            x=alt.XValue(0),
            text=alt.Text("entry:N"),
        ),
    ]
    spec = parts.spec(
        layers,
        (_WIDTH, _ROW * len(entries)),
        points=data,
        claimed=[{"certified": 1.0}],
        entries=[{"entry": entry} for entry in entries],
    )
    caption = (
        "One row for each claim, one dot for each of its games: the certified lower bound on ε "
        "over the claimed ε. Diamonds: the pair's ε by the mechanism's law over the claimed ε, at "
        "the right edge if it is infinite or far beyond what these trials can certify. Right of "
        "the dashed line the claim is false. Values below a tenth of the claimed ε are drawn at a "
        "tenth."
    )
    title = "Certified ε as a multiple of the claimed ε"
    early = sum(game.early for entry in verification.entries for game in entry.games)
    if early:
        caption += f" Games that ended early have no bound and no dot: {early}."
    above = sum(datum["certified"] > 1 for datum in data)
    summary = f"{above} of {len(data)} bounds are above the claimed ε."
    table = parts.numbers(_COLUMNS, data)
    return [Chart("claims", title, caption, summary, [Panel("", spec)], table)]


def _datum(entry: str, game: GameRecord) -> Datum:
    claimed = game.claimed or 1.0
    bound = game.certified.lower if game.certified else 0.0
    law = None if game.truth is None else max(game.truth.value / claimed, _LEAST)
    return {
        "entry": entry,
        "game": f"{game.role}: {game.label}",
        "claim": f"{claimed:g}",
        "bound": f"≥ {rounding.at_least(bound)}",
        "truth": "not known" if game.truth is None else rounding.measured(game.truth.value),
        "certified": max(bound / claimed, _LEAST),
        "law": law,
        "series": game.verdict,
    }
