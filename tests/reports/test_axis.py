from __future__ import annotations

import pytest

from dpaudit.reports.axis import Axis


def test_places_on_linear_and_logarithmic_axes() -> None:
    assert Axis("", 1, 3).share(2) == 0.5
    assert Axis("", 0.01, 1, log=True).share(0.1) == pytest.approx(0.5)


def test_an_axis_covers_its_values_with_room() -> None:
    for axis in (Axis.over("", [1, 100]), Axis.around("", [1, 100])):
        assert axis.low < 1
        assert axis.high > 100
    alone = Axis.around("", [0.0])
    assert alone.low < 0 < alone.high


def test_ticks_are_powers_of_ten_or_finer() -> None:
    assert Axis.over("", [0.001, 1000]).ticks()["values"] == [10.0**power for power in range(-4, 5)]
    assert {1.0, 2.0, 5.0} <= set(Axis.over("", [1, 10]).ticks()["values"])
    assert Axis.over("", [1, 4], values=[1, 4]).ticks()["values"] == [1, 4]
