"""Positive controls: what a game finds on mutants of its mechanism whose noise is too small.

A game that certifies nothing speaks for a mechanism only if it certifies something on one that
breaks the claim. Power is therefore measured: the same pair, attack, number of trials and level are
used on a copy whose noise is that of a larger ε. Forecasts choose which copies are tried; no
forecast is reported.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from dpaudit.bounds.power.power import detectable_epsilon
from dpaudit.core.errors import DpauditError
from dpaudit.core.estimate import Estimate
from dpaudit.record.result import Control

# The factors by which a mutant's noise is too small for the claim.
LADDER = (1.25, 1.5, 2.0, 4.0)
# Factors that differ by less are one.
_SAME = 1e-9

D = TypeVar("D")


@dataclass(frozen=True)
class Bar:
    """What a control has to exceed.

    Attributes:
        limit: the ε.
        factor: the mutant that is asked for, as a multiple of the limit; None for the least of the
            ladder that a forecast expects to be found.
    """

    limit: float
    factor: float | None = None


@dataclass(frozen=True)
class Trial:
    """A game on the mechanism itself, of which the power is wanted.

    Attributes:
        epsilon: the claimed ε.
        delta: the claimed δ.
        estimate: what was certified.
        theory: the ε of the pair by its law, where it is known.
    """

    epsilon: float
    delta: float
    estimate: Estimate
    theory: Estimate | None = None

    @property
    def share(self) -> float:
        """About how much of the claimed ε the game shows; it only chooses what is tried."""
        shown = self.estimate.value if self.estimate.lower > 0 else 0.0
        if self.theory:
            shown = min(shown, self.theory.value)
        return min(1.0, shown / self.epsilon)


def mutant_of(defense: Any, factor: float) -> Any:
    """The same defense with the noise of `factor` times its ε; all else is as it was.

    Raises:
        ValueError: so large an ε is none that the defense takes.
    """
    return replace(defense, epsilon=factor * defense.epsilon)


def control_seed(seed: int, factor: float) -> int:
    """The seed of a control: its streams are shared with no other game of the run."""
    words = f"control/{seed}/{factor!r}".encode()
    return int.from_bytes(hashlib.blake2b(words, digest_size=8).digest(), "little")


def controls_of(
    certify: Callable[[float], float], trial: Trial, bars: Sequence[Bar] = ()
) -> tuple[Control, ...]:
    """Try mutants until each bar is exceeded, or the ladder ends.

    Args:
        certify: plays the game on the mutant with the noise of so many times the claimed ε, and
            returns the certified lower bound; raises where there is no such mutant.
        trial: the game on the mechanism itself.
        bars: what has to be exceeded besides the claim.

    Returns:
        What was tried, in the order of the factors. Nothing where the claim is infinite or broken
        by the game itself, or where so few trials certify no excess whatever they show.
    """
    tried: dict[float, Control] = {}
    if all(bar.limit != trial.epsilon for bar in bars):
        bars = (*bars, Bar(trial.epsilon))
    for bar in bars:
        if trial.estimate.lower > bar.limit or any(
            shows(control, bar.limit, bar.factor or LADDER[0]) for control in tried.values()
        ):
            continue
        for factor in _rungs(bar, trial):
            if factor not in tried:
                try:
                    certified = certify(factor)
                except (DpauditError, ValueError):  # no such mutant
                    break
                tried[factor] = Control(
                    mutant=f"noise for ε = {factor * trial.epsilon:.4g}",
                    factor=factor,
                    epsilon=factor * trial.epsilon,
                    certified=certified,
                    found=certified > trial.epsilon,
                )
            if tried[factor].certified > bar.limit:
                break
    return tuple(tried[factor] for factor in sorted(tried))


def reported(controls: Sequence[Control]) -> Control | None:
    """The control that says most: the least mutant that was found, else the last that was not."""
    found = [control for control in controls if control.found]
    return min(found, key=_size) if found else max(controls, key=_size, default=None)


def shows(control: Control, limit: float, factor: float) -> bool:
    """Whether a control exceeded a limit with noise for at most `factor` times that limit."""
    return control.certified > limit and control.epsilon <= factor * limit * (1 + _SAME)


def _size(control: Control) -> float:
    return control.factor


def _rungs(bar: Bar, trial: Trial) -> Iterator[float]:
    """The factors of the claim to try, increasing."""
    if not 0 < bar.limit < math.inf or math.isinf(trial.epsilon):
        return
    n, alpha = trial.estimate.n, trial.estimate.alpha
    least = detectable_epsilon(bar.limit, n, alpha, delta=trial.delta)
    if math.isinf(least):
        return
    unit = bar.limit / trial.epsilon
    if bar.factor is not None:
        yield unit * bar.factor
    for rung in LADDER:
        if rung > (bar.factor or 1.0) and (
            rung * bar.limit * trial.share >= least or rung == LADDER[-1]
        ):
            yield unit * rung
