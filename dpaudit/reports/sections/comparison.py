"""Tables and sentences of a run compared with its baseline."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence

from dpaudit.core import rounding
from dpaudit.core.estimate import Estimate
from dpaudit.record.comparison import ClaimChange, Comparison, NumberChange
from dpaudit.record.result import VerdictRecord
from dpaudit.reports import words
from dpaudit.reports.table import NONE, Table

DIFFERENCES = "What else differs between the runs, and may explain a change"
_CAPTIONS = {
    "worse": "Certified to be worse",
    "better": "Certified to be better",
    "cannot tell": "Cannot tell",
}


def tables(found: Comparison, *, everything: bool) -> list[Table]:
    """Return the tables: verdicts first, then what got worse, then what got better.

    Args:
        found: the comparison.
        everything: whether to show also what is the same and what cannot be told.
    """
    shown = [
        claims([each for each in found.claims if everything or each.move != "same"]),
        _gates(found),
    ]
    for judgement, caption in _CAPTIONS.items():
        if everything or judgement != "cannot tell":
            here = [each for each in found.numbers if each.judgement == judgement]
            shown.append(_numbers(caption, here))
    return [table for table in shown if table.cells]


def claims(found: Sequence[ClaimChange]) -> Table:
    """Return the table of verdicts on claims; those that are newly broken are marked."""
    order = ("newly broken", "no longer tested", "changed", "same")
    rows = sorted(found, key=lambda each: order.index(each.move))
    return Table(
        "Verdicts on claims",
        ["claim", "baseline", "run", "change"],
        [
            [
                each.id,
                _verdict(each.before),
                _verdict(each.after),
                f"{each.move}, waived" if each.waived else each.move,
            ]
            for each in rows
        ],
        {
            (row, 3)
            for row, each in enumerate(rows)
            if each.move == "newly broken" and not each.waived
        },
    )


def sentences(found: Comparison) -> Iterator[str]:
    """Yield what the comparison shows in all, and what it does not show."""
    yield found.reason
    sure = words.percent(found.confidence)
    yield f"All comparisons hold together with {sure} confidence (union bound over both runs)."
    if any(each.key == "data.digest" for each in found.differences):
        yield "The data differ, so a change may come from the data and not from the models."
    unsure = [each for each in found.numbers if each.judgement == "cannot tell"]
    if unsure:
        reasons = Counter(each.reason or "the intervals overlap" for each in unsure)
        said = "; ".join(f"{count}: {reason}" for reason, count in reasons.items())
        yield f"Cannot tell for {len(unsure)} of {len(found.numbers)} numbers ({said})."
    if found.uncompared:
        listed = ", ".join(f"{count} of {name}" for name, count in found.uncompared.items())
        yield f"Not compared, as these numbers may not gate: {listed}."
    for name, parts in (("Missing", found.missing), ("New", found.added)):
        if parts:
            yield f"{name} in the run: {'; '.join(parts)}."


def differences(found: Comparison) -> Table:
    """Return the table of what else differs between the runs, which may explain changes."""
    return Table(
        DIFFERENCES,
        ["key", "baseline", "run"],
        [[each.key, each.before, each.after] for each in found.differences],
    )


def _gates(found: Comparison) -> Table:
    return Table(
        "Gates whose outcome changed",
        ["gate", "baseline", "run"],
        [[each.id, each.before, each.after] for each in found.gates],
    )


def _numbers(caption: str, found: Sequence[NumberChange]) -> Table:
    return Table(
        caption,
        ["number", "baseline", "run", "change"],
        [
            [
                f"{each.metric} of {each.place}",
                _estimate(each.before),
                _estimate(each.after),
                _change(each),
            ]
            for each in found
        ],
        {(row, 3) for row, each in enumerate(found) if each.judgement == "worse"},
    )


def _verdict(found: VerdictRecord) -> str:
    """Return a verdict with its numbers, e.g. `broken (ε ≥ 2.71, claimed 1)`."""
    parts = []
    if found.certified is not None:
        parts.append(f"ε ≥ {rounding.at_least(found.certified, 2)}")
    if found.claimed is not None:
        parts.append(f"claimed {words.epsilon(found.claimed)}")
    if found.factor is not None:
        parts.append(f"finds {found.factor:.3g}×")
    if found.reason is not None:
        parts.append(found.reason)
    return f"{found.verdict} ({', '.join(parts)})" if parts else found.verdict


def _estimate(found: Estimate) -> str:
    """Return an interval; of a lower bound only that."""
    if found.upper == math.inf:
        return f"≥ {rounding.at_least(found.lower)}"
    return words.interval(found)


def _change(found: NumberChange) -> str:
    """Return the interval of a change, rounded outwards."""
    if -math.inf == found.lower and found.upper == math.inf:
        return NONE
    low, high = rounding.at_least(found.lower), rounding.at_most(found.upper)
    return f"[{low.replace('-', '−')}, {high.replace('-', '−')}]"
