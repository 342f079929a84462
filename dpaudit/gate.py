"""Thresholds on certified bounds; never on a point estimate."""

from __future__ import annotations

from collections.abc import Sequence

from dpaudit.auditor.result import GateRecord, Measurement, Outcome, PointRecord, worst
from dpaudit.config import Gate


def judge(
    gate: Gate, points: Sequence[PointRecord], measurements: Sequence[Measurement]
) -> GateRecord:
    """The outcome of one gate over all the points that it picks, the worst deciding.

    - `max`: fails when a lower bound lies above it, passes when every upper bound does not.
    - `min`: fails when an upper bound lies below it, passes when every lower bound does not.
    - `epsilon`: an upper bound on the true ε does not exist, so it passes only if the game had the
      power to find `detectable` times the threshold.
    - a number that does not assume less than the gate may trust (`Estimate.kind`) is inconclusive.
    """
    claims = {(point.model, point.epsilon): point.claim for point in points}
    decided = []
    for found in measurements:
        if found.metric != gate.metric or not _picked(gate, found):
            continue
        limit = gate.max if gate.min is None else gate.min
        if limit == "claim":
            claim = claims[found.model, found.epsilon]
            limit = claim.epsilon if claim else None
        outcome, reason = _compare(gate, found, limit)
        if found.shift == 0 and outcome == "pass":
            continue  # the same prediction in both data sets: nothing could be found on this pair
        decided.append((outcome, f"{_place(found)}: {reason}"))
    if not decided:
        return GateRecord(
            rule=rule(gate),
            outcome="inconclusive",
            reason="no point that could show a violation is picked by 'where'",
        )
    outcome = worst([outcome for outcome, _ in decided])
    reasons = [reason for verdict, reason in decided if verdict == outcome]
    more = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
    return GateRecord(rule=rule(gate), outcome=outcome, reason=reasons[0] + more)


def rule(gate: Gate) -> str:
    """The gate in words."""
    where = ", ".join(f"{key} {value}" for key, value in gate.where.items())
    limit = f">= {gate.min:g}" if gate.min is not None else f"<= {gate.max}"
    power = f", with power against {gate.detectable:g} times that" if gate.detectable else ""
    return f"{gate.metric} {limit}{f' at {where}' if where else ''}{power}"


def _picked(gate: Gate, found: Measurement) -> bool:
    return all(getattr(found, key) == value for key, value in gate.where.items())


def _place(found: Measurement) -> str:
    extra = [part for part in (found.attack, found.pair) if part]
    return ", ".join([found.model, f"ε = {found.epsilon:g}", *extra])


def _compare(gate: Gate, found: Measurement, limit: float | None) -> tuple[Outcome, str]:
    estimate = found.estimate
    if estimate.kind != "frequentist":
        return "inconclusive", f"an estimate of kind {estimate.kind} cannot gate"
    if limit is None:
        return "inconclusive", "this variant claims nothing: give a number instead of 'claim'"
    if gate.metric == "epsilon":
        return _compare_epsilon(gate, found, limit)
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
    return "inconclusive", f"{interval} straddles {limit:g}: more trials narrow it"


def _compare_epsilon(gate: Gate, found: Measurement, limit: float) -> tuple[Outcome, str]:
    from dpaudit.auditor.bounds import detectable_epsilon

    lower = found.estimate.lower
    if lower > limit:
        return "fail", f"certified ε >= {lower:.4g}, above {limit:g}"
    least = found.detectable
    if gate.max != "claim" or least is None:
        least = detectable_epsilon(limit, found.estimate.n, found.estimate.alpha)
    wanted = (gate.detectable or 1.0) * limit
    if least <= wanted:
        return "pass", f"certified ε >= {lower:.4g}; a true ε of {least:.4g} would have been found"
    return (
        "inconclusive",
        f"certified ε >= {lower:.4g}, but only a true ε of {least:.4g} would have been found, not "
        f"{wanted:.4g}: more game trials find less",
    )
