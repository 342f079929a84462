"""What numbers of trainings decide before any is run, and when the trainings of a model are judged.

Trainings are judged at the end, or also before (a look), so that a leak stops them. The plan alone
decides the looks, so a run is the same on any workers and after a resume. The first look needs few
trainings: three calibrate, and as many are judged as a leak in every training takes to fail a gate.
At the others all that calibrate do, and twice as many are judged each time.

A gate fails at a look by `trainings.certified`: own intervals, and a wealth. It is wrong with a
probability of at most the level `alpha` of gates about the next training, for all looks together:

- The wealth may be looked at after every training (Ville), at the level alpha/2 for all numbers.
  That of the first look is about other attacks, calibrated by fewer trainings, so it is a test of
  its own, which only a leak in all its n trainings passes: of each number whose share of trainings
  beyond the limit is at most alpha with a probability of alpha^n.
- Each of the N numbers has n + J own intervals at all looks, for J judged trainings at most. They
  share what is left of the other half, alpha/2 - N alpha^n.

The level that is planned may become larger, as a bound turns out to decide no claim. What certifies
a share at the largest level does so at each smaller one, so a look takes the largest.

Passing takes the whole level and a number of trainings that is fixed beforehand, so it is for the
last look. Intervals that hold at one look only are not given before it, and a bound on ε has a
share of its level at each look.
"""

from __future__ import annotations

import bisect
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING
from itertools import chain
from typing import NamedTuple

import numpy as np

from dpaudit.auditor.games import LADDER
from dpaudit.auditor.gate import rule
from dpaudit.auditor.measure import MetricKey, picking
from dpaudit.auditor.plan import Plan
from dpaudit.audits.membership.calibration import Division, Rows, coins_needed, few, noise_laws
from dpaudit.audits.membership.config import MembershipConfig
from dpaudit.audits.membership.controls import FEWEST
from dpaudit.audits.membership.training import Packed, Training
from dpaudit.audits.membership.trainings import least_certified, trainings_for
from dpaudit.bounds.frequentist.intervals import clopper_pearson, draws_needed, next_exceeds
from dpaudit.config.gate import NEXT
from dpaudit.core.claim import Claim
from dpaudit.core.membership import covers
from dpaudit.core.rounding import percent
from dpaudit.execution.executor import Executor
from dpaudit.execution.tasks import Task
from dpaudit.record.metrics import entry
from dpaudit.record.result import Family, FindingRecord
from dpaudit.record.values import Noise

# The most trainings that calibrate at the first look.
FIRST = 3
# The most targets that are named.
_MOST = 1_000_000
# The row of a training without a model.
_NOTHING: Packed = np.full(1, np.nan)


@dataclass(frozen=True, eq=False)
class TrainingsLook:
    """Some trainings of a model, which are judged.

    Attributes:
        parts: those that calibrate, and those that are judged.
        last: whether these are all trainings of the plan.
        looks: how many looks the plan has.
        intervals: how many own intervals a number has at all of them.
        spent: the probability that the first look fails a gate wrongly by a number.
    """

    parts: Division
    last: bool = True
    looks: int = 1
    intervals: int = 1
    spent: float = 0.0

    @property
    def trainings(self) -> Rows:
        """The indices of the trainings, increasing."""
        return np.sort(np.concatenate(self.parts))


def planned(
    parts: Division, blocks: Sequence[Sequence[int]], alpha: float, most: float, numbers: int
) -> list[TrainingsLook]:
    """Return the looks at the trainings of a model, the last of which has all.

    Args:
        parts: all trainings.
        blocks: those that are trained together; a look that needs all blocks is the last.
        alpha: the level that is planned for gates about the next training.
        most: the largest level that may be left to them in the end.
        numbers: how many numbers these judge; 0 for one look, as nothing stops the trainings.
    """
    calibrating, judged = parts
    least = least_certified(most, numbers) if numbers else len(judged)
    sizes = [(min(FIRST, len(calibrating)), least)] if numbers else []
    count = 2 * least
    while count < len(judged):
        sizes.append((len(calibrating), count))
        count *= 2
    early = [
        Division(calibrating[:some], judged[:size]) for some, size in sizes if size < len(judged)
    ]
    early = [some for some in early if _needs(some, blocks) < _needs(parts, blocks)]
    looks, spent = 1 + len(early), alpha**least if early else 0.0
    intervals = len(judged) + (least if early else 0)
    return [
        *(TrainingsLook(some, False, looks, intervals, spent) for some in early),
        TrainingsLook(parts, True, looks, intervals, spent),
    ]


def stopped(look: TrainingsLook, trainings: int, model: str, epsilon: float) -> FindingRecord:
    """Return the finding that a look ended the trainings before the last one.

    Args:
        look: the look.
        trainings: how many the plan has.
        model: the model's label.
        epsilon: the ε of the sweep.
    """
    calibrating, judged = map(len, look.parts)
    which = "Stopped" if math.isinf(epsilon) else f"At ε = {epsilon:g} stopped"
    return FindingRecord(
        model=model,
        about="stopped",
        text=f"{which} after {judged} judged trainings, which {calibrating} others calibrate, of "
        f"{trainings}: a gate about the next training fails. What is shown is of these "
        "trainings alone.",
        remedy="Set membership.stop = 'at-end' to have all of them, for the other gates and for "
        "intervals of means.",
        undecided=True,
        epsilon=epsilon,
    )


