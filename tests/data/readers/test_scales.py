"""Scales of ratings that state none."""

from __future__ import annotations

import numpy as np

from dpaudit.data.readers.scales import possible_scale, usual_scale


def test_ratings_that_hardly_differ_have_no_usual_scale() -> None:
    for high in (float(np.nextafter(4.0, 5)), 4.0 + 1e-4):
        assert usual_scale(np.array([4.0, high])) is None
        scale = possible_scale(np.array([4.0, high]))
        assert scale is None or scale.maximum == high
