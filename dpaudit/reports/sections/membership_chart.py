"""The ROC curves of membership inference, both axes logarithmic."""

from __future__ import annotations

from dpaudit.core.messages import plain
from dpaudit.record.result import AuditResult
from dpaudit.reports import chart_parts as parts
from dpaudit.reports.chart_parts import Chart, Look


def chart(result: AuditResult, look: Look) -> Chart | None:
    """Return the true-positive rate of the strongest attack against the false-positive rate.

    The axes are logarithmic, as what matters is at few false positives (Carlini et al. 2022,
    arXiv:2112.03570, section III).
    """
    found = [each for each in result.measurements if each.metric == "membership.roc" and each.at]
    if not found:
        return None
    import altair as alt

    least = min(each.at or 1 for each in found)
    data = [
        {
            "model": plain(each.model),
            "seen": f"{each.unit}, {each.observer}",
            "x": each.at,
            # A logarithmic axis cannot show 0: draw it at the edge.
            "shown": max(each.estimate.value, least / 10),
            "value": each.estimate.value,
            "lower": max(each.estimate.lower, least / 10),
            "upper": max(each.estimate.upper, least / 10),
            "attack": plain(each.attack or ""),
        }
        for each in found
    ]
    x_scale, x_axis = parts.decades(least, 1)
    y_scale, y_axis = parts.decades(least / 10, 1)
    base = parts.drawn_from("points").encode(
        x=alt.X("x:Q", title="false-positive rate", scale=x_scale, axis=x_axis),
        color=look.color(),
        opacity=parts.picked("model"),
        detail=alt.Detail("seen:N"),
    )
    y = alt.Y("shown:Q", title="true-positive rate", scale=y_scale, axis=y_axis)
    tips = parts.tips(model="model", seen="target, observer", attack="attack", x="FPR", value="TPR")
    chance = parts.drawn_from("chance").encode(
        x=alt.X("x:Q", scale=x_scale, axis=x_axis), y=alt.Y("x:Q", scale=y_scale, axis=y_axis)
    )
    layers = [
        chance.mark_line(color="#444", strokeDash=[6, 4]),
        base.mark_line(strokeWidth=1.5).encode(
            y=y, strokeDash=alt.StrokeDash("seen:N", title="target, observer")
        ),
        base.mark_point(filled=True, size=40)
        .encode(y=y, tooltip=tips)
        .add_params(parts.pick("model"))
        .properties(name="membership"),
    ]
    return Chart(
        "membership",
        "Who can be told to be in the training data",
        "The true-positive rate of the strongest attack against its false-positive rate, both axes "
        "logarithmic. The dashed line is chance. At the left are the targets that an attacker is "
        "almost sure of.",
        parts.spec(
            layers,
            "True-positive rate of membership inference against the false-positive rate",
            points=data,
            chance=[{"x": least}, {"x": 1}],
        ),
    )
