"""The intervals of a record: which of them hold together, and how each was computed."""

from __future__ import annotations

from dpaudit.record.metrics import entry
from dpaudit.record.result import AuditResult, Family, Measurement
from dpaudit.reports import words
from dpaudit.reports.table import NONE, Table


def judged(result: AuditResult) -> bool:
    """Return whether any interval belongs to the family of intervals that hold together."""
    return any(
        not over_folds(found)
        and not _alone(found)
        and found.estimate.kind not in ("exact", "range")
        for found in result.measurements
    )


def over_folds(found: Measurement) -> bool:
    """Return whether it is Student's interval over folds, which holds only by itself."""
    return found.estimate.kind == "assumes-law" and "over folds" in found.estimate.method


def together(family: Family) -> str:
    """Return the confidence of the family of intervals as a phrase."""
    sure = f"{words.percent(family.confidence)} confidence"
    if family.size == 1:
        return f"The interval holds with {sure}"
    return f"All {family.size} intervals hold together with {sure}"


def table(result: AuditResult) -> Table:
    """Return a table of each interval's trials, level, method and kind."""
    kinds = dict.fromkeys(_method(found) for found in result.measurements)
    return Table(
        "How each interval was made",
        ["quantity", "trials", "level α", "method", "kind"],
        [list(kind) for kind in kinds],
    )


def _alone(found: Measurement) -> bool:
    """Return whether the interval holds only by itself, and is none over folds."""
    if found.estimate.kind == "assumes-law" and not over_folds(found):
        return True
    return found.estimate.kind != "frequentist" and entry(found.metric).alone


def _method(found: Measurement) -> tuple[str, ...]:
    metric, made = entry(found.metric), found.estimate
    of = getattr(found, metric.by) if metric.by else found.group or found.attack or found.detail
    quantity = f"{metric.quantity or metric.name} {of or ''}".rstrip()
    if _alone(found):  # many intervals share this row, with different numbers of users
        return quantity, NONE, f"{made.alpha:.3g}", made.method, made.kind
    both = found.metric == "epsilon" and not found.unit
    trials = f"{made.n}" + (", on both data sets together" if both else "")
    if made.kind == "range":
        return quantity, f"{made.n} trainings", NONE, made.method, made.kind
    if made.kind == "exact":
        return quantity, NONE, NONE, made.method, made.kind
    return quantity, trials, f"{made.alpha:.3g}", made.method, made.kind
