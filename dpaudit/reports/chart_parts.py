"""The parts that the charts share: axes, colours, tooltips, selections and their looks."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import Any

from dpaudit.reports.series import Datum

# Okabe & Ito's colours, which the colour-blind tell apart; vermilion is kept for a broken claim.
_PALETTE = ["#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"]
BROKEN = "#D55E00"
_HEIGHT = 320


@dataclass(frozen=True)
class Chart:
    """A chart and what stands beside it.

    Attributes:
        name: its id in the page.
        title: its heading.
        caption: how to read it.
        spec: the Vega-Lite specification.
    """

    name: str
    title: str
    caption: str
    spec: dict[str, Any]


@dataclass(frozen=True)
class Look:
    """Colours, shapes and dashes: the same model and attack look the same in every chart.

    Attributes:
        models: the labels of all models.
        attacks: the labels of all attacks.
    """

    models: list[str]
    attacks: list[str]

    def color(self) -> Any:
        """Colour by model."""
        import altair as alt

        scale = alt.Scale(domain=self.models, range=_PALETTE)
        return alt.Color("model:N", title="model", scale=scale)

    def stroke(self) -> Any:
        """The outline's colour by model."""
        import altair as alt

        scale = alt.Scale(domain=self.models, range=_PALETTE)
        return alt.Stroke("model:N", title="model", scale=scale)

    def shape(self) -> Any:
        """Shape by model."""
        import altair as alt

        return alt.Shape("model:N", title="model", scale=alt.Scale(domain=self.models))

    def dash(self) -> Any:
        """Dashes by attack."""
        import altair as alt

        return alt.StrokeDash("attack:N", title="attack", scale=alt.Scale(domain=self.attacks))


def drawn_from(name: str) -> Any:
    """A chart of one of the data sets that `spec` is given."""
    import altair as alt

    return alt.Chart(alt.NamedData(name))


def spec(layers: list[Any], description: str, **data: list[Datum]) -> dict[str, Any]:
    """Layers as one specification as wide as its place in the page, with their data by name."""
    import altair as alt

    # Each `properties` or `configure` would copy the whole chart: one call says it all.
    chart = alt.layer(
        *layers,
        width="container",
        height=_HEIGHT,
        background="white",
        description=description,
        config=alt.Config(
            font="system-ui, sans-serif",
            padding=8,
            axis=alt.AxisConfig(labelFontSize=12, titleFontSize=13, gridColor="#e4e4e4"),
            legend=alt.LegendConfig(
                orient="bottom",
                direction="vertical",
                labelFontSize=12,
                titleFontSize=12,
                labelLimit=300,
                symbolOpacity=1,
                symbolStrokeWidth=2,
            ),
        ),
    )
    # Checked against the schema in the tests: that takes as long as all else.
    spec: dict[str, Any] = chart.to_dict(validate=False)
    spec["datasets"] = data
    # Vega knows where to put several legends; Vega-Lite's schema, which Altair checks, does not.
    spec["config"]["legend"]["layout"] = {"bottom": {"anchor": "start", "direction": "vertical"}}
    return spec


def span(values: list[float]) -> tuple[float, float]:
    """The ends of an axis around these values."""
    return min(values) / 1.25, max(values) * 1.25


def log(low: float, high: float) -> Any:
    """A logarithmic scale between these ends."""
    import altair as alt

    return alt.Scale(type="log", domain=[low, high], nice=False)


def decades(low: float, high: float) -> tuple[Any, Any]:
    """A logarithmic scale over these values and its axis: ticks at powers of ten, or more."""
    import altair as alt

    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1,) if len(powers) > 3 else (1, 2, 5)
    values = [float(f"{step}e{power}") for power in powers for step in steps]
    return log(low, high), alt.Axis(values=values, format="~g", labelOverlap="greedy")


def ticks(data: list[Datum], field: str) -> Any:
    """A tick at every audited ε, as far as there is room."""
    import altair as alt

    values = sorted({datum[field] for datum in data})
    return alt.Axis(values=values, format="~g", labelOverlap="greedy")


def tips(**fields: str) -> list[Any]:
    """Tooltip lines: fields with their names."""
    import altair as alt

    return [alt.Tooltip(f"{field}:N", title=title) for field, title in fields.items()]


def pick(field: str) -> Any:
    """Picks out series by a click on the legend."""
    import altair as alt

    return alt.selection_point(name=f"pick_{field}", fields=[field], bind="legend")


def picked(*fields: str) -> Any:
    """Pale where the legend picks another series."""
    import altair as alt

    picks = reduce(and_, [pick(field) for field in fields])
    return alt.OpacityValue(**alt.condition(picks, alt.value(1), alt.value(0.15)))
