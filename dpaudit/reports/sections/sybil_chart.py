"""The chart of Sybil attacks: accuracy against effort."""

from __future__ import annotations

from dpaudit.core.messages import plain
from dpaudit.record.result import AuditResult, Measurement
from dpaudit.reports import words
from dpaudit.reports.axis import Axis
from dpaudit.reports.chart_parts import Chart, extremes, ranked
from dpaudit.reports.sections import guesses, line_chart
from dpaudit.reports.sections.line_chart import Lines, level
from dpaudit.reports.sections.sybil import LEVEL, found_in
from dpaudit.reports.series import Datum


def chart(result: AuditResult) -> Chart | None:
    """Return the chart of accuracy against effort, if there are Sybil attacks."""
    data = [_datum(found) for found in found_in(result)]
    if not data:
        return None
    efforts = sorted({datum["x"] for datum in data})
    x = Axis.over("accounts, changes or observed lists", efforts, values=efforts, units=True)
    baselines = [*guesses.of_sybils(result), (words.percent(LEVEL), LEVEL)]
    return line_chart.chart(
        Lines(
            "sybil",
            "How many accounts, changes or lists an attacker needs",
            "How often the attacker reads a hidden rating, by the number of accounts that they "
            "create (those created before training included), changes that they make, or lists "
            f"that they observe. Dashed lines: what a guess reaches, and {words.percent(LEVEL)}.",
            extremes("accuracy", data),
            x=x,
            y=Axis("accuracy", 0, 1),
            data=data,
            columns={"series": "model, attack", "x": "effort", "words": "accuracy"},
            series=ranked(data, "value"),
            baselines=[level(label, share, x) for label, share in baselines],
        )
    )


def _datum(found: Measurement) -> Datum:
    series = plain(f"{found.model}, ε = {words.epsilon(found.epsilon)}, {found.attack}")
    return {
        "series": series,
        "name": f"{series}, effort {found.effort}",
        "x": found.effort,
        "y": found.estimate.value,
        "value": found.estimate.value,
        "lower": found.estimate.lower,
        "upper": found.estimate.upper,
        "words": words.interval(found.estimate),
    }
