"""The parts that the charts share: axes, colours, shapes, tooltips and selections."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import Any

from dpaudit.reports.series import Datum

# Okabe and Ito's colours, which colour-blind readers can distinguish; vermilion marks a broken
# claim only.
_PALETTE = ["#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"]
BROKEN = "#D55E00"
_HEIGHT = 320


@dataclass(frozen=True)
class Chart:
    """A chart with its heading and caption.

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
    """Colours, shapes and dashes, so that a model or attack looks the same in every chart.

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
    """Return a chart of the data set of this name, which `spec` adds."""
    import altair as alt

    return alt.Chart(alt.NamedData(name))


def spec(layers: list[Any], description: str, **data: list[Datum]) -> dict[str, Any]:
    """Join layers into one specification as wide as its container, with their data by name."""
    import altair as alt

    # One call sets everything, as each `properties` or `configure` copies the whole chart.
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
    # Only the tests validate against the schema: it takes as long as all the rest.
    spec: dict[str, Any] = chart.to_dict(validate=False)
    spec["datasets"] = data
    # Vega supports a layout of several legends, but Altair's check against Vega-Lite's schema
    # refuses it.
    spec["config"]["legend"]["layout"] = {"bottom": {"anchor": "start", "direction": "vertical"}}
    return spec


def span(values: list[float]) -> tuple[float, float]:
    """Return the ends of an axis that covers these values."""
    return min(values) / 1.25, max(values) * 1.25


def log(low: float, high: float) -> Any:
    """Return a logarithmic scale between these ends."""
    import altair as alt

    return alt.Scale(type="log", domain=[low, high], nice=False)


def decades(low: float, high: float) -> tuple[Any, Any]:
    """Return a logarithmic scale and its axis, with ticks at powers of ten, or finer."""
    import altair as alt

    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1,) if len(powers) > 3 else (1, 2, 5)
    values = [float(f"{step}e{power}") for power in powers for step in steps]
    return log(low, high), alt.Axis(values=values, format="~g", labelOverlap="greedy")


def ticks(data: list[Datum], field: str) -> Any:
    """Return an axis with a tick at every value of the field, as far as labels fit."""
    import altair as alt

    values = sorted({datum[field] for datum in data})
    return alt.Axis(values=values, format="~g", labelOverlap="greedy")


def tips(**fields: str) -> list[Any]:
    """Return tooltip lines for fields and their titles."""
    import altair as alt

    return [alt.Tooltip(f"{field}:N", title=title) for field, title in fields.items()]


def pick(field: str) -> Any:
    """Return the selection of series by a click on the legend."""
    import altair as alt

    return alt.selection_point(name=f"pick_{field}", fields=[field], bind="legend")


def picked(*fields: str) -> Any:
    """Return the opacity that fades series if another one is selected in the legend."""
    import altair as alt

    picks = reduce(and_, [pick(field) for field in fields])
    return alt.OpacityValue(**alt.condition(picks, alt.value(1), alt.value(0.15)))
