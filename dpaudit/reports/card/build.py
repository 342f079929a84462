"""A privacy card from the record of a run: what is deployed, guaranteed, measured and tried.

What the audit says of the deployed model alone is also what the evidence for standards rests on.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pydantic import ValidationError

from dpaudit.bounds.risk import advantage_limit, belief, group_claim, success_limit
from dpaudit.config.schema import STATEMENTS, Card
from dpaudit.core.errors import ConfigError
from dpaudit.record.bases import MEANS, WITHOUT
from dpaudit.record.metric import Role
from dpaudit.record.metrics import entry
from dpaudit.record.result import STRONGEST, AuditResult, ClaimRecord, DataRecord, Measurement
from dpaudit.reports import columns, palette, words
from dpaudit.reports.card import document
from dpaudit.reports.card.document import Guarantee, PrivacyCard, Rate
from dpaudit.reports.sections import meter, outcome, screen, tables, verdicts
from dpaudit.reports.sections.base import not_tried, sections_of
from dpaudit.reports.sections.steps import steps

# The columns of what each attacker finds.
_FOUND = ("model", "attacker", "found", "range or interval", "a guess", "limit")
# What is no result of an attack but a reference for one.
_REFERENCES = (WITHOUT, MEANS)
_LIMITS = (
    "A lower bound on ε is no proof of privacy: other attacks, pairs, observers or data may reveal "
    "more.",
    "The owner's statements were not checked.",
    "The numbers of the card are computed from the data and are not differentially private.",
    "Timing, memory, error messages and logs were not tested.",
    "The card claims no compliance with any law, regulation or standard.",
)
_OF_CLAIMS = (
    "Limits for attackers are derived from the claim and hold only if the claim does.",
    "A claim covers its unit, its observers and one release. Other releases from the same data add "
    "to it.",
    "No claim prevents inferences about a person that hold whether or not their data are used.",
)
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


def card_of(result: AuditResult) -> PrivacyCard:
    """Return the card of a run: the owner's statements in its config, and its results."""
    stated = statements_of(result)
    return PrivacyCard(
        deployment=deployment_of(result),
        stated={name: getattr(stated, name) or document.NOT_STATED for name in STATEMENTS},
        audit=document.AuditFacts(
            tool=result.tool, started=result.timing.started, confidence=result.family.confidence
        ),
        guarantees=guarantees_of(result),
        data=result.data and _data(result.data),
        mechanisms=list(_mechanisms(result)),
        utility=[*map(_measured, of_roles(result, "utility"))],
        correctness=list(_correctness(result)),
        attacks=[
            document.AttackTried(label=label, name=name, source=source)
            for label, name, _, source in tables.attacks(result).cells
        ],
        measured=_results(result),
        limits=[*_LIMITS, *(_OF_CLAIMS if any(point.claim for point in result.points) else ())],
    )


def statements_of(result: AuditResult) -> Card:
    """Return the table `[card]` of a record's config; an empty one if it has none.

    Raises:
        ConfigError: it is no such table.
    """
    table: Any = result.config.get("card")
    try:
        return Card.model_validate(table or {})
    except ValidationError as error:
        raise ConfigError(
            f"the record's config has a [card] that is none ({error.errors()[0]['msg']}): run the "
            "audit again"
        ) from error


def deployed_part(result: AuditResult) -> AuditResult:
    """Return the part of a record that is about the deployed model at its ε.

    It has several points if `[card]` leaves open which of them is deployed. What was decided stays
    that of the whole run.

    Raises:
        ConfigError: `[card]` names a model or an ε that was not audited.
    """
    audited = [(point.model, point.epsilon) for point in result.points]
    try:
        points = set(statements_of(result).deployed(audited))
    except ValueError as error:
        raise ConfigError(str(error)) from error
    labels = {label for label, _ in points}
    kept = {*points, *((label, None) for label in labels)}  # a finding may be about every ε
    return result.model_copy(
        update={
            "models": [model for model in result.models if model.label in labels],
            "pairs": [pair for pair in result.pairs if pair.model in labels],
            **{
                name: [
                    record
                    for record in getattr(result, name)
                    if (record.model, record.epsilon) in kept
                ]
                for name in ("points", "measurements", "findings", "verdicts")
            },
        }
    )


