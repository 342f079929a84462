"""Verdicts on claims, and the outcome of a run: decided here, above every report and exit code."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from dpaudit.core import registry
from dpaudit.core.membership import SEEN, WITNESS
from dpaudit.core.rounding import at_least
from dpaudit.record import result as records
from dpaudit.record.values import Control

# Relative tolerance when an ε computed from the noise law is compared with a limit.
_ROUNDING = 1e-6


def verdicts(result: records.AuditResult) -> list[records.VerdictRecord]:
    """Return the verdict on each model's claim at each ε.

    - `false`: a game about what the claim covers certifies more than the claimed ε.
    - `survived`: none does, some such game finds a mutant that breaks the claim, and none gives
      reason to doubt the claim (by the law of its noise, or by its guesses). Membership games, each
      on another target or observer, do not stand for each other: every one has to find a mutant.
    - `not tested`: otherwise, and if a finding leaves open what some such game measures or would.
      If what no model can tell is told (`blind`), this holds where more is certified too.

    All lower bounds of a run hold together, so the largest may be taken. What a witness of a
    deletion learns is no leak of the model, and left out.

    Args:
        result: the record, whose models, sweep, measurements and findings decide.
    """
    variants = {model.label: model.variant for model in result.models}
    games: dict[tuple[str, float], list[records.Measurement]] = {}
    for measurement in result.measurements:
        if measurement.metric == "epsilon" and measurement.observer != WITNESS:
            games.setdefault((measurement.model, measurement.epsilon), []).append(measurement)
    return [
        _verdict(
            point,
            games.get((point.model, point.epsilon), []),
            result.findings,
            noiseless=variants[point.model] == "nonprivate",
        )
        for point in result.points
    ]


def beside(result: records.AuditResult) -> Iterator[records.FindingRecord]:
    """Yield what is certified to leak more than a claim allows where the claim is not about it.

    Such a leak breaks no claim; reports show it beside the verdict.
    """
    for point in result.points:
        claim, key = point.claim, (point.model, point.epsilon)
        if claim is None:
            continue
        leaks = [
            f"ε at least {at_least(measurement.estimate.lower, 2)} for one {measurement.unit}, "
            f"seen: {SEEN.get(measurement.observer or '', measurement.observer)}"
            for measurement in result.measurements
            if (measurement.model, measurement.epsilon) == key
            and measurement.metric == "epsilon"
            and measurement.estimate.lower > claim.epsilon
            and not measurement.tests(claim)
        ]
        if leaks:
            yield records.FindingRecord(
                model=point.model,
                about="beside-claim",
                text=f"More than the claimed ε = {claim.epsilon:g} is certified beside the claim, "
                f"which is not about it: {'; '.join(leaks)}.",
                remedy="This breaks no claim. Show it to nobody who may not learn it, or state a "
                "claim about it (adjacency, observers), which is judged.",
            )


def decided(result: records.AuditResult) -> records.RunOutcome:
    """Return the outcome of a run by its gates, verdicts and waivers.

    An expired waiver stops it, whatever became of its finding. A finding with an active waiver
    does not count. Without a gate and a tested claim there is no decision.
    """
    if any(waiver.state == "expired" for waiver in result.waivers):
        return "stop"
    tested = any(verdict.verdict != "not tested" for verdict in result.verdicts)
    if not result.gates and not tested:
        return "no decision"
    if result.stopping:
        return "stop"
    return records.concluded(
        [gate.outcome for gate in result.gates if gate.id not in result.waived]
    )


def waivable(result: records.AuditResult) -> set[str]:
    """Return the ids of the findings that a waiver may accept.

    These are false claims, and gates that fail or are inconclusive.
    """
    false = {verdict.id for verdict in result.verdicts if verdict.verdict == "false"}
    return false | {gate.id for gate in result.gates if gate.outcome != "pass"}


def remedy(kind: str, number: records.Measurement) -> str:
    """Say what decides a number that is too uncertain, as its kind of audit has it.

    Gates and reports take it from here alone; see `AuditKind.remedy`.

    Args:
        kind: the kind of audit, by its name in the registry.
        number: the number.
    """
    registered = registry.installed("audits", kind)
    return str(registered.remedy(number)) if registered else "use more trials"


def claim_id(model: str, epsilon: float) -> str:
    """Return the id of the verdict on a model's claim at one ε of the sweep."""
    return f"claim/{model}/{in_id(epsilon)}"


def in_id(value: float) -> str:
    """Return a number as ids show it: not rounded, so that different ones differ."""
    return repr(float(value)).removesuffix(".0")


def above_by_law(measurement: records.Measurement, limit: float) -> bool:
    """Whether a pair's ε by the law of its noise exceeds a limit.

    Such an ε is not certified: it prevents a pass, but is no failure.
    """
    # Comparisons are written so that NaN, which compares as false, never passes.
    return measurement.theory is not None and not measurement.theory.value <= limit * (
        1 + _ROUNDING
    )


def suggests_more(measurement: records.Measurement, limit: float) -> bool:
    """Whether the right guesses of a membership game are as frequent as at an ε above a limit."""
    return measurement.unit is not None and not measurement.estimate.value <= limit


def _verdict(
    point: records.PointRecord,
    games: list[records.Measurement],
    findings: Sequence[records.FindingRecord],
    *,
    noiseless: bool,
) -> records.VerdictRecord:
    claim = point.claim
    if claim is not None:
        games = [game for game in games if game.tests(claim)]
    games = sorted(games, key=lambda game: game.estimate.lower, reverse=True)
    strongest = games[0] if games else None
    known: dict[str, Any] = {
        "id": claim_id(point.model, point.epsilon),
        "model": point.model,
        "epsilon": point.epsilon,
        "noiseless": noiseless,
        "claimed": claim and claim.epsilon,
        "certified": strongest and strongest.estimate.lower,
    }
    if claim is None or strongest is None:
        unknown = any(finding.lacks("epsilon", point.model, point.epsilon) for finding in findings)
        return records.VerdictRecord(
            **known,
            verdict="not tested",
            reason="no claim" if claim is None else "finding" if unknown else "no game",
            decided_by=strongest and game_name(strongest),
        )
    void = any(finding.voids and finding.opens(game) for finding in findings for game in games)
    false = strongest.exceeds(claim) and not void
    laws = [
        game.theory.value
        for game in games
        if game.theory is not None and above_by_law(game, claim.epsilon)
    ]
    doubted = bool(laws) or any(suggests_more(game, claim.epsilon) for game in games)
    decisive = (max if any(game.unit for game in games) else min)(games, key=_least_factor)
    least = _least_found(decisive)
    reason: records.Untested | None = None
    if not false:
        reason = "doubt" if doubted else None if least else "no power"
        if any(finding.opens(game) for finding in findings for game in games):
            reason = "finding"
    return records.VerdictRecord(
        **known,
        verdict="false" if false else "not tested" if reason else "survived",
        reason=reason,
        law=max(laws, default=None),
        factor=least and least.factor,
        condition=least.condition if least else "",
        decided_by=game_name(strongest if false else decisive),
    )


def _least_found(game: records.Measurement) -> Control | None:
    """Return the mutant with the least factor that a game finds; None without one."""
    mutants = (control for control in game.controls if control.found)
    return min(mutants, key=lambda control: control.factor, default=None)


def _least_factor(game: records.Measurement) -> float:
    least = _least_found(game)
    return least.factor if least else math.inf


def game_name(game: records.Measurement) -> records.GameName:
    """Return which game a measured ε is from."""
    return records.GameName(
        attack=game.attack or "", pair=game.pair or "", observer=game.observer, unit=game.unit
    )
