"""When the trainings of a model are judged: at the end, or also before, so that a leak stops them.

The plan alone decides the looks, so a run is the same on any workers and after a resume. The first
look needs few trainings: three calibrate, and as many are judged as a leak in every training takes
to fail a gate. At the others all that calibrate do, and twice as many are judged each time.

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

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from dpaudit.auditor.trainings import least_certified
from dpaudit.audits.membership.calibration import Division, Rows
from dpaudit.audits.membership.training import Packed, Training
from dpaudit.execution.executor import Executor
from dpaudit.execution.tasks import Task
from dpaudit.record.result import FindingRecord

# The most trainings that calibrate at the first look.
FIRST = 3


@dataclass(frozen=True, eq=False)
class Look:
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
) -> list[Look]:
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
        *(Look(some, False, looks, intervals, spent) for some in early),
        Look(parts, True, looks, intervals, spent),
    ]


def stopped(look: Look, trainings: int, model: str, epsilon: float) -> FindingRecord:
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


@dataclass(frozen=True, eq=False)
class Trained:
    """The trainings of a model up to the look at which they ended.

    Attributes:
        rows: what each training shows; NaN for those that were not done.
        look: the look.
        probed: the results of the probes; None if they were not run.
    """

    rows: Sequence[Packed]
    look: Look
    probed: Sequence[Packed] | None


def train(
    training: Training,
    executor: Executor,
    looks: Sequence[Look],
    probes: Sequence[Task],
    decides: Callable[[Sequence[Packed], Look], bool],
) -> Trained:
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
    whole = looks[-1]
    count = len(whole.trainings)
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
            return Trained(some, look, (probed or None) if look is whole else None)
    raise AssertionError("the last look ends the trainings")


# The row of a training without a model.
_NOTHING: Packed = np.full(1, np.nan)


def _needs(parts: Division, blocks: Sequence[Sequence[int]]) -> int:
    """Return how many blocks have some of the trainings."""
    wanted = np.concatenate(parts)
    return sum(bool(np.isin(block, wanted).any()) for block in blocks)
