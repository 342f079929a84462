"""The chart of certified against claimed ε."""

from __future__ import annotations

from typing import Any

from dpaudit.core import rounding
from dpaudit.reports import chart_parts as parts
from dpaudit.reports.axis import Axis
from dpaudit.reports.chart_parts import Chart, Label, Look
from dpaudit.reports.digest import MORE
from dpaudit.reports.series import NO_POWER, NOTHING, WITHIN, Datum

_COLUMNS = {
    "series": "model, pair",
    "at": "claimed ε",
    "words": "certified ε",
    "verdict": "certified",
    "power": "power, measured on mutants",
}


def chart(data: list[Datum], look: Look) -> Chart | None:
    """Return the chart of the certified lower bounds on ε, both axes logarithmic."""
    if not data:
        return None
    import altair as alt

    claims = sorted({datum["claimed"] for datum in data})
    x = Axis.over("claimed ε", claims, values=claims)
    drawn = [datum["mutant"] for datum in data if datum["mutant"]]
    y = Axis.over("certified ε", [*claims, *drawn, *(datum["y"] for datum in data)])
    series = look.series(data, "multiple")
    last = {datum["series"]: datum for datum in sorted(data, key=lambda point: point["claimed"])}
    named, rows = parts.labels(
        [Label(line.name, y.share(last[line.name]["y"]), line.color) for line in series]
        + [Label("claimed ε", y.share(x.high), start=y.share(x.low))]
    )
    base = parts.drawn_from("points").encode(x=x.x("claimed"), y=y.y(), opacity=parts.opacity())
    color = parts.color(series)
    tips = parts.tips(_COLUMNS)
    claimed = parts.drawn_from("claimed").encode(x=x.x("claimed"), y=y.y("claimed"))
    layers = [
        claimed.mark_line(strokeDash=[6, 4], color=parts.MUTED),
        base.mark_tick(orient="horizontal", size=14, thickness=2)
        .transform_filter("isValid(datum.mutant)")
        .encode(y=y.y("mutant"), color=color, tooltip=tips, opacity=parts.opacity(0.6)),
        base.mark_line(strokeWidth=1.5).encode(color=color, strokeDash=parts.dash(series)),
        base.mark_point(strokeWidth=1.5).encode(
            stroke=parts.color(series, "Stroke"),
            shape=_by_verdict("Shape", ["triangle-up", "circle", "triangle-down", "circle"]),
            fill=_by_verdict("Fill", [parts.BROKEN, "var(--card)", parts.MUTED, parts.MUTED]),
            size=alt.SizeValue(
                170, condition={"test": f"datum.verdict === '{NO_POWER}'", "value": 30}
            ),
            tooltip=tips,
        ),
    ]
    return Chart(
        "certified",
        "Whether the claims hold",
        "The certified lower bound on ε against the claimed ε, both axes logarithmic. A filled "
        "triangle (▲) above the dashed line breaks its claim. A circle (○) is a bound that is not "
        "more than claimed, of a game that finds a mutant; a grey triangle (▼) at the edge is such "
        "a game that certifies nothing. A small dot (•) is a bound of a game that finds no mutant: "
        "it says nothing about the claim. A short dash (–) is the power of the game: the smallest "
        "ε of a copy with more leakage that the game found to break the claim.",
        _summary(data),
        parts.spec(
            [*layers, *named],
            series,
            points=data,
            claimed=[{"claimed": x.low}, {"claimed": x.high}],
            labels=rows,
        ),
        columns=_COLUMNS,
        series=series,
    )


def _by_verdict(channel: str, values: list[Any]) -> Any:
    import altair as alt

    scale = alt.Scale(domain=[MORE, WITHIN, NOTHING, NO_POWER], range=values)
    return getattr(alt, channel)("verdict:N", legend=None, scale=scale)


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