class FinishedTrainings(NamedTuple):
    """The trainings of a model up to the look at which they ended.

    Attributes:
        rows: what each training shows; NaN for those that were not done.
        look: the look.
        probed: the results of the probes; None if they were not run.
    """

    rows: Sequence[Packed]
    look: TrainingsLook
    probed: Sequence[Packed] | None


def train(
    training: Training,
    executor: Executor,
    looks: Sequence[TrainingsLook],
    probes: Sequence[Task],
    decides: Callable[[Sequence[Packed], TrainingsLook], bool],
) -> FinishedTrainings:
    """Train a model until a look decides, or the plan ends.

    Args:
        training: the work of one training.
        executor: runs it. Shards and samples run all at once.
        looks: the plan.
        probes: further tasks, for the last look.
        decides: whether what trainings show at a look ends them.

    Raises:
        UnfinishedError: other shards have some of the results.
    """
    count, whole = len(looks[-1].trainings), looks[-1]
    blocks = training.parts(count)
    rows: dict[int, Packed] = {}
    probed: list[Packed] = []
    at_once = executor.shard is not None or executor.sampler is not None
    for look in looks:
        upto = whole if at_once else look
        open_ = [b for b in blocks if b[0] not in rows and np.isin(b, upto.trainings).any()]
        more = probes if upto is whole and open_ else ()
        tasks = (Task(training.together, b, len(b), "training", dear=True) for b in open_)
        results = executor.run(chain(tasks, more))
        for block, shown in zip(open_, results, strict=False):
            rows |= zip(block, shown, strict=True)
        probed += results[len(open_) :]
        some = [rows[index] if index in look.trainings else _NOTHING for index in range(count)]
        if look is whole or decides(some, look):
            undone = count - len(rows) + (0 if probed else len(probes))
            executor.progress.expect(-undone)
            return FinishedTrainings(some, look, (probed or None) if look is whole else None)
    raise AssertionError("the last look ends the trainings")


def _needs(parts: Division, blocks: Sequence[Sequence[int]]) -> int:
    """Return how many blocks have some of the trainings."""
    wanted = np.concatenate(parts)
    return sum(bool(np.isin(block, wanted).any()) for block in blocks)


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
            taken += key.statement is not None
        elif key.counted:
            bound = key.metric == "epsilon" and key.model in claimed
            taken += bound or bool(picking(config, key))
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
    keys, judged = Plan(config).keys, set(next_keys(config))
    points = Counter(
        (key.model, key.epsilon, key.attacker)
        for key in keys
        if key.metric == "attack.advantage" and key.statement is None
    )
    return sum(
        points[key.model, key.epsilon, key.attacker] if key.metric == "leak" else 1
        for key in judged
    )


def least_targets(metric: str, rate: float | None, limit: float, alpha: float) -> int | None:
    """Return the least number of targets with which a model without a leak may keep a limit.

    Half of them are present. The upper limits of `bounds.frequentist.roc` are taken at what
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
    """Yield how many targets each gate about the training that ships needs to pass."""
    table = config.membership
    each = table.trainings if table.ships == "each" else 1
    alpha = Plan(config).family.alpha / few(table.trainings - 1) / each
    judged = {key.metric for key in Plan(config).keys if key.census}
    for gate in config.gate:
        metric = gate.judged
        if gate.of != "this-model" or gate.max in (None, "claim") or metric not in judged:
            continue
        at = gate.where.get("at", max(config.membership.rates))
        rate = float(at) if metric == "attack.tpr" else None
        needed = least_targets(metric, rate, float(gate.max), alpha)
        many = "more than a million" if needed is None else f"about {needed}"
        if config.membership.trainings < FEWEST and gate.attacker is None:
            yield (
                f"The gate '{rule(gate)}' can fail, and not pass, with fewer than {FEWEST} "
                "trainings, which do not show how much answers vary, so that no leak is planted."
            )
            continue
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
    judged = table.trainings - table.calibrating_trainings
    for model in config.recommender:
        claim = model.claim.claim() if model.claim else None
        for unit in table.units if claim else ():
            if not claim or not any(covers(claim, unit, s) for s in table.observers_of(model)):
                continue
            targets = table.judged(unit)
            leak, factor, needed = _least_leak(claim, judged * targets, alpha)
            which = f"no leak of up to {LADDER[-1]:g} times as much"
            if leak:
                which = f"a leak of {leak[0]:g} times as much if the noise is {leak[1]}"
            trainings = ""
            if needed != math.inf:
                count = trainings_for(math.ceil(needed / targets), table.calibrating)
                trainings = (
                    f"; one of {factor:g} times takes membership.trainings = {count}, or more "
                    "targets"
                )
            yield (
                f"The claim ε = {claim.epsilon:g} of {model.label}: by forecast, {judged} judged "
                f"trainings of {targets} {unit}s find {which}{trainings}."
            )


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
            for noise in noise_laws(claim.delta)
        )
        if needed > coins:
            return leak, factor, needed
        leak = factor, noise
    return leak, LADDER[0], math.inf
