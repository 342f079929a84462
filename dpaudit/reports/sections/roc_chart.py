"""The chart of ROC curves.

Both axes are logarithmic, as what matters is at few false positives (Carlini et al. 2022,
arXiv:2112.03570, section III).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from dpaudit.record.result import Measurement
from dpaudit.reports import words
from dpaudit.reports.axis import Axis
from dpaudit.reports.chart_parts import Chart, Look, extremes
from dpaudit.reports.sections import line_chart
from dpaudit.reports.sections.line_chart import Baseline, Lines
from dpaudit.reports.series import Datum

# Where a point and the ends of its band are drawn, by what they are.
_DRAWN = {"y": "value", "lower": "lower", "upper": "upper"}


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
    look: Look,
    by: str,
    label: str = "series",
) -> Chart:
    """Draw ROC curves and a guess, those that are highest at the fewest false positives first.

    Args:
        name: its id in the page.
        title: its heading.
        caption: how to read it.
        data: the points: `series`, `model`, `name`, the fields of `columns`, and `positions`.
        columns: the fields of the table of numbers that say whose curve it is, with their titles.
        look: the colours of the models.
        by: the field that names the panel of a point.
        label: the field of a curve's label.
    """
    least = min(datum["x"] for datum in data)
    # Both axes are the same, so that a guess is the diagonal; 0 has no place on them, but the edge.
    axis = Axis("", least / 2, 1, log=True)
    drawn = [
        {
            **datum,
            **{end: max(datum[of], axis.low) for end, of in _DRAWN.items()},
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
            x=replace(axis, title="false-positive rate"),
            y=replace(axis, title="true-positive rate"),
            data=drawn,
            columns={**columns, "x": "false-positive rate", "words": "true-positive rate"},
            series=look.series(drawn, "leak"),
            baselines=[Baseline("guess", [(axis.low, axis.low), (1, 1)])],
            by=by,
            label=label,
            band=True,
            size=(300, 300),
        )
    )
