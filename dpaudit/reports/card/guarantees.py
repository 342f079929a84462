"""The guarantees of a card: claims with their verdicts, and what they mean for an attacker."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from dpaudit.bounds.risk import advantage_limit, belief, group_claim, success_limit
from dpaudit.record.result import AuditResult, ClaimRecord, DataRecord, ModelRecord, VerdictRecord
from dpaudit.reports import words
from dpaudit.reports.card.document import Derived, Group, Guarantee, Limits, Rate

# One unit of each adjacency.
_UNITS = {
    "rating-replace": "the value of one rating",
    "rating-add-remove": "one rating",
    "user-replace": "all ratings of one user",
    "user-add-remove": "one user with all ratings",
    "entry-replace": "one entry of the completed matrix",
}
# Adjacencies of which a user has as many units as ratings.
_RATINGS = ("rating-replace", "rating-add-remove")
# Adjacencies that hide a value, and not which item it belongs to.
_VALUES = ("rating-replace", "entry-replace")
_BASE_RATES = (10, 100, 1000)
# Longer scales are not read from data.
_MOST_STEPS = 1e6
_PRIORS = (2, *_BASE_RATES)


def guarantees(result: AuditResult) -> list[Guarantee]:
    """Return each model at each ε with its claim, its verdict and what both mean."""
    models = {model.label: model for model in result.models}
    verdicts = {(verdict.model, verdict.epsilon): verdict for verdict in result.verdicts}
    return [
        _guarantee(
            models[point.model], point.claim, verdicts[point.model, point.epsilon], result.data
        )
        for point in result.points
    ]


def _guarantee(
    model: ModelRecord, claim: ClaimRecord | None, verdict: VerdictRecord, data: DataRecord | None
) -> Guarantee:
    return Guarantee(
        model=model.label,
        defense=model.defense,
        mechanism=model.variant,
        sweep_epsilon=verdict.epsilon,
        verdict=verdict.verdict,
        reason=verdict.reason,
        power=verdict.factor,
        condition=verdict.condition,
        certified=verdict.certified,
        derived=_derived(claim, verdict, data),
        **({} if claim is None else _claimed(claim)),
    )


def _claimed(claim: ClaimRecord) -> dict[str, Any]:
    """Return the fields of a guarantee that say what is claimed."""
    return {
        "dp_variant": "approximate DP" if claim.delta else "pure DP",
        "epsilon": claim.epsilon,
        "delta": claim.delta,
        "unit": _UNITS.get(claim.adjacency, claim.adjacency),
        "adjacency": words.meaning(claim.adjacency),
        "observers": [words.meaning(observer) for observer in (claim.observer, *claim.also)],
        "unprotected": claim.public,
        "assumes": list(claim.assumes),
        "source": claim.source,
    }


def _derived(claim: ClaimRecord | None, verdict: VerdictRecord, data: DataRecord | None) -> Derived:
    bound = verdict.certified
    certified = [] if bound is None or not 0 < bound < math.inf else _beliefs(bound)
    doubted = verdict.verdict == "false" or verdict.reason in ("doubt", "finding")
    if claim is None or doubted or math.isinf(claim.epsilon):
        return Derived(certified_belief=certified)
    rates = [*((1 / n, f"1 in {n}") for n in _BASE_RATES), *_of_data(claim, data)]
    return Derived(
        limits=_limits(claim.epsilon, claim.delta, rates),
        groups=list(_groups(claim, data, rates)),
        certified_belief=certified,
    )


def _of_data(claim: ClaimRecord, data: DataRecord | None) -> Iterator[tuple[float, str]]:
    """Yield the base rate of a guess among the items, or among the values that a claim hides."""
    if data is None:
        return
    count, what = words.about(data.items), "items"
    if claim.adjacency in _VALUES:
        low, high, step = data.scale
        steps = (high - low) / step if step else math.inf
        count, what = (round(steps) + 1, "values") if 0 <= steps < _MOST_STEPS else (0, "")
    if count:
        yield 1 / count, f"1 in {count} {what}"


def _rates(bound: Callable[[float], float], rates: Sequence[tuple[float, str]]) -> list[Rate]:
    return [Rate(base_rate=rate, of=of, bound=bound(rate)) for rate, of in rates]


def _limits(epsilon: float, delta: float, rates: Sequence[tuple[float, str]]) -> Limits:
    return Limits(
        epsilon=epsilon,
        delta=delta,
        advantage=advantage_limit(epsilon, delta),
        success=_rates(lambda rate: success_limit(rate, epsilon, delta), rates),
        belief=None if delta else _beliefs(epsilon),
    )


def _beliefs(epsilon: float) -> list[Rate]:
    """Return beliefs in one of two data sets, to which base rates among many secrets do not fit."""
    return _rates(lambda rate: belief(rate, epsilon), [(1 / n, f"1 in {n}") for n in _PRIORS])


def _groups(
    claim: ClaimRecord, data: DataRecord | None, rates: Sequence[tuple[float, str]]
) -> Iterator[Group]:
    """Yield what a claim about one rating says of users with usual numbers of ratings."""
    if claim.adjacency not in _RATINGS or data is None or data.per_user is None:
        return
    for count, of in zip(data.per_user, ("median user", "90 % quantile of users"), strict=True):
        epsilon, delta = group_claim(claim.epsilon, claim.delta, count)
        if math.isfinite(epsilon):
            yield Group(ratings=count, of=of, limits=_limits(epsilon, delta, rates))