def _open_choice(part: AuditResult) -> str:
    """Return which keys choose among the points that may be deployed; empty if there is one.

    Args:
        part: what `deployed_part` returns.
    """
    if len(part.points) < 2:
        return ""
    labels = {point.model for point in part.points}
    swept = len(part.points) > len(labels)
    keys = [key for key, needed in (("model", len(labels) > 1), ("epsilon", swept)) if needed]
    named = " and ".join(f"card.{key}" for key in keys)
    return (
        f"Not chosen: {len(part.points)} were audited, and all count here. Name one in the config "
        f"({named})."
    )


def _deployed_name(part: AuditResult) -> str:
    """Return the deployed model with its claimed ε.

    Args:
        part: what `deployed_part` returns, with one point.
    """
    (point,) = part.points
    if point.claim is None:
        return f"{point.model}, without a claim of differential privacy"
    delta = f", δ = {point.claim.delta:g}" if point.claim.delta else ""
    return f"{point.model} at ε = {words.epsilon(point.claim.epsilon)}{delta}"


def deployment_of(result: AuditResult) -> document.Deployment:
    """Return what is deployed, and what the audit says of it."""
    part = deployed_part(result)
    printed = sections_of(part).printed()
    results, why = [dict(row) for row in printed.results], outcome.decision_of(result).reason
    rows = meter.rows(part)
    # A table says each of several results.
    single = len(results) == 1 and printed.result not in why
    chosen = part.points[0] if len(part.points) == 1 else None
    return document.Deployment(
        outcome=result.outcome,
        reason=why,
        model=chosen and chosen.model,
        epsilon=chosen and chosen.epsilon,
        named=_deployed_name(part) if chosen else "",
        choice=_open_choice(part),
        badge=verdicts.badge(part, part.models).text,
        claims=Counter(
            palette.became(verdict) for verdict in part.verdicts if verdict.claimed is not None
        ),
        attacker=sections_of(part).attacker(),
        protected=screen.protected(part),
        found=[dict(zip(_FOUND, row.cells, strict=True)) for row in rows],
        counted=" or ".join(dict.fromkeys(row.what for row in rows)),
        certain=screen.findings(part, certain=True),
        violated=screen.violated(part),
        utility=screen.utility(part),
        about=printed.about,
        audited={**({"Result": printed.result} if single else {}), **printed.facts},
        results=results,
        untried=not_tried(part),
        steps=[f"{step.name} {step.text}." for step in steps(result)],
    )


def _data(data: DataRecord) -> document.DataCounts:
    return document.DataCounts(
        users=words.about(data.users),
        items=words.about(data.items),
        ratings=words.about(data.ratings),
        scale=list(data.scale),
        per_user=data.per_user and list(data.per_user),
    )


def _mechanisms(result: AuditResult) -> Iterator[document.AuditedModel]:
    for model in result.models:
        chosen = [
            f"{words.settings(point.chosen)} at ε = {words.epsilon(point.epsilon)}"
            for point in result.points
            if point.model == model.label and point.chosen
        ]
        yield document.AuditedModel(
            model=model.label,
            defense=f"{model.defense}: {model.title}",
            source=model.source,
            parameters=words.settings(model.params, but=["variant"]),
            tuned="; ".join(chosen),
        )


