"""Columns and notes on the assumptions that published claims make and nothing enforces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dpaudit.core.assumption import LONGER, LONGEST
from dpaudit.record.result import AuditResult
from dpaudit.reports import words
from dpaudit.reports.digest import Row
from dpaudit.reports.table import NONE


def columns(here: Sequence[Row]) -> Iterator[tuple[str, list[str]]]:
    """Yield the name and cells of a model's columns for the assumptions that were measured."""
    for step in dict.fromkeys(step for row in here for step in row.short):
        share = [row.short.get(step) for row in here]
        yield f"below C, step {step}", [_percent(s) for s in share]
    if any(row.norms for row in here):
        longer = [row.norms.get(LONGER) for row in here]
        yield "users longer than 1", [_percent(s) for s in longer]
        yield "longest user", [words.number(row.norms.get(LONGEST)) for row in here]


def note(result: AuditResult) -> list[str]:
    """Return the notes that explain the columns."""
    notes = []
    if any(found.metric == "assumption.denominator" for found in result.measurements):
        notes.append(
            "The claim of Wang & Tang 2017 assumes Σ_j |s_ij| ≥ C in every prediction of training, "
            "which nothing enforces. 'below C' is the share of predictions that violate this, "
            "counted in some rows. 0 % says nothing about other rows, noise or data."
        )
    if any(found.metric == "assumption.norm" for found in result.measurements):
        notes.append(
            "The claims of Meng et al. 2018 assume that no user's factors are longer than 1, which "
            "nothing enforces. 'users longer than 1' is the share of users with ratings whose "
            "factors are longer than 1 at the end of one training, and 'longest user' is the "
            "greatest length. 0 % says nothing about earlier rounds, other noise or data."
        )
    return notes


def _percent(share: float | None) -> str:
    return NONE if share is None else words.percent(share, 3)
