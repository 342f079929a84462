"""The chart of the error on recovered sensitive ratings against the model's own error."""

from __future__ import annotations

import math

from dpaudit.core.messages import plain
from dpaudit.record.result import MEANS, RELEASED, AuditResult, Measurement
from dpaudit.reports import chart_parts as parts
from dpaudit.reports import words
from dpaudit.reports.chart_parts import Chart, Look
from dpaudit.reports.series import Datum


def chart(result: AuditResult, look: Look) -> Chart | None:
    """Return the chart of both errors, with one point for each model and ε."""
    points, means = _points(result), _means(result)
    if not points:
        return None
    import altair as alt

    base = parts.drawn_from("points").encode(
        x=alt.X("error:Q", title="rmse on test ratings", scale=alt.Scale(zero=False)),
        color=look.color(),
        opacity=parts.picked("model"),
    )
    y = alt.Y("recovered:Q", title="rmse of what is recovered", scale=alt.Scale(zero=False))
    tips = parts.tips(
        model="model",
        attack="attack",
        at="ε",
        error_words="rmse",
        words="rmse of what is recovered",
    )
    rule = parts.drawn_from("means").encode(y=alt.Y("mean:Q"))
    layers = [
        rule.mark_rule(strokeDash=[6, 4], color="#444"),
        rule.mark_text(text="item means", align="left", dy=-6, color="#444").encode(
            x=alt.XValue(4)
        ),
        base.mark_line(strokeWidth=1).encode(
            y=y, detail=alt.Detail("attack:N"), order=alt.Order("rank:Q")
        ),
        base.mark_rule(strokeWidth=1.5).encode(y=alt.Y("lower:Q"), y2="upper"),
        base.mark_point(filled=True, size=90)
        .encode(y=y, shape=look.shape(), tooltip=tips)
        .add_params(parts.pick("model"))
        .properties(name="recovery"),
    ]
    return Chart(
        "recovery",
        "What is recovered of sensitive ratings",
        "The attacker's error against the model's own, one point for each model and ε; a bar is "
        "the interval over folds. Predictions are better further left, and the attacker errs more "
        "further up. Above the dashed line, guessing the items' means would be better than the "
        "attack. The table says how much of the gain below the line is a leak.",
        parts.spec(
            layers,
            "Error of recovered sensitive ratings against the error on test ratings",
            points=points,
            means=means,
        ),
    )


def _of(result: AuditResult, states: str) -> list[Measurement]:
    return [
        each
        for each in result.measurements
        if each.metric == "reconstruction.rmse" and each.detail == states
    ]


def _points(result: AuditResult) -> list[Datum]:
    errors = {
        (each.model, each.epsilon): each.estimate
        for each in result.measurements
        if each.metric == "utility.rmse"
    }
    found = sorted(_of(result, RELEASED), key=lambda each: each.epsilon)
    return [
        {
            "model": plain(each.model),
            "attack": plain(each.attack or ""),
            "at": words.epsilon(each.epsilon),
            "name": plain(f"{each.model}, {each.attack}, ε = {words.epsilon(each.epsilon)}"),
            "rank": rank,
            "error": errors[each.model, each.epsilon].value,
            "error_words": words.interval(errors[each.model, each.epsilon]),
            "recovered": each.estimate.value,
            "lower": each.estimate.lower,
            "upper": each.estimate.upper,
            "words": words.interval(each.estimate),
        }
        for rank, each in enumerate(found)
        if math.isfinite(each.estimate.upper)
    ]


def _means(result: AuditResult) -> list[Datum]:
    # The item means are the same for every model.
    return [{"mean": each.estimate.value} for each in _of(result, MEANS)[:1]]
