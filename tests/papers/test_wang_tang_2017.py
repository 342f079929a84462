"""A statement of Wang & Tang 2017 that holds by algebra: no instance contradicts it."""

from __future__ import annotations

import pytest
from inclusion import INCLUSION  # type: ignore[import-not-found]

from dpaudit.claims.wang_tang_2017.data import meanings


def test_the_prior_s_term_with_the_indicator_keeps_its_mean() -> None:
    """wt17-eq9: with the true H the mean is λS, whatever “the pair is drawn” means."""
    for name, share in meanings().items():
        assert share / INCLUSION[name] == pytest.approx(1.0, abs=1e-5)
