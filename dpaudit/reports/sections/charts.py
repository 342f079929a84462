"""The interactive charts, as Vega-Lite specifications with their data."""

from __future__ import annotations

import json
from typing import Any

from dpaudit.core.messages import plain
from dpaudit.record.result import AuditResult
from dpaudit.reports import chart_parts as parts
from dpaudit.reports import series
from dpaudit.reports.chart_parts import Chart, Look
from dpaudit.reports.digest import MORE, rows
from dpaudit.reports.sections import (
    curves,
    membership,
    membership_chart,
    recovery_chart,
    sybil_chart,
    transcripts_chart,
)
from dpaudit.reports.series import NOTHING, WITHIN, Datum

_LINE = 17  # height of a line of text above the plot


def render(result: AuditResult) -> list[Chart]:
    """Return every chart for which the record has numbers."""
    by_model = rows(result)
    look = Look(
        models=[plain(model.label) for model in result.models],
        attacks=[plain(label) for label in result.attacks],
    )
    if membership.audited(result):
        found = [membership_chart.chart(result, look), _certified(series.certified(by_model), look)]
        return [chart for chart in found if chart]
    found = [
        curves.accuracy(series.accuracy(by_model), look),
        _tradeoff(series.tradeoff(by_model), look),
        _certified(series.certified(by_model), look),
        curves.difference(series.difference(by_model), look),
        curves.rmse(series.rmse(by_model), look),
        recovery_chart.chart(result, look),
        curves.convergence(series.convergence(by_model)),
        sybil_chart.chart(result),
        *transcripts_chart.charts(result),
    ]
    return [chart for chart in found if chart]


def _certified(data: list[Datum], look: Look) -> Chart | None:
    if not data:
        return None
    import altair as alt

    low, high = parts.span([datum["claimed"] for datum in data])
    drawn = [datum["shown"] for datum in data] + [datum["mutant"] or low for datum in data]
    y_scale, y_axis = parts.decades(min(*drawn, low), max(*drawn, high))
    x = alt.X(
        "claimed:Q",
        title="claimed ε",
        scale=parts.log(low, high),
        axis=parts.ticks(data, "claimed"),
    )
    tips = parts.tips(
        model="model",
        pair="pair",
        claimed="claimed ε",
        bound="certified ε",
        verdict="certified",
        power="power, measured on mutants",
    )
    verdicts = [MORE, WITHIN, NOTHING]
    base = parts.drawn_from("points").encode(
        x=x,
        y=alt.Y("shown:Q", title="certified lower bound on ε", scale=y_scale, axis=y_axis),
        detail=alt.Detail("pair:N"),
        opacity=parts.picked("model"),
    )
    layers = [
        *_claimed(high, x),
        base.mark_tick(orient="horizontal", size=14, thickness=2)
        .transform_filter("datum.mutant != null")
        .encode(
            y=alt.Y("mutant:Q"),
            color=look.color(),
            tooltip=tips,
            opacity=alt.OpacityValue(0.5),
        ),
        base.mark_line(strokeWidth=1.5)
        .transform_filter("datum.lower > 0")
        .encode(color=look.color(), strokeDash=alt.StrokeDash("pair:N", title="pair")),
        base.mark_point(size=200, strokeWidth=1.5)
        .encode(
            stroke=look.stroke(),
            shape=alt.Shape(
                "verdict:N",
                title="certified",
                scale=alt.Scale(domain=verdicts, range=["triangle-up", "circle", "triangle-down"]),
            ),
            fill=alt.Fill(
                "verdict:N",
                title="certified",
                scale=alt.Scale(domain=verdicts, range=[parts.BROKEN, "#d8d8d8", "#888"]),
            ),
            tooltip=tips,
        )
        .add_params(parts.pick("model"))
        .properties(name="certified"),
    ]
    return Chart(
        "certified",
        "Whether the claims hold",
        "The certified lower bound on ε against the claimed ε, both axes logarithmic. An orange "
        "triangle above the dashed line breaks its claim. A short dash is the power of the game: "
        "the ε of the least mutant that it found to break the claim. Without a dash, the game has "
        "no power.",
        parts.spec(
            layers,
            "Certified lower bound on ε against the claimed ε",
            points=data,
            claimed=[{"claimed": low}, {"claimed": high}],
        ),
    )


