"""Forecasts of what decides a gate: the least numbers of trainings that do it by the same rules."""

from __future__ import annotations

import numpy as np
import pytest

from dpaudit.auditor.trainings import joint_mean
from dpaudit.audits.membership.calibration import coins_needed
from dpaudit.audits.membership.trainings import JudgedTrainings
from dpaudit.bounds.frequentist.one_run import one_run_epsilon, one_run_scores_epsilon
from dpaudit.bounds.gdp import gaussian_mu
from dpaudit.config.gate import Gate
from dpaudit.record.result import Family, Measurement
from dpaudit.record.values import Census, Control, Noise

FAMILY = Family.of(0.95, 1)


def number(values: list[float], width: float = 0.0, metric: str = "attack.auc") -> Measurement:
    numbers = np.array(values)
    census = Census(
        values=tuple(values),
        lower=tuple((numbers - width).tolist()),
        upper=tuple((numbers + width).tolist()),
        alpha=0.0,
    )
    return Measurement(
        metric=metric, model="m", epsilon=np.inf, estimate=census.estimate, attack="strongest",
        observer="scores", unit="interaction", census=census,
    )  # fmt: skip


def times(gate: Gate, one: Measurement, limit: float | None = 0.55) -> float | None:
    coming = JudgedTrainings.of([(gate, [one])], 0.05, judged=8)
    needed = coming.needed(gate, one, limit, FAMILY)
    return needed and needed.times


def gate(**fields: object) -> Gate:
    return Gate.model_validate({"metric": "attack.auc", "max": 0.55, **fields})


def test_the_next_training_takes_nineteen_that_keep_the_limit() -> None:
    assert times(gate(), number([0.5] * 8)) == pytest.approx(19 / 8)
    assert times(gate(), number([0.5] * 7 + [0.6])) == pytest.approx(39 / 8)


def test_a_share_that_exceeds_is_certified_by_more_and_targets_alone_are_not() -> None:
    quarter = number([0.5, 0.5, 0.5, 0.6] * 3)
    assert times(gate(), quarter) in {2, 4}
    assert times(gate(), number([0.5, 0.6] * 6, width=0.2)) is None


def test_a_mean_is_decided_by_as_many_as_its_interval_takes() -> None:
    values, average = [0.5, 0.51, 0.49, 0.5], gate(of="average")
    needed = times(average, number(values))
    assert needed is not None
    for multiple, decided in ((needed, True), (needed / 2, False)):
        estimate = joint_mean(np.array(values * int(multiple)), FAMILY)
        assert (estimate.upper <= 0.55 and 1 - estimate.lower <= 0.55) == decided
    assert times(average, number([0.55] * 4)) is None


def test_trainings_at_hand_are_not_decided_by_others() -> None:
    assert times(gate(of="this-model"), number([0.5] * 4)) is None


@pytest.mark.cases("noise", ["Gaussian", "Laplace"])
def test_a_bound_takes_the_coins_that_find_the_planted_leak(noise: Noise) -> None:
    """By the law of the leak: of Gaussian noise as many more as its best guesses are rare."""
    bound = Gate.model_validate({"metric": "epsilon", "max": 1.0, "detectable": 2})
    control = Control(
        mutant="m", factor=2.0, epsilon=2.0, certified=0.5, found=False, noise=noise,
        delta=1e-5 * (noise == "Gaussian"),
    )  # fmt: skip
    estimate = one_run_epsilon(40, 40, 20, alpha=0.05)
    one = Measurement(
        metric="epsilon", model="m", epsilon=np.inf, estimate=estimate, attack="strongest",
        observer="scores", unit="interaction", pair="interaction (scores)", control=control,
    )  # fmt: skip
    needed = times(bound, one, 1.0)
    assert needed == coins_needed(1.0, 2.0, noise, control.delta, 0.05) / 40  # type: ignore[operator]
    assert times(bound, one, None) is None
    assert times(bound, one.model_copy(update={"control": None}), 1.0) is None


def test_gaussian_noise_takes_more_coins_than_the_easiest_leak_of_its_size() -> None:
    """Simulated, 95 of 100 runs find it, and not with a tenth of the coins."""
    coins = coins_needed(1.0, 3.0, "Gaussian", 1e-5, 0.05)
    assert coins is not None
    rng, mu = np.random.default_rng(0), gaussian_mu(3.0, 1e-5)

    def found(size: int) -> float:
        bounds = []
        for _ in range(40):
            present = rng.random(size) < 0.5
            scores = rng.standard_normal(size) + mu * present
            bounds.append(one_run_scores_epsilon(scores, present, delta=1e-5, alpha=0.05).lower)
        return float(np.mean(np.array(bounds) > 1))

    assert found(4 * coins) > 0.9
    assert found(coins // 10) < 0.5
    assert coins_needed(1.0, 1.01, "Gaussian", 1e-5, 0.05) is None


def test_totals_count_the_calibrating_trainings() -> None:
    chosen = gate()
    for calibrating, total in ((None, 23), (6, 25)):
        coming = JudgedTrainings.of([], 0.05, judged=8, calibrating=calibrating)
        assert coming.total(19 / 8) == total
    assert times(chosen, number([0.5] * 8).model_copy(update={"census": None})) is None


def test_more_trainings_are_no_remedy_where_another_model_has_few() -> None:
    one, ended = number([0.5] * 19), number([0.9] * 3)
    gates = [gate(where={"model": "m"}), gate(max=0.6)]
    coming = JudgedTrainings.of([(gates[0], [one]), (gates[1], [ended])], 0.05, judged=19)
    assert one.census
    assert coming.judge(gates[0], one, one.census)[0] == "inconclusive"
    assert coming.needed(gates[0], one, 0.55, FAMILY) is None
