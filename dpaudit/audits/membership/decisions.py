"""What numbers of trainings decide, before any is run."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from decimal import ROUND_CEILING

from dpaudit.auditor.games.controls import LADDER
from dpaudit.auditor.measure import MetricKey, picked
from dpaudit.auditor.needed import coins_needed
from dpaudit.auditor.plan import family_of, plan
from dpaudit.auditor.trainings import NEXT, least_certified, trainings_for
from dpaudit.audits.membership.config import Membership, MembershipConfig
from dpaudit.audits.membership.looks import FIRST
from dpaudit.audits.membership.planted import laws
from dpaudit.bounds.frequentist.next_draw import draws_needed, next_exceeds
from dpaudit.core.claim import Claim
from dpaudit.core.membership import Unit, covers
from dpaudit.core.rounding import percent
from dpaudit.record.metrics import entry
from dpaudit.record.result import Family, Noise


def left_for_next(config: MembershipConfig, family: Family) -> float:
    """Return the error probability that is left to all gates about the next training.

    The joint intervals that decide a claim or another gate take theirs.
    """
    claimed = {model.label for model in config.model}
    claimed |= {model.label for model in config.recommender if model.claim}
    taken = 0
    for key in plan(config):
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
    keys = [key for key in plan(config) if key.census]
    gates = [gate for gate in config.gate if gate.of in NEXT]
    return [key for gate in gates for key in keys if gate.picks(asdict(key), forgets=key.forgets)]


def own_intervals(config: MembershipConfig) -> int:
    """Return how many intervals of their own these numbers have in one training.

    A leak has those of the advantages of its model.
    """
    points = Counter(
        (key.model, key.epsilon) for key in plan(config) if key.metric == "attack.advantage"
    )
    return sum(
        points[key.model, key.epsilon] if key.metric == "leak" else 1
        for key in set(next_keys(config))
    )


def decisions(config: MembershipConfig) -> Iterator[str]:
    """Yield what its trainings can decide of claims, and of gates about the next training.

    Nothing is said of a config without either.
    """
    yield from _claims(config)
    numbers = len(next_keys(config))
    if not numbers:
        return
    alpha, table = left_for_next(config, family_of(config, None)), config.membership
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
    table, alpha = config.membership, family_of(config, None).alpha
    for model in config.recommender:
        claim = model.claim.claim() if model.claim else None
        for unit in table.units if claim else ():
            if claim and any(covers(claim, unit, seen) for seen in table.observers_of(model)):
                yield _power(model.label, claim, unit, table, alpha)


def _power(label: str, claim: Claim, unit: Unit, table: Membership, alpha: float) -> str:
    targets, judged = table.judged(unit), table.trainings - table.calibrating_trainings
    found, factor, needed = _found(claim, judged * targets, alpha)
    which = f"no leak of up to {LADDER[-1]:g} times as much"
    if found:
        which = f"a leak of {found[0]:g} times as much if the noise is {found[1]}"
    said = (
        f"The claim ε = {claim.epsilon:g} of {label}: by forecast, {judged} judged trainings of "
        f"{targets} {unit}s find {which}"
    )
    if needed == math.inf:
        return f"{said}."
    trainings = trainings_for(math.ceil(needed / targets), table.calibrating)
    smaller = f"one of {factor:g} times takes membership.trainings = {trainings}"
    return f"{said}; {smaller}, or more targets."


def _found(
    claim: Claim, coins: int, alpha: float
) -> tuple[tuple[float, Noise] | None, float, float]:
    """Return the least factor found, by which law, and the next smaller one with the coins of it.

    Of the laws of planted leaks, the one decides that takes most coins.
    """
    found: tuple[float, Noise] | None = None
    for factor in reversed(LADDER):
        needed, noise = max(
            (coins_needed(claim.epsilon, factor, noise, claim.delta, alpha) or math.inf, noise)
            for noise in laws(claim.delta)
        )
        if needed > coins:
            return found, factor, needed
        found = factor, noise
    return found, LADDER[0], math.inf
