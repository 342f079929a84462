"""What numbers of trainings decide, before any is run."""

from __future__ import annotations

import bisect
import math
from collections import Counter
from collections.abc import Iterator
from decimal import ROUND_CEILING

from dpaudit.auditor.games.controls import LADDER
from dpaudit.auditor.gate import rule
from dpaudit.auditor.measure import MetricKey, picked
from dpaudit.auditor.needed import coins_needed
from dpaudit.auditor.plan import Plan
from dpaudit.auditor.trainings import NEXT, least_certified, trainings_for
from dpaudit.audits.membership.calibration import few
from dpaudit.audits.membership.config import Membership, MembershipConfig
from dpaudit.audits.membership.looks import FIRST
from dpaudit.audits.membership.planted import laws
from dpaudit.bounds.frequentist.intervals import clopper_pearson
from dpaudit.bounds.frequentist.next_draw import draws_needed, next_exceeds
from dpaudit.core.claim import Claim
from dpaudit.core.membership import Unit, covers
from dpaudit.core.rounding import percent
from dpaudit.record.metrics import entry
from dpaudit.record.result import Family
from dpaudit.record.values import Noise

# The most targets that are named.
_MOST = 1_000_000


def left_for_next(config: MembershipConfig, family: Family) -> float:
    """Return the error probability that is left to all gates about the next training.

    The joint intervals that decide a claim or another gate take theirs.
    """
    claimed = {model.label for model in config.model}
    claimed |= {model.label for model in config.recommender if model.claim}
    taken = 0
    for key in Plan(config).keys:
        if entry(key.metric).derived:
            continue
        if key.census:
            taken += picked(config, key, "average") + picked(config, key, "this-model")
        elif key.counted:
            bound = key.metric == "epsilon" and key.model in claimed
            taken += bound or picked(config, key, None)
    return 1 - family.confidence - taken * family.alpha


def next_keys(config: MembershipConfig) -> list[MetricKey]:
    """Return the numbers that gates about the next training judge, each as often as gates do."""
    keys = [key for key in Plan(config).keys if key.census]
    gates = [gate for gate in config.gate if gate.of in NEXT]
    return [key for gate in gates for key in keys if gate.picks(key.picked_by, key.traits)]


def own_intervals(config: MembershipConfig) -> int:
    """Return how many intervals of their own these numbers have in one training.

    A leak has those of the advantages of its model.
    """
    points = Counter(
        (key.model, key.epsilon) for key in Plan(config).keys if key.metric == "attack.advantage"
    )
    return sum(
        points[key.model, key.epsilon] if key.metric == "leak" else 1
        for key in set(next_keys(config))
    )


