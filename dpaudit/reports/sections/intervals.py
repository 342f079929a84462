"""The intervals of a record: which of them hold together, and how each was computed."""

from __future__ import annotations

from dpaudit.record.metrics import entry
from dpaudit.record.result import AuditResult, Measurement
from dpaudit.reports import words
from dpaudit.reports.table import NONE, Table

# What holds with the confidence of the run, each for itself, if gates judge single trainings.
APART = "all that is certified, all gates that pass, and all gates that fail"


def of_trainings(result: AuditResult) -> bool:
    """Return whether any number is the range of what single trainings have."""
    return any(measurement.estimate.kind == "range" for measurement in result.measurements)


def judged(result: AuditResult) -> bool:
    """Return whether any interval belongs to the family of intervals that hold together."""
    return any(
        not over_folds(measurement)
        and not _alone(measurement)
        and measurement.estimate.kind not in ("exact", "range")
        for measurement in result.measurements
    )


def over_folds(measurement: Measurement) -> bool:
    """Return whether it is Student's interval over folds, which holds only by itself."""
    return (
        measurement.estimate.kind == "assumes-law" and "over folds" in measurement.estimate.method
    )


def together(result: AuditResult) -> str:
    """Return the confidence of the family of intervals as a phrase."""
    family = result.family
    sure = f"{words.percent(family.confidence)} confidence"
    if of_trainings(result):
        gates = "; so do all gates that pass, and all that fail" if result.gates else ""
        return f"What is certified holds together with {sure}{gates}"
    if family.size == 1:
        return f"The interval holds with {sure}"
    return f"All {family.size} intervals hold together with {sure}"


def table(result: AuditResult) -> Table:
    """Return a table of each interval's trials, level, method and kind."""
    kinds = dict.fromkeys(_method(measurement) for measurement in result.measurements)
    return Table(
        "How each interval was made",
        ["quantity", "trials", "level α", "method", "kind"],
        [list(kind) for kind in kinds],
    )


def _alone(measurement: Measurement) -> bool:
    """Return whether the interval holds only by itself, and is none over folds."""
    if measurement.estimate.kind == "assumes-law" and not over_folds(measurement):
        return True
    return measurement.estimate.kind != "frequentist" and entry(measurement.metric).alone


def _method(measurement: Measurement) -> tuple[str, ...]:
    metric, estimate = entry(measurement.metric), measurement.estimate
    of = (
        measurement.fields.get(metric.by)
        if metric.by
        else measurement.group or measurement.attack or measurement.detail
    )
    quantity = f"{metric.quantity or metric.name} {of or ''}".rstrip()
    if _alone(measurement):  # many intervals share this row, with different numbers of users
        return quantity, NONE, f"{estimate.alpha:.3g}", estimate.method, estimate.kind
    both = measurement.metric == "epsilon" and not measurement.unit
    trials = f"{estimate.n}" + (", on both data sets together" if both else "")
    if estimate.kind == "range":
        return quantity, f"{estimate.n} trainings", NONE, estimate.method, estimate.kind
    if estimate.kind == "exact":
        return quantity, NONE, NONE, estimate.method, estimate.kind
    return quantity, trials, f"{estimate.alpha:.3g}", estimate.method, estimate.kind
