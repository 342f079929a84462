"""The likelihood-ratio attack with priors, against scipy's densities and with few trainings."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import norm, t

from dpaudit.attacks.base import Signals
from dpaudit.attacks.membership.inference import ConjugateLira, Lira

Numbers = NDArray[np.float64]
Mask = NDArray[np.bool_]


def signals(features: Numbers) -> Signals:
    return Signals(features, features.sum(2), np.zeros((len(features), 0)))


def trainings(
    count: int, targets: int, rng: np.random.Generator, gap: float
) -> tuple[Signals, Mask]:
    """Targets with levels of their own, far apart, and a gap between presence and absence."""
    present = rng.random((count, targets)) < 0.5
    level = np.linspace(-10, 10, targets)
    return signals((level + gap * present + rng.normal(size=present.shape))[:, :, None]), present


def area(scores: Numbers, present: Mask) -> float:
    order = scores.reshape(-1).argsort().argsort()
    inside = present.reshape(-1)
    ranks = order[inside].sum() - inside.sum() * (inside.sum() - 1) / 2
    return float(ranks / (inside.sum() * (~inside).sum()))


def test_it_is_the_log_ratio_of_student_densities() -> None:
    rng = np.random.default_rng(0)
    present = np.array([[True], [True], [False]])
    own, seen = np.array([1.0, 2.0, 0.0]), rng.normal(size=4)
    scores = ConjugateLira().score(
        signals(seen[:, None, None]), signals(own[:, None, None]), present
    )
    gap = 1.5
    levels = own - gap * (present[:, 0] - 0.5)
    within = ((levels - levels.mean()) ** 2).sum() / 2
    logs = {}
    for flag, side in ((True, gap / 2), (False, -gap / 2)):
        x = own[present[:, 0] == flag]
        # One target: its prior level is the mean of its own levels.
        mean = (2 * (levels.mean() + side) + x.sum()) / (2 + len(x))
        freedom = 4 + len(x)
        variance = (4 * within + ((x - mean) ** 2).sum()) / freedom * (1 + 1 / (2 + len(x)))
        logs[flag] = t.logpdf(seen, freedom, mean, np.sqrt(variance))
    assert scores[:, 0] == pytest.approx(logs[True] - logs[False])


def test_one_training_compares_each_target_with_itself() -> None:
    rng = np.random.default_rng(1)
    reference, coins = trainings(1, 400, rng, gap=2.0)
    seen, present = trainings(20, 400, rng, gap=2.0)
    # The levels are 20 apart: without them the gap of 2 is hardly seen.
    assert area(seen.fit, present) < 0.65
    assert area(ConjugateLira().score(seen, reference, coins), present) > 0.75
    assert area(ConjugateLira().score(seen, reference, coins), present) > 0.05 + area(
        Lira().score(seen, reference, coins), present
    )


def test_many_trainings_reach_the_ratio_of_the_true_laws() -> None:
    rng = np.random.default_rng(2)
    reference, coins = trainings(400, 20, rng, gap=2.0)
    seen, present = trainings(200, 20, rng, gap=2.0)
    level = np.linspace(-10, 10, 20)
    ideal = norm.logpdf(seen.fit, level + 2) - norm.logpdf(seen.fit, level)
    reached = area(ConjugateLira().score(seen, reference, coins), present)
    assert reached == pytest.approx(area(ideal, present), abs=0.005)


@pytest.mark.cases("value", [0.0, 1e9, 0.1])
def test_what_never_changes_scores_all_alike(value: float) -> None:
    constant = signals(np.full((3, 5, 1), value))
    present = np.array([[True] * 5, [False] * 5, [True, False, True, False, True]])
    scores = ConjugateLira().score(constant, constant, present)
    assert np.isfinite(scores).all()
    # Targets that were present as often are alike.
    assert scores[:, 0] == pytest.approx(scores[:, 2])


def test_a_feature_that_is_the_coin_decides() -> None:
    rng = np.random.default_rng(4)
    coins, present = rng.random((2, 30)) < 0.5, rng.random((5, 30)) < 0.5
    seen, reference = (
        signals(2 * flags[:, :, None].astype(np.float64) - 1) for flags in (present, coins)
    )
    assert area(ConjugateLira().score(seen, reference, coins), present) == 1


@pytest.mark.parametrize("flag", [True, False])
def test_coins_that_all_fell_alike_give_finite_scores(flag: bool) -> None:
    rng = np.random.default_rng(3)
    reference, coins = trainings(2, 10, rng, gap=1.0)
    scores = ConjugateLira().score(reference, reference, np.full_like(coins, flag))
    assert np.isfinite(scores).all()