def _correctness(result: AuditResult) -> Iterator[str]:
    """Yield what the run found out about the implementation, beside its games."""
    if any(point.claim and point.noise_scale is not None for point in result.points):
        yield (
            "Finite precision: released values lie on a public grid, and noise adds at most 2^-30 "
            "to ε for each number that differs."
        )
    for counted in of_roles(result, "assumption"):
        where = f"{counted.model} at ε = {words.epsilon(counted.epsilon)}"
        what = entry(counted.metric).words
        of = f" ({apart})" if (apart := _details(counted)) else ""
        yield f"{where}: {what}{of}: {words.number(counted.estimate.value)}."
    yield from screen.findings(result, certain=True)
    yield from screen.findings(result)


def _results(result: AuditResult) -> list[document.MeasuredNumber]:
    """Return the results of attacks; of several efforts or rounds, those of the last."""
    last: dict[tuple[Any, ...], Measurement] = {}
    for result_of in of_roles(result, "recovery", "attack"):
        whole = result_of.unit is None or result_of.attack == STRONGEST
        if whole and result_of.basis not in _REFERENCES:
            last[result_of.model_copy(update={"effort": None, "step": None}).key] = result_of
    return [*map(_measured, last.values())]


def of_roles(result: AuditResult, *roles: Role) -> list[Measurement]:
    """Return the measurements whose metrics have one of these roles."""
    return [number for number in result.measurements if entry(number.metric).role in roles]


def _measured(measurement: Measurement) -> document.MeasuredNumber:
    game = measurement.metric == "epsilon"
    return document.MeasuredNumber(
        metric=measurement.metric,
        model=measurement.model,
        sweep_epsilon=measurement.epsilon,
        of=_details(measurement),
        group=measurement.group or "all",
        value=measurement.estimate.value,
        lower=measurement.estimate.lower,
        upper=measurement.estimate.upper,
        power=words.power(measurement.control) if game else "",
    )


def _details(measurement: Measurement) -> str:
    """Return what tells a number from others of its metric, but for its group."""
    hidden = {"group", *(("observer", "unit") if measurement.pair else ())}  # a pair names these
    return columns.details(measurement, hidden)


def guarantees_of(result: AuditResult) -> list[Guarantee]:
    """Return each model at each ε with its claim, its verdict and what both mean."""
    models = {model.label: model for model in result.models}
    verdicts = {(verdict.model, verdict.epsilon): verdict for verdict in result.verdicts}
    guarantees = []
    for point in result.points:
        verdict = verdicts[point.model, point.epsilon]
        void = verdict.verdict == "false" or verdict.reason in ("doubt", "finding")
        guarantees.append(
            Guarantee(
                model=point.model,
                defense=models[point.model].defense,
                mechanism=models[point.model].variant,
                sweep_epsilon=point.epsilon,
                verdict=verdict.verdict,
                reason=verdict.reason,
                power=verdict.factor,
                condition=verdict.condition,
                certified=verdict.certified,
                derived=_derived(point.claim, verdict.certified, result.data, void=void),
                **(_claimed(point.claim) if point.claim else {}),
            )
        )
    return guarantees


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


def _derived(
    claim: ClaimRecord | None, bound: float | None, data: DataRecord | None, *, void: bool
) -> document.Derived:
    certified = [] if bound is None or not 0 < bound < math.inf else _beliefs(bound)
    if claim is None or void or math.isinf(claim.epsilon):
        return document.Derived(certified_belief=certified)
    rates = [*((1 / n, f"1 in {n}") for n in _BASE_RATES), *_of_data(claim, data)]
    return document.Derived(
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


def _limits(
    epsilon: float, delta: float, rates: Sequence[tuple[float, str]]
) -> document.ClaimLimits:
    return document.ClaimLimits(
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
) -> Iterator[document.Group]:
    """Yield what a claim about one rating says of users with usual numbers of ratings."""
    if claim.adjacency not in _RATINGS or data is None or data.per_user is None:
        return
    for count, of in zip(data.per_user, ("median user", "90 % quantile of users"), strict=True):
        epsilon, delta = group_claim(claim.epsilon, claim.delta, count)
        if math.isfinite(epsilon):
            yield document.Group(ratings=count, of=of, limits=_limits(epsilon, delta, rates))
