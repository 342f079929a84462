"""The chart of ROC curves.

Both axes are logarithmic, as what matters is at few false positives (Carlini et al. 2022,
arXiv:2112.03570, section III).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from dpaudit.record.result import Measurement
from dpaudit.reports import words
from dpaudit.reports.axis import Axis
from dpaudit.reports.chart_parts import Chart, Choice, extremes, ranked
from dpaudit.reports.sections import line_chart
from dpaudit.reports.sections.line_chart import Baseline, Lines
from dpaudit.reports.series import Datum


def positions(rates: Sequence[Measurement]) -> Iterator[tuple[Measurement, Datum]]:
    """Yield the rates at some false positives, with their positions on the axes."""
    for rate in rates:
        if rate.at:
            yield (
                rate,
                {
                    "x": rate.at,
                    "value": rate.estimate.value,
                    "lower": rate.estimate.lower,
                    "upper": rate.estimate.upper,
                    "words": words.interval(rate.estimate),
                },
            )


def chart(
    name: str,
    title: str,
    caption: str,
    data: Sequence[Datum],
    columns: Mapping[str, str],
    choice: Choice | None = None,
) -> Chart:
    """Draw ROC curves and a guess, those that are highest at the fewest false positives first.

    Args:
        name: its id in the page.
        title: its heading.
        caption: how to read it.
        data: the points: `series`, `name`, the fields of `columns`, and `positions`.
        columns: the fields of tooltips and tables that say whose curve it is, with their titles.
        choice: the groups of which it shows one at a time.
    """
    least = min(datum["x"] for datum in data)
    # A logarithmic axis cannot show 0: it is drawn at the edge.
    floor = least / 10
    drawn = [
        {
            **datum,
            "y": max(datum["value"], floor),
            "lower": max(datum["lower"], floor),
            "upper": max(datum["upper"], floor),
            "leak": datum["value"] if datum["x"] == least else 0.0,
        }
        for datum in data
    ]
    rate = f"true-positive rate at {words.percent(least)} false positives"
    return line_chart.chart(
        Lines(
            name,
            title,
            caption,
            extremes(rate, [datum for datum in drawn if datum["x"] == least]),
            x=Axis("false-positive rate", least, 1, log=True),
            y=Axis("true-positive rate", floor, 1, log=True),
            data=drawn,
            columns={**columns, "x": "false-positive rate", "words": "true-positive rate"},
            series=ranked(drawn, "leak"),
            baselines=[Baseline("guess", [(least, least), (1, 1)])],
            choice=choice,
        )
    )