def least_targets(metric: str, rate: float | None, limit: float, alpha: float) -> int | None:
    """Return the least number of targets with which a model without a leak may keep a limit.

    Half of them are present. The upper limits of `bounds.frequentist.roc_limits` are taken at what
    is expected without a leak: scores of one law, and for the advantage the mean largest difference
    of two samples, 0.87 √(1/n + 1/N) (Kolmogorov 1933).

    Args:
        metric: `attack.tpr`, `attack.auc`, `attack.advantage` or `leak`.
        rate: the false-positive rate of `attack.tpr`.
        limit: the largest number that passes.
        alpha: the level of the interval.

    Returns:
        The number; None if a million are too few.
    """

    def upper(n: int) -> float:
        if metric == "attack.auc":
            return clopper_pearson(n // 2, n, alpha)[1]
        if rate is None:
            return math.sqrt(2 / n) * (0.87 + math.sqrt(math.log(2 / alpha) / 2))
        # The k-th largest of n absent scores lets nearly k of as many others through.
        above = int(binom.isf(alpha / 4, n, rate)) + 1
        return clopper_pearson(min(above, n), n, alpha / 2)[1]

    from scipy.stats import binom

    sizes = range(10, _MOST // 2 + 1)
    place = bisect.bisect_left(sizes, x=True, key=lambda n: upper(n) <= limit)
    return 2 * sizes[place] if place < len(sizes) else None


def _targets(config: MembershipConfig) -> Iterator[str]:
    """Yield how many targets each gate about the trainings at hand needs to pass without a leak."""
    alpha = Plan(config).family.alpha / few(config.membership.calibrating_trainings)
    judged = {key.metric: key for key in Plan(config).keys if key.census}
    for gate in config.gate:
        metric = gate.judged
        if gate.of != "this-model" or gate.max in (None, "claim") or metric not in judged:
            continue
        at = gate.where.get("at", max(config.membership.rates))
        rate = float(at) if metric == "attack.tpr" else None
        needed = least_targets(metric, rate, float(gate.max), alpha)
        many = "more than a million" if needed is None else f"about {needed}"
        yield (
            f"The gate '{rule(gate)}' can pass with {many} targets of a unit if nothing leaks; "
            "targets cost no training."
        )


def decisions(config: MembershipConfig) -> Iterator[str]:
    """Yield what its trainings can decide of claims, and of gates about the next training.

    Of gates about the trainings at hand it yields how many targets a limit needs. Nothing is said
    of a config without any of these.
    """
    yield from _claims(config)
    yield from _targets(config)
    numbers = len(next_keys(config))
    if not numbers:
        return
    alpha, table = left_for_next(config, Plan(config).family), config.membership
    judged, calibrating = table.trainings - table.calibrating_trainings, table.calibrating
    most = 1 - config.audit.confidence
    needed = draws_needed(0, alpha)
    yield (
        f"The gates about the next training can pass with membership.trainings = "
        f"{trainings_for(needed, calibrating)}: {needed} are judged, and if none of them breaks a "
        f"gate's limit, the next one does with a probability of at most "
        f"{percent(next_exceeds(needed, 0), 2, ROUND_CEILING)}."
    )
    worst = least_certified(alpha, numbers)
    yield (
        f"A leak in every training fails them with {trainings_for(worst, calibrating)}, and a "
        f"blatant one with a single training, by its own interval."
    )
    first = least_certified(most, numbers) + min(FIRST, table.calibrating_trainings)
    if table.stop == "when-decided" and first < table.trainings:
        yield f"membership.stop = 'when-decided' ends them after {first} if each of these leaks."
    can = "pass and fail" if judged >= needed else "fail, and cannot pass"
    which = f"{judged} of which are judged" if table.trainings > 1 else "which is judged"
    count = f"{table.trainings} training{'s' if table.trainings > 1 else ''}"
    yield f"With {count}, {which}, they can {can}."


def _claims(config: MembershipConfig) -> Iterator[str]:
    """Yield which leaks above each claim would be found, and what finds a smaller one."""
    table, alpha = config.membership, Plan(config).family.alpha
    for model in config.recommender:
        claim = model.claim.claim() if model.claim else None
        for unit in table.units if claim else ():
            if claim and any(covers(claim, unit, seen) for seen in table.observers_of(model)):
                yield _power(model.label, claim, unit, table, alpha)


def _power(label: str, claim: Claim, unit: Unit, table: Membership, alpha: float) -> str:
    targets, judged = table.judged(unit), table.trainings - table.calibrating_trainings
    leak, factor, needed = _least_leak(claim, judged * targets, alpha)
    which = f"no leak of up to {LADDER[-1]:g} times as much"
    if leak:
        which = f"a leak of {leak[0]:g} times as much if the noise is {leak[1]}"
    forecast = (
        f"The claim ε = {claim.epsilon:g} of {label}: by forecast, {judged} judged trainings of "
        f"{targets} {unit}s find {which}"
    )
    if needed == math.inf:
        return f"{forecast}."
    trainings = trainings_for(math.ceil(needed / targets), table.calibrating)
    smaller = f"one of {factor:g} times takes membership.trainings = {trainings}"
    return f"{forecast}; {smaller}, or more targets."


def _least_leak(
    claim: Claim, coins: int, alpha: float
) -> tuple[tuple[float, Noise] | None, float, float]:
    """Return the least factor found, by which law, and the next smaller one with the coins of it.

    Of the laws of planted leaks, the one decides that takes most coins.
    """
    leak: tuple[float, Noise] | None = None
    for factor in reversed(LADDER):
        needed, noise = max(
            (coins_needed(claim.epsilon, factor, noise, claim.delta, alpha) or math.inf, noise)
            for noise in laws(claim.delta)
        )
        if needed > coins:
            return leak, factor, needed
        leak = factor, noise
    return leak, LADDER[0], math.inf
