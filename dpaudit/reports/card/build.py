"""A privacy card from the record of a run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dpaudit.config.card import STATEMENTS
from dpaudit.record.bases import MEANS, WITHOUT
from dpaudit.record.metric import Role
from dpaudit.record.metrics import entry
from dpaudit.record.result import STRONGEST, AuditResult, DataRecord, Measurement
from dpaudit.reports import deployed, words
from dpaudit.reports.card.deployment import deployment
from dpaudit.reports.card.document import (
    NOT_STATED,
    Attack,
    Audit,
    Data,
    Measured,
    Mechanism,
    PrivacyCard,
)
from dpaudit.reports.card.guarantees import guarantees
from dpaudit.reports.columns import details
from dpaudit.reports.sections import summary
from dpaudit.reports.table import NONE

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


def card_of(result: AuditResult) -> PrivacyCard:
    """Return the card of a run: the owner's statements in its config, and its results."""
    return PrivacyCard(
        deployment=deployment(result),
        stated=_stated(result),
        audit=Audit(
            tool=result.tool, started=result.timing.started, confidence=result.family.confidence
        ),
        guarantees=guarantees(result),
        data=result.data and _data(result.data),
        mechanisms=list(_mechanisms(result)),
        utility=[*map(_measured, _of_roles(result, "utility"))],
        correctness=list(_correctness(result)),
        attacks=[
            Attack(
                label=label,
                name=f"{attack.get('name', NONE)}: {attack.get('title', NONE)}",
                source=str(attack.get("source", NONE)),
            )
            for label, attack in [*result.attacks.items(), *result.sybil_attacks.items()]
        ],
        measured=_results(result),
        limits=[*_LIMITS, *(_OF_CLAIMS if any(point.claim for point in result.points) else ())],
    )


def _stated(result: AuditResult) -> dict[str, str | list[str]]:
    card = deployed.stated(result)
    return {name: getattr(card, name) or NOT_STATED for name in STATEMENTS}


def _data(data: DataRecord) -> Data:
    return Data(
        users=words.about(data.users),
        items=words.about(data.items),
        ratings=words.about(data.ratings),
        scale=list(data.scale),
        per_user=data.per_user and list(data.per_user),
    )


def _mechanisms(result: AuditResult) -> Iterator[Mechanism]:
    for model in result.models:
        chosen = {
            point.epsilon: words.settings(point.chosen)
            for point in result.points
            if point.model == model.label and point.chosen
        }
        yield Mechanism(
            model=model.label,
            defense=f"{model.defense}: {model.title}",
            source=model.source,
            parameters=words.settings(model.params, but=["variant"]),
            tuned="; ".join(f"{at} at ε = {words.epsilon(one)}" for one, at in chosen.items()),
        )


def _correctness(result: AuditResult) -> Iterator[str]:
    """Yield what the run found out about the implementation, beside its games."""
    if any(point.claim and point.noise_scale is not None for point in result.points):
        yield (
            "Finite precision: released values lie on a public grid, and noise adds at most 2^-30 "
            "to ε for each number that differs."
        )
    for counted in _of_roles(result, "assumption"):
        where = f"{counted.model} at ε = {words.epsilon(counted.epsilon)}"
        what = entry(counted.metric).words
        of = f" ({apart})" if (apart := _details(counted)) else ""
        yield f"{where}: {what}{of}: {words.number(counted.estimate.value)}."
    yield from summary.findings(result)


def _results(result: AuditResult) -> list[Measured]:
    """Return the results of attacks; of several efforts or rounds, those of the last."""
    last: dict[tuple[Any, ...], Measurement] = {}
    for result_of in _of_roles(result, "recovery", "attack"):
        whole = result_of.unit is None or result_of.attack == STRONGEST
        if whole and result_of.basis not in _REFERENCES:
            last[result_of.model_copy(update={"effort": None, "step": None}).key] = result_of
    return [*map(_measured, last.values())]


def _of_roles(result: AuditResult, *roles: Role) -> list[Measurement]:
    """Return the measurements whose metrics have one of these roles."""
    return [number for number in result.measurements if entry(number.metric).role in roles]


def _measured(measurement: Measurement) -> Measured:
    game = measurement.metric == "epsilon"
    return Measured(
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
    return details(measurement, hidden)
