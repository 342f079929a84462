"""The charts of lists that noise changes, and of the divergence of chains against their steps."""

from __future__ import annotations

from dpaudit.core import rounding
from dpaudit.core.messages import plain
from dpaudit.record.result import AuditResult
from dpaudit.reports import digest, words
from dpaudit.reports.chart_parts import (
    Axis,
    Chart,
    Datum,
    Look,
    by_point,
    edge,
    ends,
    extremes,
    position,
)
from dpaudit.reports.columns import left
from dpaudit.reports.sections.line_chart import Lines, against_epsilon, finite, lines_chart

_MEASURED, _UPPER = "measured", "upper bound (measured: 0)"


def difference(result: AuditResult, look: Look) -> Chart | None:
    """Return the chart of the lost share of the list against ε, both axes logarithmic."""
    data = _lost(result)
    if not finite(data):
        return None
    from dpaudit.reports.vega import alt

    least = min(datum["lower"] for datum in data)
    y = Axis("share of the top-k list that differs", least, 1, log=True)
    zeros = any(datum["drawn"] == _UPPER for datum in data)
    drawn = alt.Shape(
        "drawn:N",
        legend=None,
        scale=alt.Scale(domain=[_MEASURED, _UPPER], range=["circle", "triangle-down"]),
    )
    lines = against_epsilon(
        "difference",
        "What the noise costs: the list",
        "The share of the noiseless top-k list that the private list loses, both axes logarithmic."
        + (" A triangle is the upper bound of a measured zero." if zeros else ""),
        "lost share",
        data,
        look,
        y,
        shape=drawn if zeros else None,
    )
    return lines_chart(lines)


def _lost(result: AuditResult) -> list[Datum]:
    """Return the lost share of the list. A measured zero is drawn as its upper bound."""
    data = []
    for model, row in by_point(digest.rows(result)):
        if kept := row.estimate("utility.overlap"):
            lost = left(kept)
            datum = {**position(model, row), **ends(lost)}
            zero = lost.value <= 0
            data.append(
                {
                    **datum,
                    "y": datum["upper"] if zero else datum["value"],
                    "drawn": _UPPER if zero else _MEASURED,
                }
            )
    # A logarithmic axis cannot show 0, so intervals that reach 0 end at the edge.
    least = edge([datum["y"] for datum in data])
    return [{**datum, "lower": max(datum["lower"], least)} for datum in data]


def convergence(result: AuditResult, look: Look) -> Chart | None:
    """Return the chart of a chain's divergence against its steps by ε, both axes logarithmic."""
    data = _divergences(result)
    if not data:
        return None
    steps = sorted({datum["x"] for datum in data})
    zero = any(datum["step"] == 0 for datum in data)
    number = "format(datum.value, '~s')"
    label = f"datum.value == {steps[0]} ? '0' : {number}" if zero else number
    return lines_chart(
        Lines(
            "convergence",
            "How fast the chain converges",
            "The divergence of the law of the chain's state from its limit law, a mean over users, "
            "computed and not sampled; both axes logarithmic. Zero steps are drawn at the left "
            "edge. A small divergence does not imply privacy: ε is about the least likely list.",
            extremes("divergence", data),
            x=Axis.over("steps of the chain", steps, values=steps, label=label),
            y=Axis.over("divergence (nats)", (datum["y"] for datum in data)),
            data=data,
            columns={"series": "chain", "step": "steps", "words": "divergence"},
            series=look.series(data, "y"),
            by="states",
            label="label",
        )
    )


def _divergences(result: AuditResult) -> list[Datum]:
    """Return the divergence of chains; zeros are drawn at the edges of the logarithmic axes."""
    data: list[Datum] = []
    for model, row in by_point(digest.rows(result)):
        for one in row.of("chain.divergence"):
            chain = plain(f"{model}, ε = {words.epsilon(row.point.epsilon)}, {one.states}")
            data.append(
                {
                    "series": chain,
                    "label": plain(f"{model}, ε = {words.epsilon(row.point.epsilon)}"),
                    "model": plain(model),
                    "attack": row.point.epsilon,
                    "name": f"{chain}, {one.step} steps",
                    "states": one.states,
                    "step": one.step,
                    "value": one.estimate.value,
                    "words": rounding.measured(one.estimate.value),
                }
            )
    start = edge([datum["step"] for datum in data])
    floor = edge([datum["value"] for datum in data])
    return [
        {**datum, "x": max(datum["step"], start), "y": max(datum["value"], floor)} for datum in data
    ]
