"""Records of membership audits that are made by hand."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from dpaudit.audits.membership.controls import leak_of
from dpaudit.audits.membership.planting import FORMS
from dpaudit.config.gate import Gate
from dpaudit.core.estimate import Estimate
from dpaudit.record.result import STRONGEST, AuditResult, ClaimRecord, Measurement
from dpaudit.record.values import PlantedLeak
from tests.support.records import Make, judged

RATES = (0.01, 0.1)
SEEING = ("scores", "own-list")
GAMES = [("interaction", "scores"), ("interaction", "own-list"), ("user", "scores")]


def estimate(value: float, lower: float, upper: float, **changes: Any) -> Estimate:
    fields: dict[str, Any] = {
        "value": value, "lower": lower, "upper": upper, "confidence": 0.95, "alpha": 0.001,
        "n": 32, "method": "betting over trainings", **changes,
    }  # fmt: skip
    return Estimate(**fields)


def measured(
    metric: Any, unit: str, observer: str, value: float, attack: str, **other: Any
) -> Measurement:
    model, epsilon = other.pop("model", "own"), other.pop("epsilon", 1.0)
    joint = attack == STRONGEST
    number = other.pop("estimate", None) or estimate(
        value,
        value - 0.125,
        min(1.0, value + 0.125),
        kind="frequentist" if joint else "assumes-law",
    )
    return Measurement(
        metric=metric, model=model, epsilon=epsilon, unit=unit, observer=observer, attack=attack,
        estimate=number, **other,
    )  # fmt: skip


def game(unit: str, observer: str, lower: float, **other: Any) -> Measurement:
    return measured(
        "epsilon", unit, observer, 0.0, STRONGEST, pair=f"{unit} ({observer})",
        estimate=estimate(lower + 0.2, lower, math.inf), event="lira", **other,
    )  # fmt: skip


def numbers(bounds: dict[tuple[str, str], float], **other: Any) -> Iterator[Measurement]:
    for place, (unit, observer) in enumerate(GAMES):
        for attack in (STRONGEST, "lira", "rmia"):
            event = {"event": "lira"} if attack == STRONGEST else {}
            where = {**other, **event}
            value = 0.75 - 0.125 * place
            yield measured("attack.auc", unit, observer, value, attack, **where)
            yield measured("attack.advantage", unit, observer, value - 0.5, attack, **where)
            for rate in RATES if unit == "interaction" else RATES[1:]:
                share = 0.25 * (1 + (unit == "user") + (rate > 0.05))
                yield measured("attack.tpr", unit, observer, share, attack, at=rate, **where)
        yield game(unit, observer, bounds.get((unit, observer), 0.0), **other)
        for at in (0.5, 0.9):
            yield measured("membership.exposed", unit, observer, at, "lira", at=at, **other)
        group = "rare items" if unit == "interaction" else "active users"
        yield measured("membership.group", unit, observer, 0.33, "lira", group=group, **other)
        for at in (0.01, 0.1, 0.5):
            yield measured("membership.roc", unit, observer, at / 2, "lira", at=at, **other)


def controlled(number: Measurement, *gates: Gate) -> Measurement:
    """The number with planted leaks that the rules of these gates catch."""
    planted = tuple(
        PlantedLeak(
            limit=gate.threshold,
            leak=leak_of(gate, number),
            form=form,
            caught=20,
            runs=20,
            shown=0.2,
            attacks=6,
            calibrating=5,
        )
        for gate in gates
        for form in FORMS
    )
    return number.model_copy(update={"planted": planted})


def record(
    make: Make,
    bounds: dict[tuple[str, str], float] | None = None,
    claim: dict[str, Any] | None = None,
    label: str = "own",
    **changes: Any,
) -> AuditResult:
    base = make(label, epsilons=(1.0,), attacks=False, game=False, gate=False, rated=False)
    stated = None
    if claim is not None:
        values = {
            "epsilon": 1.0, "delta": 0.0, "adjacency": "rating-add-remove", "observer": "scores",
            "public": "the numbers of users and items", "source": "stated in the config", **claim,
        }  # fmt: skip
        stated = ClaimRecord(**values)
    point = base.points[0].model_copy(
        update={"claim": stated, "sensitivity": None, "noise_scale": None}
    )
    named: Any = {"utility.ndcg": 0.25, "utility.recall": 0.5, "utility.rmse": 1.5}
    utility = []
    for name, value in named.items():
        error = estimate(value, value - 0.125, value + 0.125)
        utility.append(Measurement(metric=name, model=label, epsilon=1.0, estimate=error))
    result = base.model_copy(
        update={
            "kind": "membership",
            "points": [point],
            "measurements": [*numbers(bounds or {}, model=label), *utility],
            "pairs": [],
            **changes,
        }
    )
    return judged(result)
