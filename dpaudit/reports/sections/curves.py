"""The charts of attack accuracy, list difference and error against ε, and of chains' steps."""

from __future__ import annotations

from typing import Any

from dpaudit.reports import chart_parts as parts
from dpaudit.reports.chart_parts import Chart, Look
from dpaudit.reports.series import MEASURED, UPPER, Datum


def accuracy(data: list[Datum], look: Look) -> Chart | None:
    """Return the chart of attack accuracy against ε."""
    if not _finite(data):
        return None
    import altair as alt

    y = alt.Y("shown:Q", title="attack accuracy (ε-Risk)", scale=alt.Scale(domain=[0, 1]))
    return Chart(
        "accuracy",
        "How much the attacks recover",
        "The share of hidden ratings that each attack recovered, with its interval. Click a "
        "legend entry to highlight it, double-click to show all." + _infinite(data),
        _against_epsilon(data, look, y, "accuracy", attacks=True),
    )


def difference(data: list[Datum], look: Look) -> Chart | None:
    """Return the chart of the lost share of the list against ε, both axes logarithmic."""
    if not _finite(data):
        return None
    import altair as alt

    scale, axis = parts.decades(min(datum["lower"] for datum in data), 1)
    y = alt.Y("shown:Q", title="share of the top-k list that differs", scale=scale, axis=axis)
    zeros = any(datum["drawn"] == UPPER for datum in data)
    drawn = alt.Shape(
        "drawn:N",
        title=None,
        scale=alt.Scale(domain=[MEASURED, UPPER], range=["circle", "triangle-down"]),
    )
    return Chart(
        "difference",
        "What the noise costs: the list",
        "The share of the noiseless top-k list that the private list loses, both axes logarithmic."
        + (" A triangle is the upper bound of a measured zero." if zeros else "")
        + _infinite(data),
        _against_epsilon(data, look, y, "difference", shape=drawn if zeros else None),
    )


def rmse(data: list[Datum], look: Look) -> Chart | None:
    """Return the chart of the error on held-out ratings against ε."""
    if not _finite(data):
        return None
    import altair as alt

    y = alt.Y("shown:Q", title="rmse on held-out ratings", scale=alt.Scale(zero=False))
    return Chart(
        "rmse",
        "What the noise costs: the predictions",
        "The root mean squared error on held-out ratings." + _infinite(data),
        _against_epsilon(data, look, y, "rmse"),
    )


def convergence(data: list[Datum]) -> Chart | None:
    """Return the chart of a chain's divergence against its steps by ε, both axes logarithmic."""
    if not data:
        return None
    import altair as alt

    y_scale, y_axis = parts.decades(*parts.span([datum["shown"] for datum in data]))
    low, high = parts.span([datum["x"] for datum in data])
    steps = sorted({datum["x"] for datum in data})
    start = steps[0] if any(datum["step"] == 0 for datum in data) else None
    models = list(dict.fromkeys(datum["model"] for datum in data))
    several = len(models) > 1
    base = parts.drawn_from("points").encode(
        x=alt.X(
            "x:Q",
            title="steps of the chain",
            scale=parts.log(low, high),
            axis=alt.Axis(
                values=steps,
                labelExpr=f"datum.value == {start} ? '0' : format(datum.value, '~s')"
                if start is not None
                else "format(datum.value, '~s')",
                labelOverlap="greedy",
            ),
        ),
        y=alt.Y("shown:Q", title="divergence (nats)", scale=y_scale, axis=y_axis),
        color=alt.Color(
            "at:N",
            title="ε",
            sort=list(dict.fromkeys(datum["at"] for datum in data)),
            scale=alt.Scale(scheme="viridis"),
        ),
        detail=[alt.Detail("model:N"), alt.Detail("states:N")],
        opacity=parts.picked("states", *(["model"] if several else [])),
    )
    tips = parts.tips(model="model", at="ε", states="states", step="steps", words="divergence")
    points = base.mark_point(filled=True, size=45).encode(tooltip=tips)
    if several:
        shape = alt.Shape("model:N", title="model", scale=alt.Scale(domain=models))
        points = points.encode(shape=shape).add_params(parts.pick("model"))
    layers = [
        base.mark_line(strokeWidth=2).encode(strokeDash=alt.StrokeDash("states:N", title="states")),
        points.add_params(parts.pick("states")).properties(name="convergence"),
    ]
    return Chart(
        "convergence",
        "How fast the chain converges",
        "The divergence of the law of the chain's state from its limit law, a mean over users, "
        "computed and not sampled; both axes logarithmic. Zero steps are drawn at the left edge. "
        "A small divergence does not imply privacy: ε is about the least likely list.",
        parts.spec(layers, "Divergence of the chain against its steps", points=data),
    )


def _against_epsilon(
    data: list[Datum], look: Look, y: Any, title: str, *, attacks: bool = False, shape: Any = None
) -> dict[str, Any]:
    """Draw lines with their intervals; a point with infinite ε is a dotted, labelled rule."""
    import altair as alt

    finite = _finite(data)
    low, high = parts.span([datum["epsilon"] for datum in finite])
    by = ["model", "attack"] if attacks else ["model"]
    tips = parts.tips(**{field: field for field in by}, at="ε", words=title, trials="trials")
    base = parts.drawn_from("points").encode(
        x=alt.X(
            "epsilon:Q", title="ε", scale=parts.log(low, high), axis=parts.ticks(finite, "epsilon")
        ),
        y=y,
        color=look.color(),
        detail=[alt.Detail(f"{field}:N") for field in by],
        opacity=parts.picked(*by),
    )
    ends = base.encode(y=alt.Y("lower:Q"), y2=alt.Y2("upper:Q"))
    line = base.mark_line(strokeWidth=2)
    layers = [
        ends.mark_area(strokeWidth=0).encode(opacity=alt.OpacityValue(0.12)),
        ends.mark_rule(strokeWidth=1.5),
        line.encode(strokeDash=look.dash()) if attacks else line,
        base.mark_point(filled=True, size=60)
        .encode(shape=shape or look.shape(), tooltip=tips)
        .add_params(*(parts.pick(field) for field in by))
        .properties(name=title),
    ]
    infinite = [datum for datum in data if datum["epsilon"] is None]
    more = {"infinite": infinite} if infinite else {}
    if infinite:
        rule = parts.drawn_from("infinite").encode(y=y, color=look.color(), tooltip=tips)
        layers += [
            rule.mark_rule(strokeDash=[2, 3], strokeWidth=1.5),
            rule.mark_text(align="left", dx=4, dy=-7).encode(
                x=alt.XValue(0), text=alt.Text("name:N")
            ),
        ]
    return parts.spec(layers, f"{title} against ε", points=finite, **more)


def _finite(data: list[Datum]) -> list[Datum]:
    return [datum for datum in data if datum["epsilon"] is not None]


def _infinite(data: list[Datum]) -> str:
    """Return the sentence that explains dotted rules, if there are any."""
    if len(_finite(data)) == len(data):
        return ""
    return " A dotted rule is a model without noise (ε = ∞), which the axis cannot show."
