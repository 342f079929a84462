"""Which of the audited models is deployed, and what the audit says of it alone."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from dpaudit.config.card import Card
from dpaudit.core.errors import ConfigError
from dpaudit.record.result import AuditResult
from dpaudit.reports import words


def stated(result: AuditResult) -> Card:
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


def alone(result: AuditResult) -> AuditResult:
    """Return the part of a record that is about the deployed model at its ε.

    It has several points if `[card]` leaves open which of them is deployed. What was decided stays
    that of the whole run.

    Raises:
        ConfigError: `[card]` names a model or an ε that was not audited.
    """
    audited = [(point.model, point.epsilon) for point in result.points]
    try:
        points = set(stated(result).deployed(audited))
    except ValueError as error:
        raise ConfigError(str(error)) from error
    labels = {label for label, _ in points}
    return result.model_copy(
        update={
            "models": [model for model in result.models if model.label in labels],
            "pairs": [pair for pair in result.pairs if pair.model in labels],
            "findings": [
                finding
                for finding in result.findings
                if any(
                    finding.model == label and finding.epsilon in (None, epsilon)
                    for label, epsilon in points
                )
            ],
            **{
                name: [one for one in getattr(result, name) if (one.model, one.epsilon) in points]
                for name in ("points", "measurements", "verdicts")
            },
        }
    )


def choice(part: AuditResult) -> str:
    """Return which keys choose among the points that may be deployed; empty if there is one.

    Args:
        part: what `alone` returns.
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


def named(part: AuditResult) -> str:
    """Return the deployed model with its claimed ε.

    Args:
        part: what `alone` returns, with one point.
    """
    (point,) = part.points
    if point.claim is None:
        return f"{point.model}, without a claim of differential privacy"
    delta = f", δ = {point.claim.delta:g}" if point.claim.delta else ""
    return f"{point.model} at ε = {words.epsilon(point.claim.epsilon)}{delta}"
