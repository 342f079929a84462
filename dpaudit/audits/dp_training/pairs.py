"""Checks of two trainings on different data, with the same noised sums put in place.

DP-SGD is private because all that it releases, and all that it decides, follows from its noised
sums. So a training on other data whose gradients G are replaced by the recorded ones has to take
the same decisions: steps, learning rates, buffers, weights. What differs is a function of the data
that no noise hides, and tells two data sets apart with certainty. Data sets that differ in all rows
are as sound as neighbours: between them lies a chain of neighbours, and a decision that differs at
its ends differs somewhere between.

**One row.** Three data sets are alike but for their last row (or the last rows of one user): it is
another user's with another item in each. A training draws the same batches of all three, whatever
its generators are. Where the sums of the second and the third agree, and that of the first differs,
the difference is the first row's clipped gradient alone, as others' embeddings are not its own:
its norm there is at most C. Of a network all of whose weights are shared it is a part, so a fault
may be missed, and none is invented.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from dpaudit.audits.dp_training.law import ALPHA, Law
from dpaudit.audits.dp_training.transcript import Setup, Transcript, Vector
from dpaudit.audits.dp_training.verdict import Verdict, failed, held, judged, not_tested

Changes = NDArray[np.float64]
# What rounding changes of a sum, in units of C; and of its norm. A row that is clipped has at least
# this part of its norm on coordinates of its own, or the check says nothing.
_SAME, _ABOVE, _CLIPPED = 1e-4, 1.002, 0.5


def sums(runs: Sequence[Transcript], law: Law, own: int = 1) -> Verdict:
    """Check that a row, or a user, changes the sum of a batch by a norm of C or less.

    Args:
        runs: the trainings on the three data sets, with the same sums put in place.
        law: what they state.
        own: how many rows are alone in each.
    """
    steps = list(zip(*(run.steps for run in runs), strict=False))
    if any(len({step.rows for step in alike}) > 1 for alike in steps):
        why = "batches of data sets of one size differ in size, so draws depend on what rows say"
        return not_tested("sum", why, "draw batches and negatives by numbers of rows and items")
    changes = np.array([_change(*(step.sums for step in alike)) for alike in steps])
    if not np.isfinite(changes).all():
        return not_tested("sum", "gradients are not finite with weights that are enlarged")
    return _judged(changes[:, 0], changes[:, 1], law, own)


def _judged(alone: Changes, everywhere: Changes, law: Law, own: int) -> Verdict:
    """Judge the norms by which sums change on coordinates of the row alone, and everywhere."""
    from scipy.stats import binom

    # Which batches take one of the rows is not known; so many do so by chance.
    taken = int(binom.isf(ALPHA, len(alone), law.taken(own)))
    others = np.sort(everywhere)[: max(0, len(alone) - taken)]
    moved = others[others > _SAME]
    if len(moved):
        text = f"{len(moved)} batches without the row have another sum, by up to {moved.max():.3g} "
        text += "C, as other rows are read in the light of it"
        return failed("sum", text, law.of_shift(float((moved**2).sum())))
    if not (everywhere > _SAME).any():
        return not_tested("sum", "what differs was in no batch", "make more steps")
    largest = float(alone.max())
    said = f"one unit changes the sum of a batch by {largest:.4g} C on its own coordinates"
    if largest > _ABOVE:
        implied = law.changed(noise=1 / largest).epsilon
        return failed("sum", f"{said}, and by C at most if it is clipped", implied)
    if largest < _CLIPPED:
        why = f"{said}, so its gradient was not clipped, or is shared with others'"
        return not_tested("sum", why, "lower the norm")
    return held("sum", said, f"a change by {_ABOVE:g} C")


def _change(one: Vector | None, second: Vector | None, third: Vector | None) -> tuple[float, float]:
    """Return what the row of the first data set does to the sum of a step.

    Returns:
        The norm of the change, in units of C, where the other two data sets agree; and everywhere.
    """
    if one is None or second is None or third is None:
        return 0.0, 0.0
    if not one.shape == second.shape == third.shape:
        return math.inf, math.inf
    change = one.astype(np.float64) - second
    alone = np.abs(second - third) <= _SAME
    return float(np.linalg.norm(change[alone])), float(np.linalg.norm(change))


def forced(one: Transcript, other: Transcript) -> Verdict:
    """Check that a training with the same noised sums takes the same decisions.

    Args:
        one: the training.
        other: the training on other data.
    """
    difference = next(_differences(one, other), "")
    kept, steps = len(one.kept), f"{len(one.steps)} steps"
    noise = f" in {kept} steps and the same noise in the others" if kept < len(one.steps) else ""
    decisions = difference or f"{steps} and all that they decide are the same"
    text = f"with the same noised sums{noise}, {decisions} on data with other values, users and "
    text += "items"
    least = "a decision that differs between these data sets"
    return judged("transcript", bool(difference), text, least)


def _differences(one: Transcript, other: Transcript) -> Iterator[str]:
    """Yield what differs, as clauses."""
    if one.setup.coordinates != other.setup.coordinates:
        sizes = f"{other.setup.coordinates:,} instead of {one.setup.coordinates:,}"
        yield f"the model has {sizes} parameters"
    for index, (a, b) in enumerate(zip(one.steps, other.steps, strict=False)):
        if a.state != b.state:
            yield f"weights, buffers or learning rates before step {index + 1} differ"
    if len(one.steps) != len(other.steps):
        more = "more than " if len(other.steps) > len(one.steps) else f"{len(other.steps)} and not "
        yield f"the training makes {more}{len(one.steps)} steps"
    elif one.final != other.final:
        yield "the final weights, or what the training returns, differ"


def by_number(setups: Sequence[tuple[Setup, Setup]], law: Law, claimed: float) -> Verdict:
    """Check that what is settled before the first step does not tell the number of rows.

    Where the divisor, the noise or the number of steps depends on n, the scale of what reaches the
    weights does, in every step and coordinate. What this tells is judged by its size, so that a
    noise that is calibrated from q = B/n is not accused.

    Args:
        setups: what is settled for n rows, and for a neighbour; at least one pair.
        law: what the training states.
        claimed: the claimed ε.
    """
    sized = [(_of_number(one, other, law), one, other) for one, other in setups]
    implied, one, other = max(sized, key=lambda size: size[0])
    if not implied:
        text = "neighbouring numbers of rows have the same divisor, noise and steps"
        return held("number", text, "a divisor, noise or number of steps that differs")
    text = f"{_numbers(one, other)}: this tells the number of rows, ε = {implied:.3g} by itself"
    text += "" if implied > claimed else ", less than is claimed"
    least = "a larger dependence than the claim"
    return judged("number", implied > claimed, text, least, implied)


def _numbers(one: Setup, other: Setup) -> str:
    """Say what differs between two settings."""
    parts = {
        "the divisor is": (one.divisor, other.divisor),
        "the standard deviation of the noise is": (_spread(one), _spread(other)),
        "an epoch has steps:": (one.steps, other.steps),
    }
    said = [f"{what} {a:.6g} and {b:.6g}" for what, (a, b) in parts.items() if a != b and a and b]
    return f"with {one.records:,} and {other.records:,} rows {', '.join(said)}"


def _spread(setup: Setup) -> float:
    return setup.noise_multiplier * setup.bound


def _of_number(one: Setup, other: Setup, law: Law) -> float:
    """Return the ε by which an observer of all steps, or of the final weights, tells n."""
    # A scale of nearly 1 is that of a float that rounds otherwise.
    scale = _spread(one) * other.divisor / (_spread(other) * one.divisor)
    in_steps = law.of_scale(scale) if abs(scale - 1) > 1e-12 else 0.0
    if not one.steps or not other.steps or one.steps == other.steps:
        return in_steps
    # The weights without gradient are a sum of T draws, so their scale grows with √T.
    final = law.changed(steps=1).of_scale(math.sqrt(other.steps / one.steps) / scale)
    return max(in_steps, final)
