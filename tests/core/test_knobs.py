"""Ranges: what is drawn lies in them, and reads well."""

from __future__ import annotations

import numpy as np

from dpaudit.core.knobs import Knob


def test_whole_ranges_have_both_ends() -> None:
    rng = np.random.default_rng(0)
    drawn = {Knob(4, 7).drawn(rng) for _ in range(200)}
    assert drawn == {4, 5, 6, 7}


def test_on_a_logarithmic_range_small_values_are_as_frequent_as_large_ones() -> None:
    rng = np.random.default_rng(0)
    drawn = np.array([Knob(0.01, 100.0, log=True).drawn(rng) for _ in range(2000)])
    assert 0.01 <= drawn.min() < 0.02
    assert 50 < drawn.max() <= 100
    assert abs(float((drawn < 1).mean()) - 0.5) < 0.05
    assert all(len(f"{value:g}") <= 6 for value in drawn)
