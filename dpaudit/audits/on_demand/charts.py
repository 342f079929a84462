"""The chart of the divergence of chains against their steps."""

from __future__ import annotations

from dpaudit.core import rounding
from dpaudit.core.messages import plain
from dpaudit.record.result import AuditResult
from dpaudit.reports import digest, words
from dpaudit.reports.axis import Axis
from dpaudit.reports.chart_parts import Chart, extremes, ranked
from dpaudit.reports.sections import line_chart
from dpaudit.reports.sections.line_chart import Lines
from dpaudit.reports.series import Datum, edge


def convergence(result: AuditResult) -> Chart | None:
    """Return the chart of a chain's divergence against its steps by ε, both axes logarithmic."""
    data = _divergences(result)
    if not data:
        return None
    steps = sorted({datum["x"] for datum in data})
    zero = any(datum["step"] == 0 for datum in data)
    number = "format(datum.value, '~s')"
    label = f"datum.value == {steps[0]} ? '0' : {number}" if zero else number
    return line_chart.chart(
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
            series=ranked(data, "y"),
        )
    )


def _divergences(result: AuditResult) -> list[Datum]:
    """Return the divergence of chains; zeros are drawn at the edges of the logarithmic axes."""
    data: list[Datum] = []
    for model, sweep in digest.rows(result).items():
        for row in sweep:
            for one in row.of("chain.divergence"):
                series = plain(f"{model}, ε = {words.epsilon(row.point.epsilon)}, {one.states}")
                data.append(
                    {
                        "series": series,
                        "name": f"{series}, {one.step} steps",
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
