"""Ranges of trainings: what lies apart by chance, and by an attacker that is another one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from dpaudit.record.comparison import compare
from dpaudit.record.result import AuditResult, FindingRecord, Measurement
from dpaudit.record.values import Census
from tests.support.records import make_result


def trained(*numbers: Sequence[float], **config: Any) -> AuditResult:
    """A record of AUCs, each with its value in every judged training."""
    measurements = []
    for place, values in enumerate(numbers):
        entries = tuple(values)
        census = Census(values=entries, lower=entries, upper=entries, alpha=0.0)
        measurements.append(
            Measurement(
                metric="attack.auc",
                model=f"m{place}",
                epsilon=math.inf,
                estimate=census.estimate,
                attack="strongest",
                observer="scores",
                unit="interaction",
                census=census,
            )
        )
    base = make_result(gate=False)
    changes = {"points": [], "verdicts": [], "measurements": measurements}
    return base.model_copy(update={**changes, "config": {**base.config, **config}})


def spread(count: int, shift: float = 0.0) -> list[float]:
    return [0.6 + shift + 0.02 * training / count for training in range(count)]


@pytest.mark.cases(
    ("count", "shift", "judgement"),
    [(19, 0.2, "worse"), (19, -0.2, "better"), (19, 0.01, "cannot tell"), (3, 0.2, "cannot tell")],
)
def test_ranges_of_trainings_that_lie_apart_show_a_change(
    count: int, shift: float, judgement: str
) -> None:
    (change_,) = compare(trained(spread(count)), trained(spread(count, shift))).numbers
    assert change_.judgement == judgement
    assert ("too few judged trainings" in change_.reason) == (count == 3)


def test_many_numbers_need_more_trainings_than_one() -> None:
    # 16 trainings have 12 870 orders, which 6 numbers may share.
    for count, judgement in ((6, "worse"), (7, "cannot tell")):
        runs = (trained(*[spread(8, shift)] * count) for shift in (0, 0.2))
        assert {one.judgement for one in compare(*runs).numbers} == {judgement}


@pytest.mark.cases("weight", [0.0, 0.5, 0.9])
@pytest.mark.cases(
    ("first", "second"), [((0, 1, 2), (0, 1, 2)), ((0, 1, 2), (2, 3)), ((0, 1), (2, 3))]
)
def test_shared_coins_let_ranges_lie_apart_no_more_often(
    weight: float, first: tuple[int, ...], second: tuple[int, ...]
) -> None:
    """At most as often as those of J₁ + J₂ exchangeable numbers, whatever the coins decide."""
    rng = np.random.default_rng(len(second))
    coins = rng.normal(size=(20_000, 4))
    one, other = (
        weight * coins[:, rows] + math.sqrt(1 - weight**2) * rng.normal(size=(20_000, len(rows)))
        for rows in (first, second)
    )
    apart = (one.min(1) > other.max(1)) | (other.min(1) > one.max(1))
    bound = 2 / math.comb(len(first) + len(second), len(first))
    assert apart.mean() < bound + 4 * math.sqrt(bound / 20_000)
    if not weight or not set(first) & set(second):
        assert apart.mean() > bound - 4 * math.sqrt(bound / 20_000)


def attacked(best: str, metric: str = "attack.auc", **auc: float) -> AuditResult:
    """A record of attacks with these numbers in 19 trainings, of which one does best."""
    result = trained(spread(19, auc[best] - 0.6))
    [number] = result.measurements
    strongest = number.model_copy(update={"event": best, "metric": metric})
    alone = [
        number.model_copy(
            update={
                "metric": "attack.advantage" if metric == "leak" else metric,
                "attack": name,
                "estimate": Census.known(spread(19, value - 0.6)).estimate,
                "census": None,
            }
        )
        for name, value in auc.items()
    ]
    return result.model_copy(update={"measurements": [strongest, *alone]})


@pytest.mark.cases(
    ("before", "after", "judgement"),
    [
        # The attack that does better now found nothing before.
        ({"best": "a", "a": 0.6, "b": 0.6}, {"best": "b", "a": 0.6, "b": 0.8}, "worse"),
        # It did as well before, and calibration chose another.
        ({"best": "a", "a": 0.6, "b": 0.8}, {"best": "b", "a": 0.6, "b": 0.8}, "cannot tell"),
        ({"best": "b", "a": 0.6, "b": 0.8}, {"best": "a", "a": 0.6, "b": 0.8}, "cannot tell"),
        ({"best": "b", "a": 0.6, "b": 0.8}, {"best": "a", "a": 0.6, "b": 0.6}, "better"),
        ({"best": "a", "a": 0.6}, {"best": "b", "b": 0.8}, "cannot tell"),
    ],
)
@pytest.mark.cases("metric", ["attack.auc", "leak"])
def test_the_attack_that_is_chosen_has_to_show_the_change_itself(
    metric: str, before: dict[str, Any], after: dict[str, Any], judgement: str
) -> None:
    compared = compare(*(attacked(metric=metric, **numbers) for numbers in (before, after)))
    change = next(one for one in compared.numbers if one.metric == metric)
    assert change.judgement == judgement
    assert ("another attack is the strongest" in change.reason) == (judgement == "cannot tell")


@pytest.mark.cases("drifting", [0, 1])
def test_a_model_that_differs_with_one_seed_is_not_compared_by_attacks(drifting: int) -> None:
    runs = [attacked(best="a", a=auc) for auc in (0.6, 0.8)]
    finding = FindingRecord(model="m0", about="seed", text="They differ.", remedy="Correct it.")
    runs[drifting] = runs[drifting].model_copy(update={"findings": [finding]})
    compared = compare(*runs)
    [change] = compared.numbers
    assert (change.judgement, "so do the attackers" in change.reason) == ("cannot tell", True)
    # Nothing is certified, and so large a change is no pass either.
    assert compared.outcome == "inconclusive"
    assert "attack.auc of m0" in compared.reason
    assert "0.61 → 0.81" in compared.reason
    assert "data and seed decide the model" in compared.reason


def test_numbers_that_could_show_no_change_say_why() -> None:
    compared = compare(*(trained(spread(2, shift)) for shift in (0.0, 0.2)))
    assert compared.outcome == "inconclusive"
    assert "too few judged trainings" in compared.reason
    assert "one seed" not in compared.reason
