"""The chart of Sybil attacks: accuracy against effort."""

from __future__ import annotations

from dpaudit.core.messages import plain
from dpaudit.record.result import AuditResult, Measurement
from dpaudit.reports import chart_parts as parts
from dpaudit.reports import words
from dpaudit.reports.chart_parts import Chart
from dpaudit.reports.sections.sybil import LEVEL, found_in
from dpaudit.reports.series import Datum


def chart(result: AuditResult) -> Chart | None:
    """Return the chart of accuracy against effort, if there are Sybil attacks."""
    data = [_datum(found) for found in found_in(result)]
    if not data:
        return None
    import altair as alt

    efforts = sorted({datum["effort"] for datum in data})
    low, high = parts.span(efforts)
    base = parts.drawn_from("sybil_attacks").encode(
        x=alt.X(
            "effort:Q",
            title="accounts, changes or observed lists",
            scale=parts.log(low, high),
            axis=alt.Axis(values=efforts, format="~s", labelOverlap="greedy"),
        ),
        y=alt.Y("shown:Q", title="accuracy", scale=alt.Scale(domain=[0, 1])),
        color=alt.Color("series:N", title="model", sort=None, scale=alt.Scale(scheme="tableau20")),
        detail=["series:N", "attack:N"],
        opacity=parts.picked("series", "attack"),
    )
    tips = parts.tips(series="model", attack="Sybil attack", effort="effort", words="accuracy")
    layers = [
        parts.drawn_from("level").mark_rule(strokeDash=[4, 3], color="#444").encode(y="level:Q"),
        base.mark_line(strokeWidth=1.5).encode(
            strokeDash=alt.StrokeDash("attack:N", title="Sybil attack", sort=None)
        ),
        base.mark_point(filled=True, size=45)
        .encode(tooltip=tips)
        .add_params(parts.pick("series"), parts.pick("attack")),
    ]
    return Chart(
        "sybil",
        "How many accounts, changes or lists an attacker needs",
        "How often the attacker reads a hidden rating, by the number of accounts that they create "
        "(those created before training included), changes that they make, or lists that they "
        f"observe. The dashed line is {words.percent(LEVEL)}. Click a legend entry to highlight "
        "it.",
        parts.spec(
            layers,
            "Accuracy of Sybil attacks against their effort",
            sybil_attacks=data,
            level=[{"level": LEVEL}],
        ),
    )


def _datum(found: Measurement) -> Datum:
    return {
        "series": f"{plain(found.model)}, ε = {words.epsilon(found.epsilon)}",
        "attack": plain(found.attack or ""),
        "effort": found.effort,
        "shown": found.estimate.value,
        "words": words.interval(found.estimate),
    }
