"""The first screen of every report: the outcome, what attackers find, and what it rests on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dpaudit.core import rounding
from dpaudit.record.metrics import entry
from dpaudit.record.result import AuditResult, PointRecord, VerdictRecord
from dpaudit.reports import words
from dpaudit.reports.frequency import Frequency
from dpaudit.reports.sections import meter, reason, untried, verdicts
from dpaudit.reports.sections.base import sections_of
from dpaudit.reports.table import NONE, Table

# The ends of the meter's scale.
_SCALES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
# Claims of the first screen; the details of models have all.
_CLAIMS = 8


@dataclass(frozen=True)
class Screen:
    """The first screen.

    Attributes:
        outcome: the run's outcome.
        reason: why, in words that need no statistics.
        rows: what each attacker finds, the most first.
        left_out: how many attackers have no row.
        claims: a row for each claim; None without claims.
        facts: what the outcome rests on, as names with sentences.
    """

    outcome: str
    reason: str
    rows: Sequence[Frequency]
    left_out: int
    claims: Table | None
    facts: Sequence[tuple[str, str]]

    @property
    def scale(self) -> float:
        """Return the share at the right end of the meter."""
        ends = [max(row.value, row.guess, row.limit or 0.0) for row in self.rows]
        return next(end for end in _SCALES if end >= max(ends, default=1.0) - 1e-12)


def of(result: AuditResult) -> Screen:
    """Return the first screen of a record."""
    rows = meter.rows(result)
    return Screen(
        result.outcome,
        reason.sentence(result),
        rows[: meter.MOST],
        max(0, len(rows) - meter.MOST),
        _claims(result),
        list(_facts(result)),
    )


def _claims(result: AuditResult) -> Table | None:
    """Return a row for each claim: what is claimed, what is certified, what would be caught."""
    points = {(point.model, point.epsilon): point for point in result.points}
    stated = [verdict for verdict in result.verdicts if verdict.claimed is not None]
    if not stated:
        return None
    # Those that were decided first, false ones before all.
    order = ("false", "survived", "not tested")
    shown = sorted(stated, key=lambda verdict: order.index(verdict.verdict))[:_CLAIMS]
    left = len(stated) - len(shown)
    return Table(
        "Claims of differential privacy",
        ["model", "claimed ε", "leaks at least", "claim", "a leak of this size would be caught"],
        [_claim(verdict, points[verdict.model, verdict.epsilon]) for verdict in shown],
        {(row, 3) for row, verdict in enumerate(shown) if verdict.verdict == "false"},
        f"{left} more below." if left else "",
    )


def _claim(verdict: VerdictRecord, point: PointRecord) -> list[str]:
    certified = NONE if verdict.certified is None else rounding.at_least(verdict.certified, 2)
    caught = NONE if verdict.factor is None else f"{verdict.factor:.3g} times the claim"
    swept = "" if point.epsilon == verdict.claimed else f" at ε = {words.epsilon(point.epsilon)}"
    return [
        verdict.model,
        f"{words.epsilon(verdict.claimed or 0)}{swept}",
        certified,
        verdict.verdict,
        "not needed" if verdict.verdict == "false" else caught,
    ]


def _facts(result: AuditResult) -> Iterator[tuple[str, str]]:
    sections = sections_of(result)
    yield "Attacker", sections.attacker()
    units = dict.fromkeys(one.unit for one in result.measurements if one.unit)
    differ = dict.fromkeys(
        words.neighbours(point.claim.adjacency) for point in result.points if point.claim
    )
    if units:
        yield "Protected", f"Whether one {' or one '.join(units)} was in the training data."
    elif differ:
        yield "Protected", f"{'; or '.join(differ).capitalize()}."
    sure = words.percent(result.family.confidence)
    yield "Confidence", f"{sure}, for everything that decides this run together."
    utility = _utility(result)
    if utility:
        yield "Utility", utility
    missing = untried.sentences(result)
    yield "Not tried", f"{missing[0]} {len(missing) - 1} more below."


def _utility(result: AuditResult) -> str:
    """Return the first metric of utility of each model, beside the reference models."""
    measured = [one for one in result.measurements if entry(one.metric).role == "utility"]
    if not measured:
        return ""
    first = [one for one in measured if one.metric == measured[0].metric]
    best = {one.model: one for one in sorted(first, key=lambda one: one.estimate.value)}
    named = [f"{model} {rounding.measured(one.estimate.value)}" for model, one in best.items()]
    return f"{measured[0].metric}: {', '.join(named)}."


__all__ = ["Screen", "of", "verdicts"]
