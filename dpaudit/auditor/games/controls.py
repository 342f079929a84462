"""Positive controls: what a game certifies on mutants, copies of a mechanism that leak more.

That a game certifies nothing is evidence for a mechanism only if the same game certifies something
on a mechanism that breaks the claim. Power is therefore measured: the game is run with the same
pair, attack and number of trials on a mutant, such as a copy whose noise is that of a larger ε, and
must find it with room to spare (`certify.Level.dependable`): finding it once may be luck. Forecasts
only choose which mutants are tried; they are not reported.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dpaudit.bounds.planning import found_from
from dpaudit.core.estimate import Estimate
from dpaudit.record.values import TRACE, Control

# Factors to try: a mutant's ε as a multiple of the limit.
LADDER = (1.25, 1.5, 2.0, 3.0, 4.0)
# The power that a mutant has to show, and the confidence in it.
_POWER, _SURE = 0.78, 0.95
# Factors that differ by less than this, relatively, count as equal.
_SAME = 1e-9


@dataclass(frozen=True)
class Bar:
    """A limit on ε that a control has to exceed.

    Attributes:
        limit: the ε.
        factor: the ε of the mutant to try, as a multiple of the limit; None for the smallest factor
            of `LADDER` that is forecast to be found.
    """

    limit: float
    factor: float | None = None

    @property
    def least(self) -> float:
        """The factor up to which a mutant that is found leaves nothing to try."""
        return self.factor or LADDER[0]


def mutant_of(defense: Any, factor: float) -> Any:
    """Return the same defense with the noise of `factor` times its ε.

    Raises:
        ValueError: the defense does not accept so large an ε.
    """
    return replace(defense, epsilon=factor * defense.epsilon)


def control_seed(seed: int, factor: float) -> int:
    """Return the seed of a control, which shares no stream with any other game of the run."""
    words = f"control/{seed}/{factor!r}".encode()
    return int.from_bytes(hashlib.blake2b(words, digest_size=8).digest(), "little")


def dependable(alpha: float) -> float:
    """Return the level at which one run of a game on a mutant shows its power at the level α.

    A number of right guesses that is significant at α' is at least z(1 − α') standard deviations
    above its mean at the limit. Less z(.95) of these, which one run may be above its own mean, and
    less z(1 − α), from which on the mutant is found, z(.78) are left for

        z(1 − α') = z(1 − α) + z(.95) + z(.78),

    as guesses that are right more often vary less. So with 95 % confidence the game finds at least
    78 % of such mutants, which 19 of 20 runs would show too (Clopper & Pearson 1934).

    Args:
        alpha: the level of the game's bound.
    """
    from scipy.special import ndtr, ndtri

    return float(ndtr(ndtri(alpha) - ndtri(_SURE) - ndtri(_POWER)))


def rungs(
    bar: Bar, estimate: Estimate, claimed: float, delta: float, truth: Estimate | None
) -> Iterator[float]:
    """Yield the multiples of the claim to try as a mutant's ε until one exceeds the bar.

    The factor of the bar comes first. Of the ladder, those are left out that the game is forecast
    to miss rather than find, by the share of the claimed ε that it shows; but not the last.

    Args:
        bar: the limit to exceed.
        estimate: what the game certifies of the mechanism itself.
        claimed: the claimed ε; nothing is tried if it is infinite.
        delta: the δ.
        truth: the ε of the pair by the law of its noise, if known.
    """
    if not 0 < bar.limit < math.inf or math.isinf(claimed):
        return
    level = dependable(estimate.alpha)
    least = found_from(bar.limit, estimate.n, level, delta=delta, power=0.5)
    if math.isinf(least):
        return
    shown = estimate.value if estimate.lower > 0 else 0.0
    if truth:
        shown = min(shown, truth.value)
    share = min(1.0, shown / claimed)
    unit = bar.limit / claimed
    if bar.factor is not None:
        yield unit * bar.factor
    for rung in LADDER:
        if rung > (bar.factor or 1.0) and (rung * bar.limit * share >= least or rung == LADDER[-1]):
            yield unit * rung


def reported(controls: Sequence[Control]) -> Control | None:
    """Return the control to report: the smallest mutant found, else the largest one tried.

    Traces of what was deleted are reported where nothing else was tried.
    """
    controls = [control for control in controls if control.noise != TRACE] or controls
    successes = [control for control in controls if control.found]
    return min(successes, key=_factor) if successes else max(controls, key=_factor, default=None)


def shows(control: Control, limit: float, factor: float) -> bool:
    """Whether a control exceeded a limit with noise for at most `factor` times that limit."""
    return control.certified > limit and control.epsilon <= factor * limit * (1 + _SAME)


def _factor(control: Control) -> float:
    return control.factor
