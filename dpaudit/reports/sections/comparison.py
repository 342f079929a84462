"""Tables and sentences of a run compared with its baseline."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence

from dpaudit.core import rounding
from dpaudit.core.estimate import Estimate
from dpaudit.record.changes import NumberChange
from dpaudit.record.comparison import ClaimChange, Comparison
from dpaudit.record.metrics import entry
from dpaudit.record.result import VerdictRecord
from dpaudit.reports import words
from dpaudit.reports.table import NONE, Table

DIFFERENCES = "What else differs between the runs, and may explain a change"
_CAPTIONS = {
    "worse": "Certified to be worse",
    "better": "Certified to be better",
    "not comparable": "Not comparable: beside each other, as the numbers are not about the same",
    "cannot tell": "Cannot tell",
}


def tables(compared: Comparison, *, everything: bool) -> list[Table]:
    """Return the tables: verdicts first, then what got worse, then what got better.

    Args:
        compared: the comparison.
        everything: whether to show also what is the same and what cannot be told.
    """
    shown = [
        claims([change for change in compared.claims if everything or change.move != "same"]),
        _gates(compared),
    ]
    for judgement, caption in _CAPTIONS.items():
        if everything or judgement != "cannot tell":
            here = [change for change in compared.numbers if change.judgement == judgement]
            shown.append(_numbers(caption, here))
    return [table for table in shown if table.cells]


def claims(changes: Sequence[ClaimChange]) -> Table:
    """Return the table of verdicts on claims; those that are newly false are marked."""
    order = ("newly false", "no longer tested", "not comparable", "changed", "same")
    rows = sorted(changes, key=lambda change: order.index(change.move))
    return Table(
        "Verdicts on claims",
        ["claim", "baseline", "run", "change"],
        [
            [
                change.id,
                _verdict(change.before),
                _verdict(change.after),
                ", ".join([change.move, *["waived"] * change.waived])
                + (f": {change.reason}" if change.reason else ""),
            ]
            for change in rows
        ],
        {
            (row, 3)
            for row, change in enumerate(rows)
            if change.move == "newly false" and not change.waived
        },
    )


def sentences(compared: Comparison) -> Iterator[str]:
    """Yield what the comparison shows in all, and what it does not show."""
    if compared.same:
        yield "No change: all numbers, verdicts and gates are those of the baseline."
        return
    yield compared.reason
    sure = words.percent(compared.confidence)
    yield f"All comparisons hold together with {sure} confidence (union bound over both runs)."
    unlike, unsure = (
        [change for change in compared.numbers if change.judgement == judgement]
        for judgement in ("not comparable", "cannot tell")
    )
    for lead, changes in (("Not comparable:", unlike), ("Cannot tell for", unsure)):
        reasons = Counter(change.reason or "the intervals overlap" for change in changes)
        said = "; ".join(f"{count}: {reason}" for reason, count in reasons.items())
        if said:
            yield f"{lead} {len(changes)} of {len(compared.numbers)} numbers ({said})."
    leaning = [change for change in unsure if _leans(change)]
    if leaning:
        listed = "; ".join(
            f"{change.metric} of {change.place}: {rounding.measured(change.before.value)} → "
            f"{rounding.measured(change.after.value)}"
            for change in leaning
        )
        yield f"Worse than all of the baseline's interval, though not certified: {listed}."
    if compared.uncompared:
        listed = ", ".join(f"{count} of {name}" for name, count in compared.uncompared.items())
        yield f"Not compared, as these numbers may not gate: {listed}."
    for name, parts in (("Missing", compared.missing), ("New", compared.added)):
        if parts:
            yield f"{name} in the run: {'; '.join(parts)}."


def _leans(change: NumberChange) -> bool:
    """Return whether a number is outside the interval of the baseline, on the worse side."""
    metric = entry(change.metric)
    if metric.bases or metric.derived:  # what is larger depends on more than the metric
        return False
    if metric.larger == "worse":
        return change.after.value > change.before.upper
    return change.after.value < change.before.lower


def differences(compared: Comparison) -> Table:
    """Return the table of what else differs between the runs, which may explain changes."""
    return Table(
        DIFFERENCES,
        ["key", "baseline", "run"],
        [
            [difference.key, difference.before, difference.after]
            for difference in compared.differences
        ],
    )


def _gates(compared: Comparison) -> Table:
    return Table(
        "Gates whose outcome changed",
        ["gate", "baseline", "run"],
        [[gate.id, gate.before, gate.after] for gate in compared.gates],
    )


def _numbers(caption: str, changes: Sequence[NumberChange]) -> Table:
    return Table(
        caption,
        ["number", "baseline", "run", "change"],
        [
            [
                f"{change.metric} of {change.place}",
                _estimate(change.before),
                _estimate(change.after),
                _change(change),
            ]
            for change in changes
        ],
        {(row, 3) for row, change in enumerate(changes) if change.judgement == "worse"},
    )


def _verdict(verdict: VerdictRecord) -> str:
    """Return a verdict with its numbers, e.g. `false (ε ≥ 2.71, claimed 1)`."""
    parts = []
    if verdict.certified is not None:
        parts.append(f"ε ≥ {rounding.at_least(verdict.certified, 2)}")
    if verdict.claimed is not None:
        parts.append(f"claimed {words.epsilon(verdict.claimed)}")
    if verdict.factor is not None:
        parts.append(f"finds {verdict.factor:.3g}×")
    if verdict.reason is not None:
        parts.append(verdict.reason)
    return f"{verdict.verdict} ({', '.join(parts)})" if parts else verdict.verdict


def _estimate(estimate: Estimate) -> str:
    """Return an interval; of a lower bound only that."""
    if estimate.upper == math.inf:
        return f"≥ {rounding.at_least(estimate.lower)}"
    return words.interval(estimate)


def _change(change: NumberChange) -> str:
    """Return the interval of a change, rounded outwards."""
    if -math.inf == change.lower and change.upper == math.inf:
        return NONE
    low, high = rounding.at_least(change.lower), rounding.at_most(change.upper)
    return f"[{low.replace('-', '−')}, {high.replace('-', '−')}]"
