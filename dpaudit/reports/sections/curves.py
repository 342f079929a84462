"""Charts of numbers against ε: of attack accuracy, of error, and of what a kind measures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dpaudit.reports.axis import Axis
from dpaudit.reports.chart_parts import Chart, Look, extremes
from dpaudit.reports.sections.line_chart import Baseline, Lines, chart, level
from dpaudit.reports.series import Datum

_WEAK = " An accuracy below guessing shows a weak attack, not a private model."


def accuracy(data: list[Datum], look: Look, guesses: Sequence[tuple[str, float]]) -> Chart | None:
    """Return the chart of attack accuracy against ε, with what a guess reaches."""
    if not finite(data):
        return None
    y = Axis("attack accuracy (ε-Risk)", 0, 1)
    x = _epsilons(data)
    weak = any(datum["value"] < share for datum in data for _, share in guesses)
    lines = against_epsilon(
        "accuracy",
        "How much the attacks recover",
        "The share of hidden ratings that each attack recovered, with its interval."
        + (_WEAK if weak else ""),
        "attack accuracy",
        data,
        look,
        y,
        baselines=[level(label, share, x) for label, share in guesses],
    )
    return chart(lines)


def rmse(data: list[Datum], look: Look) -> Chart | None:
    """Return the chart of the error on held-out ratings against ε."""
    if not finite(data):
        return None
    ends = [datum[end] for datum in data for end in ("y", "lower", "upper")]
    lines = against_epsilon(
        "rmse",
        "What the noise costs: the predictions",
        "The root mean squared error on held-out ratings.",
        "error",
        data,
        look,
        Axis.around("rmse on held-out ratings", ends),
    )
    return chart(lines)


def against_epsilon(
    name: str,
    title: str,
    caption: str,
    what: str,
    data: list[Datum],
    look: Look,
    y: Axis,
    baselines: Sequence[Baseline] = (),
    shape: Any = None,
) -> Lines:
    """Return lines with their intervals; what has no noise is a dotted line across."""
    dotted = any(datum["x"] is None for datum in data)
    return Lines(
        name,
        title,
        caption + (" A dotted line is a model without noise (ε = ∞)." if dotted else ""),
        extremes(what, data),
        x=_epsilons(data),
        y=y,
        data=data,
        columns={"series": "series", "at": "ε", "words": what, "trials": "trials"},
        series=look.series(data, "value"),
        baselines=baselines,
        shape=shape,
    )


def _epsilons(data: list[Datum]) -> Axis:
    epsilons = sorted({datum["x"] for datum in finite(data)})
    return Axis.over("ε", epsilons, values=epsilons)


def finite(data: list[Datum]) -> list[Datum]:
    """Return the points at a finite ε; without any there is no axis, and no chart."""
    return [datum for datum in data if datum["x"] is not None]
