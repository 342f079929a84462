"""Guarantees of a card: each model at each ε with its claim, its verdict and what both mean."""

from __future__ import annotations

import math
from typing import Any

import pytest

from dpaudit.bounds.risk import advantage_limit, belief, group_claim, success_limit
from dpaudit.record.result import AuditResult
from dpaudit.record.verdicts import verdicts
from dpaudit.reports.card.build import guarantees_of
from dpaudit.reports.card.document import Guarantee
from tests.support.records import Make


def changed(result: AuditResult, **claim: Any) -> AuditResult:
    """The record with other claims, judged anew; without measurements no claim is false."""
    points = [
        point.model_copy(update={"claim": point.claim and point.claim.model_copy(update=claim)})
        for point in result.points
    ]
    result = result.model_copy(update={"points": points, "findings": []})
    return result.model_copy(update={"verdicts": verdicts(result)})


def of(result: AuditResult, epsilon: float) -> Guarantee:
    return next(
        guarantee for guarantee in guarantees_of(result) if guarantee.sweep_epsilon == epsilon
    )


def test_a_claim_is_translated_with_its_epsilon_and_delta(make: Make) -> None:
    guarantee = of(changed(make(game=False), delta=1e-3), 1.0)
    limits = guarantee.derived.limits
    assert limits is not None
    assert (guarantee.dp_variant, guarantee.epsilon, guarantee.delta) == (
        "approximate DP",
        1.0,
        1e-3,
    )
    assert limits.advantage == advantage_limit(1.0, 1e-3)
    assert {rate.of: rate.bound for rate in limits.success} == {
        "1 in 10": success_limit(0.1, 1.0, 1e-3),
        "1 in 100": success_limit(0.01, 1.0, 1e-3),
        "1 in 1000": success_limit(0.001, 1.0, 1e-3),
        "1 in 300 items": success_limit(1 / 300, 1.0, 1e-3),
    }
    assert limits.belief is None


def test_pure_dp_limits_the_belief_after_each_output(make: Make) -> None:
    guarantee = of(make(game=False), 1.0)
    assert guarantee.dp_variant == "pure DP"
    assert guarantee.derived.limits is not None
    assert guarantee.derived.limits.belief is not None
    assert {rate.of: rate.bound for rate in guarantee.derived.limits.belief} == {
        f"1 in {n}": belief(1 / n, 1.0) for n in (2, 10, 100, 1000)
    }


def test_a_broken_claim_limits_nothing(make: Make) -> None:
    result = make()  # 2.7183 is certified
    assert [guarantee.verdict for guarantee in guarantees_of(result)] == [
        "false",
        "false",
        "not tested",
    ]
    broken, kept = of(result, 1.0), of(result, 10.0)
    assert (broken.derived.limits, broken.derived.groups) == (None, [])
    assert kept.derived.limits is not None
    assert broken.certified == 2.7183
    assert broken.derived.certified_belief[0].bound == belief(0.5, 2.7183)


def test_a_claim_in_doubt_limits_nothing(make: Make) -> None:
    result = make()
    doubted = [
        verdict.model_copy(update={"verdict": "not tested", "reason": "doubt"})
        for verdict in result.verdicts
    ]
    limited = guarantees_of(result.model_copy(update={"verdicts": doubted}))
    assert [guarantee.derived.limits for guarantee in limited] == [None, None, None]


@pytest.mark.cases(
    ("adjacency", "unit", "of_data", "groups"),
    [
        ("rating-replace", "the value of one rating", "1 in 5 values", 2),
        ("rating-add-remove", "one rating", "1 in 300 items", 2),
        ("user-replace", "all ratings of one user", "1 in 300 items", 0),
        ("user-add-remove", "one user with all ratings", "1 in 300 items", 0),
        ("entry-replace", "one entry of the completed matrix", "1 in 5 values", 0),
        ("as given", "as given", "1 in 300 items", 0),
    ],
)
def test_the_unit_decides_what_a_guess_is_among(
    make: Make, adjacency: str, unit: str, of_data: str, groups: int
) -> None:
    guarantee = of(changed(make(game=False), adjacency=adjacency), 1.0)
    assert guarantee.unit == unit
    assert guarantee.derived.limits is not None
    assert guarantee.derived.limits.success[-1].of == of_data
    assert len(guarantee.derived.groups) == groups


def test_users_with_several_ratings_have_a_weaker_claim(make: Make) -> None:
    guarantee = of(changed(make(game=False), delta=1e-6), 0.1)
    assert [(group.ratings, group.of) for group in guarantee.derived.groups] == [
        (40, "median user"),
        (78, "90 % quantile of users"),
    ]
    for group in guarantee.derived.groups:
        assert (group.limits.epsilon, group.limits.delta) == group_claim(0.1, 1e-6, group.ratings)
    assert guarantee.derived.limits is not None
    assert guarantee.derived.limits.advantage < 0.1
    assert guarantee.derived.groups[0].limits.advantage > 0.9


def test_few_users_or_no_data_give_no_groups(make: Make) -> None:
    result = make(game=False)
    assert result.data is not None
    few = result.model_copy(update={"data": result.data.model_copy(update={"per_user": None})})
    assert of(few, 1.0).derived.groups == []
    none = of(result.model_copy(update={"data": None}), 1.0)
    assert none.derived.groups == []
    assert none.derived.limits is not None
    assert [rate.of for rate in none.derived.limits.success] == ["1 in 10", "1 in 100", "1 in 1000"]


def test_without_noise_nothing_is_claimed_or_limited(make: Make) -> None:
    (guarantee,) = guarantees_of(make(epsilons=(math.inf,), game=False))
    assert (guarantee.dp_variant, guarantee.epsilon, guarantee.derived.limits) == (
        "none",
        None,
        None,
    )
    assert (guarantee.unprotected, guarantee.reason) == ("everything", "no claim")


def test_sizes_that_no_data_have_give_no_base_rate(make: Make) -> None:
    result = changed(make(game=False), adjacency="rating-replace", epsilon=1e308)
    assert result.data is not None
    for scale in ((1.0, 5.0, 0.0), (-1e308, 1e308, 1.0), (5.0, 1.0, 1.0)):
        data = result.data.model_copy(update={"scale": scale})
        guarantee = of(result.model_copy(update={"data": data}), 1.0)
        assert guarantee.derived.limits is not None
        assert len(guarantee.derived.limits.success) == 3
        assert guarantee.derived.groups == []
