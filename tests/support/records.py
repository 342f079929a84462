"""A record made by hand: no audit is run here."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from dpaudit.auditor.measure import MetricKey
from dpaudit.config.gate import Gate, picked_by
from dpaudit.core.estimate import Estimate
from dpaudit.record.metrics import table as metrics_table
from dpaudit.record.result import (
    AuditResult,
    ClaimRecord,
    DataRecord,
    Family,
    GateRecord,
    JudgedNumber,
    Measurement,
    ModelRecord,
    PairRecord,
    PointRecord,
    Timing,
)
from dpaudit.record.values import Control
from dpaudit.record.verdicts import decided, verdicts

Make = Callable[..., AuditResult]
EVIL = "</script><img src=x onerror=alert(1)>"


def estimate(value: float, lower: float, upper: float, **changes: Any) -> Estimate:
    fields: dict[str, Any] = {
        "value": value,
        "lower": lower,
        "upper": upper,
        "confidence": 0.95,
        "alpha": 0.005,
        "n": 4000,
        "method": "clopper-pearson",
    }
    return Estimate(**{**fields, **changes})


def accuracy(value: float, lower: float, upper: float) -> Measurement:
    """What one attack recovers of the model `published` at ε = 1."""
    return Measurement(
        metric="attack.accuracy",
        attack="a",
        model="published",
        epsilon=1.0,
        estimate=estimate(value, lower, upper),
    )


def claim(epsilon: float) -> ClaimRecord:
    return ClaimRecord(
        epsilon=epsilon,
        delta=0.0,
        adjacency="rating-add-remove",
        observer="values",
        public="who has ratings",
        source="Theorem 3.1",
    )


def control(epsilon: float) -> Control:
    """What was found of the last mutant that was tried."""
    factor = 1.25 if epsilon < 10 else 4.0
    return Control(
        mutant=f"noise for ε = {factor * epsilon:g}",
        factor=factor,
        epsilon=factor * epsilon,
        certified=1.1 * epsilon if epsilon < 10 else 8.2,
        found=epsilon < 10,
    )


def measurements(
    model: str, epsilon: float, attacks: list[str], *, game: bool, rated: bool
) -> list[Measurement]:
    """The higher ε, the more leaks and the less is lost."""
    share = 1.0 if epsilon == math.inf else epsilon / (epsilon + 1)
    here: dict[str, Any] = {"model": model, "epsilon": epsilon}
    found = [
        Measurement(
            metric="attack.accuracy",
            attack=attack,
            estimate=estimate(
                round(share * scale, 9),
                round(share * scale * 0.9, 9),
                min(1.0, round(share * scale + 0.02, 9)),
            ),
            **here,
        )
        for attack, scale in zip(attacks, (0.8, 0.4, 0.2), strict=False)
    ]
    method = {"method": "empirical-bernstein"}
    kept = estimate(share, round(share * 0.98, 9), 1.0, **method)
    found.append(Measurement(metric="utility.overlap", estimate=kept, **here))
    if rated:
        error = estimate(1.2345, 1.1, 1.4, **method)
        found.append(Measurement(metric="utility.rmse", estimate=error, **here))
    if game:
        bound = estimate(3.5, 2.7183, math.inf, method="held-out clopper-pearson")
        found.append(
            Measurement(
                metric="epsilon",
                attack="likelihood-ratio",
                pair="support-threshold",
                estimate=bound,
                control=control(epsilon),
                event="score > 0.5, likelier in D' than in D",
                shift=4.0,
                **here,
            )
        )
    return found


def judged(result: AuditResult) -> AuditResult:
    """The record with the verdicts of its measurements, and the outcome of these and its gates."""
    alone = result.model_copy(update={"findings": [], "waivers": []})
    alone = alone.model_copy(update={"verdicts": verdicts(alone)})
    return result.model_copy(update={"verdicts": alone.verdicts, "outcome": decided(alone)})


def measured(
    metric: str, model: str, epsilon: float, estimate: Estimate, **fields: Any
) -> Measurement:
    """A measurement of a metric; `detail` goes to the field that the metric names for it."""
    return MetricKey(metric, model, epsilon).measured(estimate, **fields)


def stating(result: AuditResult, **card: Any) -> AuditResult:
    """Return the record with the owner's statements."""
    return result.model_copy(update={"config": {**result.config, "card": card}})


def numbers_of(result: AuditResult, table: dict[str, Any], outcome: Any) -> Any:
    """What a gate of this table judges, all with one outcome, the largest value first."""
    if table["metric"] not in metrics_table():
        return ()
    gate = Gate.model_validate(table)
    sign = 1 if gate.min is None else -1
    picked = picked_by(gate, result.measurements, result.points)
    return tuple(
        JudgedNumber(model=one.model, epsilon=one.epsilon, place=one.place, outcome=outcome)
        for one in sorted(picked, key=lambda one: -sign * one.estimate.value)
    )


