"""The quantitative axes of charts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

# No label is a long row of zeros.
_NUMBER = "format(datum.value, datum.value && abs(datum.value) < 0.001 ? '~e' : '~g')"


@dataclass(frozen=True)
class Axis:
    """A quantitative axis.

    Attributes:
        title: what it shows.
        low: its lower or left end.
        high: its other end.
        log: whether it is logarithmic.
        values: where it has ticks; by default Vega's, or powers of ten.
        units: whether large numbers are written with k and M.
        label: a Vega expression of the labels.
    """

    title: str
    low: float
    high: float
    log: bool = False
    values: Sequence[float] | None = None
    units: bool = False
    label: str | None = None

    @classmethod
    def over(cls, title: str, covered: Iterable[float], **changes: Any) -> Axis:
        """Return a logarithmic axis that covers these values."""
        points = list(covered)
        return cls(title, min(points) / 1.25, max(points) * 1.25, log=True, **changes)

    @classmethod
    def around(cls, title: str, values: Iterable[float]) -> Axis:
        """Return a linear axis that covers these values, with some room at either end."""
        numbers = list(values)
        room = (max(numbers) - min(numbers)) / 20 or abs(max(numbers)) / 20 or 1.0
        return cls(title, min(numbers) - room, max(numbers) + room)

    def share(self, value: float) -> float:
        """Return the place of a value on the axis, from 0 to 1 if it lies between the ends."""
        if not self.log:
            return (value - self.low) / (self.high - self.low)
        return math.log(value / self.low) / math.log(self.high / self.low)

    def scale(self) -> Any:
        """Return the scale."""
        from dpaudit.reports.vega import alt

        kind = {"type": "log"} if self.log else {"zero": False}
        return alt.Scale(domain=[self.low, self.high], nice=False, **kind)

    def ticks(self, **style: Any) -> Any:
        """Return ticks and labels."""
        from dpaudit.reports.vega import alt

        values = self.values or (self._powers() if self.log else None)
        how = {"format": "~s"} if self.units else {"labelExpr": self.label or _NUMBER}
        given = {"values": list(values)} if values else {"tickCount": 6}
        return alt.Axis(labelOverlap="greedy", **given, **how, **style)

    def x(self, of: str = "x") -> Any:
        """Encode a field as the horizontal place."""
        from dpaudit.reports.vega import alt

        return alt.X(f"{of}:Q", title=self.title, scale=self.scale(), axis=self.ticks())

    def y(self, of: str = "y") -> Any:
        """Encode a field as the vertical place."""
        from dpaudit.reports.vega import alt

        # The title stands above the axis, where no label is in its way.
        title = {"titleAngle": 0, "titleAlign": "left", "titleAnchor": "end", "titleX": 0,
                 "titleY": -14}  # fmt: skip
        return alt.Y(f"{of}:Q", title=self.title, scale=self.scale(), axis=self.ticks(**title))

    def _powers(self) -> list[float]:
        """Return the powers of ten, or finer steps, near the axis."""
        low, high = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        steps = (1,) if self.high > 100 * self.low else (1, 2, 5)
        return [float(f"{step}e{power}") for power in range(low, high + 1) for step in steps]
