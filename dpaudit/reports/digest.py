"""The contents of a record as rows and sentences, from which all readable reports are made."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from dpaudit.core.estimate import Estimate
from dpaudit.record.metrics import entry
from dpaudit.record.result import (
    AuditResult,
    ClaimRecord,
    GateRecord,
    Measurement,
    PointRecord,
    VerdictRecord,
)
from dpaudit.reports import words

MORE = "more than claimed"
# The end of a bound that breaks its claim, where there is little room.
ABOVE = " > claim"
# The share of the most that trials can certify, from which on they show no more.
_NEAR = 0.9
# The claim of each model at each ε.
Claims = dict[tuple[str, float], ClaimRecord | None]


@dataclass(frozen=True)
class Row:
    """All measurements at one ε of one model.

    Attributes:
        point: the point of the sweep.
        measurements: what was measured there.
    """

    point: PointRecord
    measurements: Sequence[Measurement]

    def of(self, metric: str) -> list[Measurement]:
        """Return the measurements of a metric."""
        return [measurement for measurement in self.measurements if measurement.metric == metric]

    def estimate(self, metric: str) -> Estimate | None:
        """Return the number of a metric that a point has once, if it was measured."""
        return next((measurement.estimate for measurement in self.of(metric)), None)

    @cached_property
    def games(self) -> dict[str, Measurement]:
        """The certified lower bounds on ε, by pair."""
        return {measurement.pair or "": measurement for measurement in self.of("epsilon")}

    @cached_property
    def accuracy(self) -> dict[str, Estimate]:
        """ε-Risk of each attack, by label."""
        return {number.attack or "": number.estimate for number in self.of("attack.accuracy")}

    @property
    def strongest(self) -> str | None:
        """The label of the attack with the largest accuracy; None without attacks."""
        return max(self.accuracy, key=lambda label: self.accuracy[label].value, default=None)

    def exceeds(self, pair: str) -> bool:
        """Return whether more than the claimed ε is certified on this pair."""
        claim = self.point.claim
        return claim is not None and pair in self.games and self.games[pair].exceeds(claim)

    def power(self, pair: str) -> str:
        """Return which mutants the game on this pair found; empty if no claim is left to test."""
        game, claim = self.games[pair], self.point.claim
        if claim is None or not game.tests(claim) or self.exceeds(pair):
            return ""
        return words.power(game.control)

    @property
    def exceeding(self) -> list[str]:
        """The pairs on which more than the claimed ε is certified."""
        return [pair for pair in self.games if self.exceeds(pair)]


def rows(result: AuditResult) -> dict[str, list[Row]]:
    """Return the rows of each model by its label, sorted by ε."""
    by_model: dict[str, list[Row]] = {model.label: [] for model in result.models}
    for point in sorted(result.points, key=lambda point: point.epsilon):
        at = (point.model, point.epsilon)
        here = [number for number in result.measurements if (number.model, number.epsilon) == at]
        by_model[point.model].append(Row(point, here))
    return by_model


def swept(result: AuditResult, model: str) -> bool:
    """Return whether a model is audited at several ε."""
    return sum(point.model == model for point in result.points) > 1


def swept_at(result: AuditResult, measurement: Measurement) -> str:
    """Return at which ε it is, as ` at ε = 1`; empty if its model is audited at one ε alone."""
    if not swept(result, measurement.model):
        return ""
    return f" at ε = {words.epsilon(measurement.epsilon)}"


def of(result: AuditResult, metric: str) -> list[Measurement]:
    """Return the measurements of a metric."""
    return [measurement for measurement in result.measurements if measurement.metric == metric]


def quantity(measurement: Measurement) -> str:
    """Return the name of what was measured, with what tells it from others of its metric."""
    metric = entry(measurement.metric)
    of = measurement.group or measurement.attack or measurement.detail
    if metric.by:
        of = measurement.fields.get(metric.by)
    return f"{metric.quantity or metric.name} {of or ''}".rstrip()


def most(game: Measurement, claim: ClaimRecord) -> float | None:
    """Return the largest ε that the game's trials can certify; None if that is not known."""
    from dpaudit.bounds.frequentist.labels import most_certified

    bound = game.estimate
    if bound.kind != "frequentist" or bound.n == 0:
        return None
    most = most_certified(bound.n, delta=claim.delta, alpha=bound.alpha)
    return most if most > bound.lower else None


def exhausted(verdict: VerdictRecord, result: AuditResult) -> bool:
    """Return whether what is certified is about the most that so many trials can certify."""
    claim = claims(result)[verdict.model, verdict.epsilon]
    ends = [
        (game.estimate.lower, most(game, claim) or math.inf)
        for game in of(result, "epsilon")
        if claim and (game.model, game.epsilon) == (verdict.model, verdict.epsilon)
    ]
    lower, end = max(ends, default=(0.0, math.inf))
    return lower == verdict.certified and lower >= _NEAR * end


def claims(result: AuditResult) -> Claims:
    """Return the claim of each model at each ε."""
    return {(point.model, point.epsilon): point.claim for point in result.points}


def why(gate: GateRecord, result: AuditResult) -> str:
    """Return the reason of a gate, and how many trainings, and how much time, would decide it.

    The time is what trainings of this run took, so it is no part of the gate's record.
    """
    if gate.trainings is None:
        return gate.reason
    done, pace = result.config["membership"]["trainings"], result.timing.training
    more = (gate.trainings - done) * len(result.points)
    takes = f", {words.roughly(more * pace)} more on one worker" if pace and more > 0 else ""
    alike = f"{gate.trainings} trainings in all decide it if the others are like these"
    return f"{gate.reason}; {alike}{takes}"


def config_path(result: AuditResult) -> str:
    """Return the path of the config that was run; that of a saved copy if it is not known."""
    return next((place.path for place in result.origin.values()), "dpaudit.toml")


def tunes(result: AuditResult) -> bool:
    """Whether a gate fails on trainings of a model that `dpaudit tune` can train again."""
    recommenders = result.config.get("recommender", [])
    returned = any(recommender.get("returned") for recommender in recommenders)
    return result.kind == "membership" and not returned and bool(result.gates)


def command(result: AuditResult, path: str = "dpaudit.toml", name: str = "run") -> str:
    """Return the command that runs the recorded config, which stands in a file, or another one."""
    values = (one if isinstance(one, list) else [one] for one in result.config.values())
    tables = [table for some in values for table in some if isinstance(table, dict)]
    code = any(table.get("target") or table.get("command") for table in tables)
    return f"dpaudit {name} {shlex.quote(path)}{' --allow-code' if code else ''}"


def noised(measurement: Measurement) -> bool:
    """Return whether the law beside a certified ε is the noise's law, and not a list's law."""
    return measurement.shift is not None or (
        measurement.observer is not None and measurement.unit is None
    )