def make_result(
    label: str = "published",
    attack: str = "one prediction",
    rule: str = "epsilon <= claim",
    *,
    epsilons: tuple[float, ...] = (0.1, 1.0, 10.0),
    attacks: bool = True,
    game: bool = True,
    gate: bool = True,
    rated: bool = True,
    outcome: Any = "fail",
) -> AuditResult:
    labels = [attack, "second"] if attacks else []
    made = AuditResult(
        tool="0.1.0",
        kind="on_demand",
        environment={"python": "3.11.7", "numpy": "2.4.6"},
        config={
            "seed": 7,
            "data": {"format": "synthetic", "path": None},
            "model": [{"label": label, "defense": "slope-one", "epsilon": list(epsilons)}],
            "game": [],
            "gate": [{"metric": "epsilon"}] if gate else [],
        },
        data=DataRecord(
            digest="b4adf500",
            users=600,
            items=300,
            ratings=26318,
            scale=(1.0, 5.0, 1.0),
            trained=480,
            attacked=120,
            per_user=(40, 78),
        ),
        family=Family(confidence=0.95, size=10, alpha=0.005),
        models=[
            ModelRecord(
                label=label,
                defense="slope-one",
                title="Slope One",
                variant="published",
                source="Park & Acharya 2011",
                params={"top_k": 20},
                top_k=20,
            )
        ],
        attacks={name: {"name": "linear-ideal", "title": "Linear"} for name in labels},
        pairs=[PairRecord(model=label, pair="support-threshold", summary="ten users agree")]
        if game
        else [],
        points=[
            PointRecord(
                model=label,
                epsilon=epsilon,
                sensitivity=0.4,
                noise_scale=0.4 / epsilon,
                claim=claim(epsilon) if epsilon < math.inf else None,
            )
            for epsilon in epsilons
        ],
        measurements=[
            found
            for epsilon in epsilons
            for found in measurements(label, epsilon, labels, game=game, rated=rated)
        ],
        gates=[GateRecord(id="gate/epsilon/max", rule=rule, outcome=outcome, reason="above 1")]
        if gate
        else [],
        fail_on_false_claim=False,
        timing=Timing(started="2026-01-01T00:00:00+00:00", seconds=3.4),
    )
    return judged(made)


@pytest.fixture
def make() -> Callable[..., AuditResult]:
    return make_result


@pytest.fixture
def result() -> AuditResult:
    return make_result()


def make_lists(
    *, epsilons: tuple[float, ...] = (0.1, 1.0, 100.0), zero: bool = False
) -> AuditResult:
    """A record of lists drawn by a published chain and by a corrected law."""
    base = make_result(epsilons=epsilons, attacks=False, rated=False)
    labels = ["chain", "joint"]
    found = []
    for label in labels:
        for measured in base.measurements:
            changes: dict[str, Any] = {"model": label}
            if measured.metric == "epsilon":
                truth = math.inf if label == "chain" else 0.9 * measured.epsilon
                theory = Estimate.exact(truth, "law of the list")
                changes |= {"pair": "last-ranked", "shift": None, "theory": theory}
            found.append(measured.model_copy(update=changes))
    for epsilon in epsilons:
        for states, size in (("explored states, at most 10", 1.0), ("all states", 4.0)):
            for step in (0, 10, 1000):
                value = 0.0 if zero else size / (1 + step)
                found.append(
                    Measurement(
                        metric="chain.divergence",
                        model="chain",
                        epsilon=epsilon,
                        estimate=Estimate.exact(value, "law of the chain, mean of 9 users"),
                        step=step,
                        states=states,
                    )
                )
    model = base.models[0].model_copy(update={"defense": "top-k", "top_k": 10})
    points = [
        point.model_copy(update={"sensitivity": None, "noise_scale": None}) for point in base.points
    ]
    made = base.model_copy(
        update={
            "models": [model.model_copy(update={"label": label}) for label in labels],
            "pairs": [
                pair.model_copy(update={"model": label, "pair": "last-ranked"})
                for label in labels
                for pair in base.pairs
            ],
            "points": [
                point.model_copy(update={"model": label}) for label in labels for point in points
            ],
            "measurements": found,
        }
    )
    return judged(made)


@pytest.fixture
def lists() -> AuditResult:
    return make_lists()


HARD: dict[str, dict[str, Any]] = {
    "one point": {"epsilons": (1.0,)},
    "only without noise": {"epsilons": (math.inf,), "game": False},
    "also without noise": {"epsilons": (0.1, 1.0, math.inf)},
    "no attacks": {"attacks": False},
    "no games": {"game": False},
    "no gates": {"gate": False},
    "purchases": {"rated": False},
    "bare": {"attacks": False, "game": False, "gate": False, "rated": False},
    "many": {"epsilons": tuple(10 ** (k / 2 - 3) for k in range(14))},
    "long labels": {"label": "m" * 120, "attack": "an attack " * 12},
}


HARD_LISTS: dict[str, dict[str, Any]] = {
    "lists": {},
    "lists at one ε": {"epsilons": (1.0,)},
    "no divergence": {"zero": True},
}


@pytest.fixture(params=[*HARD, *HARD_LISTS])
def hard(request: pytest.FixtureRequest) -> AuditResult:
    """Records that leave something out, or have more of it than usual."""
    if request.param in HARD_LISTS:
        return make_lists(**HARD_LISTS[request.param])
    return make_result(**HARD[request.param])


def is_valid(spec: dict[str, Any]) -> bool:
    """Whether the schema of Vega-Lite allows the chart."""
    import altair
    from jsonschema import ValidationError  # type: ignore[import-untyped]

    try:
        altair.LayerChart.validate(spec)
    except ValidationError:
        return False
    return True


@pytest.fixture
def valid() -> Callable[[dict[str, Any]], bool]:
    return is_valid
