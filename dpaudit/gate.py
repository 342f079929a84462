"""Thresholds on certified bounds; never on a point estimate."""

from __future__ import annotations

import math
from collections.abc import Sequence

from dpaudit.auditor.result import GateRecord, Measurement, Outcome, PointRecord, worst
from dpaudit.bounds.power import detectable_epsilon, detectable_on_pair
from dpaudit.config import Gate
from dpaudit.errors import ConfigError

# An ε by law that is this little above the claim is the claim.
_ROUNDING = 1e-6


def judge(
    gate: Gate, points: Sequence[PointRecord], measurements: Sequence[Measurement]
) -> GateRecord:
    """The outcome of one gate over all the points that it picks, the worst deciding.

    - `max`: fails when a lower bound lies above it, passes when every upper bound does not.
    - `min`: fails when an upper bound lies below it, passes when every lower bound does not.
    - `epsilon`: an upper bound on the true ε does not exist, so it passes only if some pair had the
      power to show noise too small by the factor `detectable`, and none has an ε above the limit by
      the law of its noise.
    - an estimate that is not frequentist is inconclusive.

    Raises:
        ConfigError: the gate picks nothing that was measured.
    """
    at = {(point.model, point.epsilon): point for point in points}
    picked = [found for found in measurements if gate.picks(found.model_dump())]
    if not picked:
        raise ConfigError(f"the gate '{rule(gate)}' picks no measured point: correct its where")
    decided: dict[tuple[str, float], list[tuple[Outcome, str]]] = {}
    for found in picked:
        point = at[found.model, found.epsilon]
        outcome, reason = _compare(gate, found, point)
        verdict = (outcome, f"{_place(found)}: {reason}")
        decided.setdefault((found.model, found.epsilon), []).append(verdict)
    doubted = {
        (found.model, found.epsilon)
        for found in picked
        if _above_by_law(found, _limit(gate, at[found.model, found.epsilon]))
    }
    verdicts = [
        verdict
        for where, here in decided.items()
        for verdict in (here if gate.metric != "epsilon" or where in doubted else _powerful(here))
    ]
    outcome = worst([verdict for verdict, _ in verdicts])
    reasons = [reason for verdict, reason in verdicts if verdict == outcome]
    more = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
    return GateRecord(rule=rule(gate), outcome=outcome, reason=reasons[0] + more)


def _powerful(verdicts: list[tuple[Outcome, str]]) -> list[tuple[Outcome, str]]:
    """Of several pairs at one ε any may fail, and one with enough power is enough to pass."""
    for wanted in ("fail", "pass"):
        some = [verdict for verdict in verdicts if verdict[0] == wanted]
        if some:
            return some
    return verdicts


def rule(gate: Gate) -> str:
    """The gate in words."""
    where = ", ".join(
        f"{key} {value:g}" if isinstance(value, float) else f"{key} {value}"
        for key, value in gate.where.items()
    )
    limit = f">= {gate.min:g}" if gate.min is not None else f"<= {gate.max}"
    power = f", with power against {gate.detectable:g} times that" if gate.detectable else ""
    return f"{gate.metric} {limit}{f' at {where}' if where else ''}{power}"


def _place(found: Measurement) -> str:
    effort = f"effort {found.effort}" if found.effort is not None else None
    extra = [part for part in (found.attack, found.pair, effort) if part]
    return ", ".join([found.model, f"ε = {found.epsilon:g}", *extra])


def _limit(gate: Gate, point: PointRecord) -> float | None:
    """The number to compare with; none where a variant that claims nothing is held to its claim."""
    limit = gate.max if gate.min is None else gate.min
    if limit == "claim":
        return point.claim.epsilon if point.claim else None
    return limit


def _above_by_law(found: Measurement, limit: float | None) -> bool:
    """Whether a pair's ε by the law of its noise, which cannot accuse, is no reason to pass."""
    law = found.theory
    return limit is not None and law is not None and law.value > limit * (1 + _ROUNDING)


def _compare(gate: Gate, found: Measurement, point: PointRecord) -> tuple[Outcome, str]:
    estimate = found.estimate
    if estimate.kind != "frequentist":
        return "inconclusive", f"an estimate of kind {estimate.kind} cannot gate"
    limit = _limit(gate, point)
    if limit is None:
        return "inconclusive", "this variant claims nothing: give a number instead of 'claim'"
    if gate.metric == "epsilon":
        return _compare_epsilon(gate, found, point, limit)
    low, high = estimate.lower, estimate.upper
    interval = f"{estimate.value:.4g} [{low:.4g}, {high:.4g}]"
    if gate.min is None:
        broken, kept, side = low > limit, high <= limit, "above"
    else:
        broken, kept, side = high < limit, low >= limit, "below"
    if broken:
        return "fail", f"{interval} lies {side} {limit:g}"
    if kept:
        return "pass", f"{interval} keeps {limit:g}"
    more = "more transcript.worlds" if gate.metric == "attack.auc" else "more trials"
    return "inconclusive", f"{interval} straddles {limit:g}: {more} narrow it"


def _compare_epsilon(
    gate: Gate, found: Measurement, point: PointRecord, limit: float
) -> tuple[Outcome, str]:
    certified = f"certified ε >= {found.estimate.lower:.4g}"
    if found.estimate.lower > limit:
        return "fail", f"{certified}, above {limit:g}"
    if found.theory is not None and _above_by_law(found, limit):
        law = f"by the law of its noise this pair has ε = {found.theory.value:.4g}, above {limit:g}"
        return "inconclusive", f"{certified}, but {law}: use more trials to certify it"
    wanted = (gate.detectable or 1.0) * limit
    n, alpha = found.estimate.n, found.estimate.alpha
    delta = point.claim.delta if point.claim else 0.0
    if found.shift is None or point.sensitivity is None:
        share = _share(found, point)
        least = detectable_epsilon(limit, n, alpha, delta=delta) / share if share else math.inf
        normal = found.observer is not None
        what = "noise too small for" if normal else "a violation like Laplace noise too small for"
        more = "use more trials"
    else:
        least = detectable_on_pair(limit, n, alpha, found.shift, point.sensitivity, delta=delta)
        what, more = "noise too small for", "take a pair of larger shift, or more game trials"
    if least <= wanted:
        return "pass", f"{certified}; {what} {least:.4g} would have been found"
    if math.isinf(least):
        reason = "nothing would have been found on this pair: use more trials, or another pair"
    else:
        reason = (
            f"only {what} {least:.4g} would have been found on this pair, not {wanted:.4g}: {more}"
        )
    return "inconclusive", f"{certified}, but {reason}"


def _share(found: Measurement, point: PointRecord) -> float:
    """How much of the mechanism's ε the pair shows, as it entered what was detectable."""
    if found.detectable is None or point.claim is None:
        return 1.0
    claim, made = point.claim, found.estimate
    least = detectable_epsilon(claim.epsilon, made.n, made.alpha, delta=claim.delta)
    return least / found.detectable if math.isfinite(found.detectable) else 0.0
