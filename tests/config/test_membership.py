"""The attacks of a membership audit that names none."""

from __future__ import annotations

import numpy as np

from dpaudit.auditor.membership.halves import Trials, judged, strongest
from dpaudit.auditor.membership.rates import Curve
from dpaudit.config.membership import BATTERY
from dpaudit.record.result import Family

T, M, P = 64, 400, 100


def test_the_battery_finds_targets_whose_spreads_differ() -> None:
    """With one standard deviation for all, the attacks find less than a tenth."""
    rng = np.random.default_rng(3)
    spread, present = np.geomspace(0.1, 2, M), rng.random((T, M)) < 0.5
    fit = rng.normal(size=(T, M)) * spread + present
    trials = Trials(fit[:, :, None], rng.normal(size=(T, P, 1)), present)
    family = Family(confidence=0.95, size=1, alpha=0.05)
    found = {
        each.label: judged(trials, each.create("attack"), [0.02], family, 0.0) for each in BATTERY
    }
    best = found[strongest(found, "tpr 0.02")]
    assert Curve(best.scores, best.present).found(0.02).mean() > 0.4
