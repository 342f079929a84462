"""Errors of predictions, trial by trial and all at once."""

from __future__ import annotations

import numpy as np
import pytest

from dpaudit.auditor.trained.errors import mean_errors


@pytest.mark.parametrize("trials", [0, 1, 5])
@pytest.mark.parametrize("layout", ["C", "F", "broadcast"])
def test_errors_do_not_depend_on_how_many_trials_are_in_memory(trials: int, layout: str) -> None:
    source = np.random.default_rng(trials)
    values = source.integers(1, 6, 70_001).astype(np.float32)
    shown = source.normal(3, 1, (trials, len(values))).astype(np.float32)
    if layout == "F":
        shown = np.asfortranarray(shown)
    if layout == "broadcast":
        shown = np.broadcast_to(source.normal(3, 1, len(values)), shown.shape)
    away = shown.astype(np.float64) - values
    expected = np.stack([np.sqrt(np.mean(away**2, axis=1)), np.mean(abs(away), axis=1)], axis=1)
    np.testing.assert_array_equal(mean_errors(shown, values), expected)
