"""One threshold for all targets."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from dpaudit.attacks.base import Signals
from dpaudit.attacks.membership.inference import GlobalThreshold

Mask = NDArray[np.bool_]


def signals(shift: float, seed: int = 0) -> tuple[Signals, Signals, Mask, Mask]:
    rng = np.random.default_rng(seed)
    parts, coins = [], []
    for count in (50, 60):
        present = rng.random((count, 8)) < 0.5
        fit = rng.normal(size=(count, 8)) + shift * present
        parts.append(Signals(fit[:, :, None], fit, np.zeros((count, 0))))
        coins.append(present)
    return parts[0], parts[1], coins[0], coins[1]


@pytest.mark.parametrize("shift", [1.0, -1.0])
def test_the_order_is_that_of_the_fit_in_the_direction_of_presence(shift: float) -> None:
    seen, reference, coins, present = signals(shift)
    scores = GlobalThreshold().score(seen, reference, present)
    assert scores[coins].mean() > scores[~coins].mean()
    order = np.argsort(scores, axis=None)
    assert order.tolist() == np.argsort(shift * seen.fit, axis=None).tolist()


def test_one_threshold_holds_for_other_units_and_offsets_of_the_fit() -> None:
    seen, reference, _, present = signals(1.0)
    expected = GlobalThreshold().score(seen, reference, present)
    moved = [
        Signals(of.features * 1e6 - 40, of.fit * 1e6 - 40, of.population * 1e6 - 40)
        for of in (seen, reference)
    ]
    scores = GlobalThreshold().score(moved[0], moved[1], present)
    np.testing.assert_allclose(scores, expected, atol=1e-9)


@pytest.mark.parametrize("every", [False, True])
def test_without_both_classes_scores_are_finite(every: bool) -> None:
    seen, reference, _, present = signals(1.0)
    scores = GlobalThreshold().score(seen, reference, np.full_like(present, every))
    assert np.isfinite(scores).all()


@pytest.mark.cases("scale", [0.0, 1e-45, 1e38])
def test_extreme_fits_give_finite_scores(scale: float) -> None:
    seen, reference, _, present = signals(1.0)
    for of in (seen, reference):
        of.fit[:] *= scale
    assert np.isfinite(GlobalThreshold().score(seen, reference, present)).all()
