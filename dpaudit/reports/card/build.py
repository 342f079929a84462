"""A privacy card from the record of a run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import ValidationError

from dpaudit.config.card import Card
from dpaudit.core.errors import ConfigError
from dpaudit.record.bases import MEANS, WITHOUT
from dpaudit.record.metrics import entry
from dpaudit.record.result import STRONGEST, AuditResult, DataRecord, Measurement
from dpaudit.reports import words
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
from dpaudit.reports.sections import summary
from dpaudit.reports.table import NONE

# What is no result of an attack but a reference for one.
_REFERENCES = (WITHOUT, MEANS)
_LIMITS = (
    "A lower bound on ε is no proof of privacy: other attacks, pairs, observers or data may reveal "
    "more.",
    "Limits for attackers are derived from the claim and hold only if the claim does.",
    "A claim covers its unit, its observers and one release. Other releases from the same data add "
    "to it.",
    "No claim prevents inferences about a person that hold whether or not their data are used.",
    "The owner's statements were not checked.",
    "The numbers of the card are computed from the data and are not differentially private.",
    "Timing, memory, error messages and logs were not tested.",
    "The card claims no compliance with any law, regulation or standard.",
)


def card_of(result: AuditResult) -> PrivacyCard:
    """Return the card of a run: the owner's statements in its config, and its results."""
    return PrivacyCard(
        stated=_stated(result.config.get("card")),
        audit=Audit(
            tool=result.tool,
            started=result.timing.started,
            confidence=result.family.confidence,
        ),
        guarantees=guarantees(result),
        data=result.data and _data(result.data),
        mechanisms=list(_mechanisms(result)),
        utility=[
            _measured(found)
            for found in result.measurements
            if entry(found.metric).role == "utility"
        ],
        correctness=list(_correctness(result)),
        attacks=[
            Attack(
                label=label,
                name=f"{attack.get('name', NONE)}: {attack.get('title', NONE)}",
                source=str(attack.get("source", NONE)),
            )
            for label, attack in [*result.attacks.items(), *result.sybil_attacks.items()]
        ],
        measured=list(_results(result)),
        limits=[*_LIMITS],
    )


def _stated(table: Any) -> dict[str, str | list[str]]:
    try:
        stated = Card.model_validate(table or {})
    except ValidationError as error:
        raise ConfigError(
            f"the record's config has a [card] that is none ({error.errors()[0]['msg']}): run the "
            "audit again"
        ) from error
    return {name: getattr(stated, name) or NOT_STATED for name in Card.model_fields}


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
    for found in result.measurements:
        if entry(found.metric).role == "assumption":
            value = words.number(found.estimate.value)
            of = f" ({details})" if (details := _details(found)) else ""
            at = words.epsilon(found.epsilon)
            yield f"{found.model} at ε = {at}: {entry(found.metric).words}{of}: {value}."
    yield from summary.findings(result)


def _results(result: AuditResult) -> Iterator[Measured]:
    """Yield the results of attacks; of several efforts or rounds, those of the last."""
    last: dict[tuple[Any, ...], Measurement] = {}
    for found in result.measurements:
        reference = found.basis in _REFERENCES or (found.unit and found.attack != STRONGEST)
        if entry(found.metric).role in ("recovery", "attack") and not reference:
            last[found.model_copy(update={"effort": None, "step": None}).key] = found
    yield from map(_measured, last.values())


def _measured(found: Measurement) -> Measured:
    made = found.estimate
    return Measured(
        metric=found.metric,
        model=found.model,
        sweep_epsilon=found.epsilon,
        of=_details(found),
        group=found.group or "all",
        value=made.value,
        lower=made.lower,
        upper=made.upper,
        power=_power(found),
    )


def _details(found: Measurement) -> str:
    """Return what tells a measurement from others of its metric, in words."""
    parts = [found.attack, *([found.pair] if found.pair else [found.observer, found.unit])]
    parts += [found.against, found.kind, found.basis, found.part]
    parts += [f"at {words.percent(found.at)}"] if found.at is not None else []
    parts += [f"effort {found.effort}"] if found.effort is not None else []
    parts += [f"step {found.step}"] if found.step is not None else []
    return ", ".join(part for part in parts if part)


def _power(found: Measurement) -> str:
    """Return which mutants a game found; empty for what is no game."""
    if found.metric != "epsilon":
        return ""
    factors = [control.factor for control in found.controls if control.found]
    if factors:
        return f"finds {min(factors):.3g}×"
    tried = max((control.factor for control in found.controls), default=None)
    return "none" if tried is None else f"none up to {tried:.3g}×"