def _claimed(high: float, x: Any) -> list[Any]:
    """Return the line on which the certified ε equals the claimed ε, labelled at its upper end."""
    import altair as alt

    ends = parts.drawn_from("claimed").encode(x=x, y=alt.Y("claimed:Q"))
    name = ends.mark_text(text="claimed", align="right", dx=-4, dy=-10, color="#444")
    return [
        ends.mark_line(color="#444", strokeDash=[6, 4]),
        name.transform_filter(f"datum.claimed == {high!r}"),
    ]


def _tradeoff(data: list[Datum], look: Look) -> Chart | None:
    if not data:
        return None
    import altair as alt

    weight = alt.param(
        name="weight",
        value=0.5,
        bind=alt.binding_range(
            min=0,
            max=1,
            step=0.01,
            element="#tradeoff-control",
            name="weight w of leakage against utility ",
        ),
    )
    tips = parts.tips(
        model="model", attack="attack", at="ε", utility_words="utility", risk_words="risk"
    )
    base = parts.drawn_from("points").encode(
        x=alt.X(
            "utility:Q",
            title="ε-Utility: overlap",
            # Leaves room for a label at 1, so that the plot does not resize as the slider moves.
            scale=alt.Scale(domain=[0, 1.06], nice=False),
            axis=alt.Axis(values=[0, 0.2, 0.4, 0.6, 0.8, 1]),
        ),
        y=alt.Y("risk:Q", title="ε-Risk: attack accuracy", scale=alt.Scale(domain=[0, 1])),
        color=look.color(),
        opacity=parts.picked("model", "attack"),
    )
    best = (
        base.transform_filter("datum.strongest")
        .transform_calculate(score="(1 - weight) * datum.utility - weight * datum.risk")
        .transform_joinaggregate(top="max(score)", groupby=["model"])
        .transform_filter("datum.score >= datum.top")
        # With equal scores, the smaller ε is chosen.
        .transform_joinaggregate(first="min(rank)", groupby=["model"])
        .transform_filter("datum.rank == datum.first")
    )
    found = alt.Tooltip("score:Q", title="score", format=".3f")
    layers = [
        base.mark_line(strokeWidth=1.5).encode(strokeDash=look.dash(), order=alt.Order("rank:Q")),
        base.mark_point(filled=True, size=45)
        .encode(shape=look.shape(), tooltip=tips)
        .add_params(weight, parts.pick("model"), parts.pick("attack"))
        .properties(name="tradeoff"),
        best.mark_point(size=330, strokeWidth=3).encode(tooltip=[*tips, found]),
    ]
    shown = [model for model in look.models if any(datum["model"] == model for datum in data)]
    for index, model in enumerate(shown):
        alone = best.transform_filter(f"datum.model === {json.dumps(model)}")
        layers += [_label(alone, index), _sentence(alone, len(shown) - index)]
    return Chart(
        "tradeoff",
        "Which ε to choose",
        "Risk against utility, one point for each ε. The slider sets the weight w: the best ε of a "
        "model has the largest score (1 − w) · utility − w · risk, where the risk is the largest "
        "accuracy of any attack at that ε (the strongest adversary). The best ε is ringed, and "
        "named above the plot. It is chosen by point estimates; near-ties may be chance.",
        parts.spec(layers, "Risk against utility, with the best ε at a chosen weight", points=data),
    )


def _label(best: Any, index: int) -> Any:
    """Label the best ε alternately below and above its ring, so that labels do not overlap."""
    import altair as alt

    offset = 24 + 14 * (index // 2)
    return (
        best.transform_calculate(label="'ε = ' + datum.at")
        .mark_text(dy=-offset if index % 2 else offset, fontSize=13, fontWeight="bold")
        .encode(text=alt.Text("label:N"))
    )


def _sentence(best: Any, line: int) -> Any:
    """State the best ε of a model in a sentence, `line` lines above the plot."""
    import altair as alt

    words = (
        "'ε = ' + datum.at + ' is best: utility ' + format(datum.utility, '.3f')"
        " + ', risk ' + format(datum.risk, '.3f') + ' (' + truncate(datum.model, 40) + ')'"
    )
    return (
        best.transform_calculate(words=words)
        .mark_text(align="left", baseline="bottom", fontSize=12, fontWeight="bold")
        .encode(
            x=alt.XValue(-40),
            y=alt.YValue(10 - _LINE * line),
            text=alt.Text("words:N"),
            opacity=alt.OpacityValue(1),
        )
    )
