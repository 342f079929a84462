"""The leak: the maximum of joint intervals, the games that have one, and gates on it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from dpaudit.auditor.distinguishing import contradictions, leaks
from dpaudit.auditor.plan import Plan
from dpaudit.auditor.run import run_audit
from dpaudit.bounds.frequentist.roc import best_advantage
from dpaudit.config.schema import Config
from dpaudit.core.estimate import Estimate
from dpaudit.record.result import AuditResult, Measurement
from dpaudit.record.storage import contradiction
from dpaudit.record.values import Census

GATE = {"metric": "leak", "max": 0.5}
DATA = {"synthetic": {"n_users": 30, "n_items": 20, "mean_per_user": 10, "minimum_per_user": 5}}
ON_DEMAND: dict[str, Any] = {
    "seed": 2,
    "data": DATA,
    "audit": {"trials": 20},
    "model": [{"epsilon": [0.05, 50], "params": {"top_k": 3, "min_ratings": 5}}],
    "game": [{"trials": 600}, {"observe": "list", "trials": 600}],
    "gate": [GATE],
}
TRAINED: dict[str, Any] = {
    "seed": 2,
    "data": DATA,
    "train": {"folds": 2, "trials": 1},
    "model": [
        {"defense": "dpsgd-mf", "epsilon": [0.1, 140], "params": {"dimensions": 2, "epochs": 2}}
    ],
    "game": [{"pair": "data", "trials": 400}, {"pair": "many", "trials": 60, "candidates": 10}],
    "gate": [GATE],
}


def interval(lower: float, value: float, upper: float, **changes: Any) -> Estimate:
    return Estimate(
        **{
            "value": value, "lower": lower, "upper": upper, "confidence": 0.95, "alpha": 0.01,
            "n": 100, "method": "test", **changes,
        }
    )  # fmt: skip


def advantage(estimate: Estimate, pair: str = "here", epsilon: float = 1.0) -> Measurement:
    return Measurement(
        metric="attack.advantage",
        model="m",
        epsilon=epsilon,
        attack="a",
        pair=pair,
        estimate=estimate,
    )


def of(record: AuditResult, metric: str) -> dict[tuple[Any, ...], Measurement]:
    return {
        (
            measurement.model,
            measurement.epsilon,
            measurement.pair if metric != "leak" else None,
        ): measurement
        for measurement in record.measurements
        if measurement.metric == metric
    }


def test_an_attack_that_is_always_wrong_leaks_by_its_reverse() -> None:
    [leak] = leaks([advantage(interval(-1.0, -0.9, -0.8)), advantage(interval(-0.1, 0.0, 0.1))])
    assert (leak.estimate.lower, leak.estimate.value, leak.estimate.upper) == (0.8, 0.9, 1.0)
    assert leak.pair == "here"


def test_the_leak_is_the_largest_of_each_end() -> None:
    parts = [
        advantage(interval(0.2, 0.3, 0.4), "near"),
        advantage(interval(-0.1, 0.35, 0.9, n=40), "wide"),
        advantage(interval(0.1, 0.1, 0.1), epsilon=2.0),
    ]
    one, two = leaks(parts)
    assert (one.metric, one.model, one.epsilon) == ("leak", "m", 1.0)
    # It names the pair of the largest lower end.
    assert (one.pair, one.attack) == ("near", "a")
    assert (one.estimate.lower, one.estimate.value, one.estimate.upper) == (0.2, 0.35, 0.9)
    assert (one.estimate.n, one.estimate.alpha, one.estimate.kind) == (40, 0.01, "frequentist")
    assert one.estimate.method == "largest of 2 joint intervals"
    assert (two.epsilon, two.estimate) == (2.0, interval(0.1, 0.1, 0.1))


def test_an_attacker_may_keep_silent() -> None:
    (leak,) = leaks([advantage(interval(-0.1, 0.0, 0.2))])
    assert (leak.estimate.lower, leak.estimate.value, leak.estimate.upper) == (0, 0, 0.2)


def test_what_assumes_a_law_or_is_no_advantage_does_not_count() -> None:
    alone = advantage(interval(0.5, 0.6, 0.7, kind="assumes-law"))
    other = alone.model_copy(update={"metric": "attack.auc"})
    assert not list(leaks([alone, other]))
    (leak,) = leaks([alone, other, advantage(interval(0.1, 0.2, 0.3))])
    assert leak.estimate.upper == 0.3


@pytest.mark.long
def test_the_maximum_of_joint_intervals_is_covered() -> None:
    """Four games whose advantages are known, each at a quarter of the level: 3000 audits."""
    rng, runs, level, shifts = np.random.default_rng(6), 3000, 0.4, np.array([0.0, 0.2, 0.5, 0.5])
    truth = float(2 * stats.norm.cdf(shifts.max() / 2) - 1)
    missed = 0
    for _ in range(runs):
        games = [
            best_advantage(rng.normal(size=60), rng.normal(shift, 1, 60), alpha=level / 4)
            for shift in shifts
        ]
        (leak,) = leaks([advantage(game, f"{place}") for place, game in enumerate(games)])
        missed += not leak.estimate.lower <= truth <= leak.estimate.upper
    assert missed <= stats.binom.isf(1e-6, runs, level)


@pytest.fixture(scope="module", params=[ON_DEMAND, TRAINED], ids=["on demand", "trained"])
def audit(request: pytest.FixtureRequest) -> tuple[Config, AuditResult]:
    config = Config.model_validate(request.param)
    return config, run_audit(config)


def test_every_game_has_an_advantage_and_every_point_a_leak(
    audit: tuple[Config, AuditResult],
) -> None:
    _, record = audit
    assert contradiction(record) is None
    advantages, leak = of(record, "attack.advantage"), of(record, "leak")
    assert set(advantages) == set(of(record, "epsilon"))
    assert set(leak) == {(point.model, point.epsilon, None) for point in record.points}
    for (model, epsilon, _), largest in leak.items():
        here = [
            measurement.estimate
            for key, measurement in advantages.items()
            if key[:2] == (model, epsilon)
        ]
        assert largest.estimate.lower == max(0, *(estimate.lower for estimate in here))
        assert largest.estimate.upper == max(estimate.upper for estimate in here)
        assert largest.pair is not None
        assert advantages[model, epsilon, largest.pair].estimate.lower == largest.estimate.lower


def test_an_advantage_is_counted_and_a_leak_is_not(audit: tuple[Config, AuditResult]) -> None:
    config, record = audit
    keys = [key for key in Plan(config).keys if key.joint]
    leaking = [key for key in keys if key.metric == "leak"]
    assert leaking
    assert not any(key.counted for key in leaking)
    assert record.family.size == len(keys) - len(leaking)
    without = config.model_copy(update={"gate": []})
    assert not any(key.metric in {"leak", "attack.advantage"} for key in Plan(without).keys)
    games = len(of(record, "epsilon"))
    assert record.family.size - Plan(without).family.size == games
    for measurement in of(record, "attack.advantage").values():
        assert measurement.estimate.alpha == record.family.alpha


def test_the_gate_passes_where_little_is_told_and_fails_where_all_is(
    audit: tuple[Config, AuditResult],
) -> None:
    _, record = audit
    leak = [measurement.estimate for measurement in of(record, "leak").values()]
    assert min(estimate.upper for estimate in leak) < 0.5 < max(estimate.lower for estimate in leak)
    (gate,) = record.gates
    assert gate.outcome == "fail"
    assert "lies above 0.5" in gate.reason


@pytest.mark.long
def test_a_leak_below_the_limit_passes_for_the_attacks_that_were_run() -> None:
    gate = {**GATE, "where": {"epsilon": 0.1}}
    record = run_audit(Config.model_validate({**TRAINED, "gate": [gate]}))
    (judged,) = record.gates
    assert judged.outcome == "pass"
    assert "does not exceed 0.5 " in judged.reason


@pytest.mark.long
def test_coins_are_guessed_by_the_signs_of_their_scores() -> None:
    """With little noise most coins of each training are told; the sample are the trainings."""
    record = run_audit(Config.model_validate(TRAINED))
    estimate = of(record, "attack.advantage")["dpsgd-mf published", 140.0, "many"].estimate
    assert estimate.value > 0.8
    assert (estimate.n, estimate.method) == (60, "betting over trainings")
    assert 0.5 < estimate.lower < estimate.value <= estimate.upper


def other(metric: str, low: float, at: float | None = None) -> Measurement:
    return advantage(interval(low, min(1, low + 0.01), 1.0)).model_copy(
        update={"metric": metric, "at": at}
    )


@pytest.mark.cases(
    ("numbers", "contradicted"),
    [
        ([other("attack.tpr", 0.7, 0.01)], True),
        ([other("attack.tpr", 0.11, 0.01)], False),
        ([other("attack.auc", 0.98)], True),
        ([other("attack.auc", 0.59)], False),  # 1 − √(2 · 0.41) = .094
        ([other("attack.auc", 0.60)], True),  # .106
        ([other("attack.auc", 0.5), other("attack.tpr", 0.12, 0.01)], True),
    ],
)
def test_a_leak_below_what_rates_and_areas_imply_is_never_a_pass(
    numbers: list[Measurement], contradicted: bool
) -> None:
    parts = [advantage(interval(-0.1, 0.0, 0.1)), *numbers]
    leak = list(leaks(parts))
    findings = list(contradictions(leak, parts))
    assert [finding.opens(leak[0]) for finding in findings] == [True] * contradicted
    elsewhere = [part.model_copy(update={"epsilon": 2.0}) for part in numbers]
    assert not list(contradictions(leak, [parts[0], *elsewhere]))


def test_a_leak_is_compared_with_the_numbers_of_the_same_training() -> None:
    def seen(
        number: Measurement, lower: tuple[float, ...], upper: tuple[float, ...]
    ) -> Measurement:
        census = Census(values=lower, lower=lower, upper=upper, alpha=0.01)
        return number.model_copy(update={"census": census})

    small = seen(advantage(interval(0.0, 0.4, 0.9)), (0.0, 0.7), (0.1, 0.9))
    rates = interval(0.0, 0.4, 0.9), (0.05, 0.8), (0.2, 0.95)
    rate = seen(advantage(rates[0]), *rates[1:]).model_copy(
        update={"metric": "attack.tpr", "at": 0.01}
    )
    assert not list(contradictions(leaks([small]), [small, rate]))
    crossed = seen(rate, (0.8, 0.05), (0.95, 0.2))
    assert len(list(contradictions(leaks([small]), [small, crossed]))) == 1
