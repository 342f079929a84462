from __future__ import annotations

from typing import Any

import pytest

from dpaudit.auditor.result import ClaimRecord, Measurement, PointRecord, worst
from dpaudit.bounds.estimate import Estimate
from dpaudit.bounds.power import detectable_epsilon
from dpaudit.config import Gate
from dpaudit.errors import ConfigError
from dpaudit.gate import judge

POINTS = [
    PointRecord(
        model="m",
        epsilon=epsilon,
        sensitivity=0.4,
        noise_scale=0.4 / epsilon,
        claim=ClaimRecord(
            epsilon=epsilon,
            delta=0,
            adjacency="rating-add-remove",
            observer="values",
            public="",
            source="",
        ),
    )
    for epsilon in (1.0, 2.0)
]


def found(lower: float, upper: float, epsilon: float = 1.0, **other: Any) -> Measurement:
    estimate = Estimate(
        value=(lower + upper) / 2 if upper < 2 else lower,
        lower=lower,
        upper=upper,
        confidence=0.95,
        alpha=0.05,
        n=other.pop("n", 1000),
        method="test",
        kind=other.pop("kind", "frequentist"),
    )
    metric = other.pop("metric", "attack.accuracy")
    return Measurement(metric=metric, model="m", epsilon=epsilon, estimate=estimate, **other)


@pytest.mark.parametrize(
    ("lower", "upper", "outcome"),
    [
        (0.36, 0.40, "fail"),
        (0.35, 0.40, "inconclusive"),
        (0.30, 0.36, "inconclusive"),
        (0.30, 0.35, "pass"),
    ],
)
def test_max_is_on_the_bounds(lower: float, upper: float, outcome: str) -> None:
    gate = Gate(metric="attack.accuracy", max=0.35)
    assert judge(gate, POINTS, [found(lower, upper)]).outcome == outcome


@pytest.mark.parametrize(
    ("lower", "upper", "outcome"),
    [
        (0.10, 0.34, "fail"),
        (0.34, 0.40, "inconclusive"),
        (0.30, 0.35, "inconclusive"),
        (0.35, 0.40, "pass"),
    ],
)
def test_min_is_on_the_bounds(lower: float, upper: float, outcome: str) -> None:
    gate = Gate(metric="utility.overlap", min=0.35)
    measured = [found(lower, upper, metric="utility.overlap")]
    assert judge(gate, POINTS, measured).outcome == outcome


def test_the_worst_point_decides_and_where_picks() -> None:
    measured = [found(0.1, 0.2, 1.0), found(0.5, 0.6, 2.0)]
    every = judge(Gate(metric="attack.accuracy", max=0.35), POINTS, measured)
    assert every.outcome == "fail"
    assert "ε = 2" in every.reason
    one = Gate(metric="attack.accuracy", max=0.35, where={"epsilon": 1.0})
    assert judge(one, POINTS, measured).outcome == "pass"


def test_only_frequentist_numbers_gate() -> None:
    gate = Gate(metric="attack.accuracy", max=0.35)
    assert judge(gate, POINTS, [found(0.1, 0.2, kind="credible")]).outcome == "inconclusive"


def test_epsilon_passes_only_with_power() -> None:
    gate = Gate(metric="epsilon", max="claim", detectable=1.5)

    def outcome(lower: float, n: int, epsilon: float = 1.0, shift: float = 1.0) -> str:
        power = detectable_epsilon(epsilon, n, 0.05)
        measured = found(
            lower, float("inf"), epsilon, metric="epsilon", n=n, detectable=power, shift=shift
        )
        return judge(gate, POINTS, [measured]).outcome

    assert outcome(1.01, 10_000) == "fail"
    assert outcome(0.9, 10_000) == "pass"
    assert outcome(0.9, 100) == "inconclusive"
    assert outcome(1.5, 10_000, epsilon=2.0) == "pass"
    assert outcome(2.1, 100, epsilon=2.0) == "fail"
    # Both data sets give the same prediction: finding nothing there means nothing.
    assert outcome(0.0, 10_000, shift=0.0) == "inconclusive"


def test_a_pair_passes_only_for_what_it_can_show() -> None:
    """A shift of a sixth of Δf shows a sixth of the mechanism's ε: a false claim may hide there."""
    gate = Gate(metric="epsilon", max="claim", detectable=1.5)

    def outcome(*shifts: float) -> str:
        measured = [
            found(0.1, float("inf"), metric="epsilon", n=10_000, shift=shift, pair=f"{shift}")
            for shift in shifts
        ]
        return judge(gate, POINTS, measured).outcome

    assert outcome(0.4) == "pass"
    assert outcome(0.4 / 6) == "inconclusive"
    # One pair with enough power is enough; a further one that shows little takes nothing away.
    assert outcome(0.4, 0.4 / 6) == "pass"


def test_an_epsilon_above_the_limit_by_law_is_no_pass() -> None:
    """What the law says of a pair is not certified: it accuses nobody, and vouches for nobody."""
    gate = Gate(metric="epsilon", max="claim", detectable=1.5)

    def outcome(*pairs: tuple[float, float]) -> str:
        measured = [
            found(
                lower,
                float("inf"),
                metric="epsilon",
                n=10_000,
                shift=0.4,
                pair=f"{i}",
                theory=Estimate.exact(law, "law"),
            )
            for i, (lower, law) in enumerate(pairs)
        ]
        return judge(gate, POINTS, measured).outcome

    assert outcome((0.9, 1.0)) == outcome((0.9, 1.0 + 1e-9)) == "pass"
    assert outcome((0.9, 1.1)) == "inconclusive"
    assert outcome((0.9, 1.1), (0.9, 1.0)) == "inconclusive"
    assert outcome((0.9, 1.1), (1.05, 1.0)) == "fail"


def test_normal_noise_has_its_own_words() -> None:
    gate = Gate(metric="epsilon", max="claim", detectable=1.5)

    def reason(**other: Any) -> str:
        return judge(gate, POINTS, [found(0.1, float("inf"), metric="epsilon", **other)]).reason

    assert "violation like Laplace noise" in reason(detectable=9.0)
    assert ": certified ε >= 0.1, but only noise too small for 9 would" in reason(
        detectable=9.0, observer="recommender"
    )
    assert "nothing would have been found on this pair" in reason(detectable=float("inf"))


def test_a_gate_that_picks_nothing_is_an_error() -> None:
    gate = Gate(metric="attack.accuracy", max=0.5, where={"model": "typo"})
    with pytest.raises(ConfigError, match="picks no measured point"):
        judge(gate, POINTS, [found(0.1, 0.2)])


def test_a_number_as_the_threshold_of_epsilon_has_its_own_power() -> None:
    measured = [found(0.9, float("inf"), metric="epsilon", n=10_000, detectable=9.0, shift=1.0)]
    for limit, outcome in ((3.0, "pass"), (0.5, "fail")):
        gate = Gate(metric="epsilon", max=limit, detectable=1.5)
        assert judge(gate, POINTS, measured).outcome == outcome


def test_nothing_claimed_is_inconclusive() -> None:
    gate = Gate(metric="epsilon", max="claim", detectable=1.5)
    silent = [POINTS[0].model_copy(update={"claim": None})]
    measured = [found(0.9, float("inf"), metric="epsilon", shift=1.0)]
    assert judge(gate, silent, measured).outcome == "inconclusive"


def test_fail_outranks_inconclusive_outranks_pass() -> None:
    assert worst(["pass", "inconclusive", "fail"]) == "fail"
    assert worst(["pass", "inconclusive"]) == "inconclusive"
    assert worst([]) == "pass"
