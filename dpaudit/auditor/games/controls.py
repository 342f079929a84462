"""Positive controls: what a game certifies on mutants, copies of a defense with too little noise.

That a game certifies nothing is evidence for a mechanism only if the same game certifies something
on a mechanism that breaks the claim. Power is therefore measured: the game is run with the same
pair, attack, number of trials and level on a copy whose noise is that of a larger ε. Forecasts only
choose which copies are tried; they are not reported.
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

# Factors to try: a mutant's ε as a multiple of the limit.
LADDER = (1.25, 1.5, 2.0, 4.0)
# Factors that differ by less than this, relatively, count as equal.
_SAME = 1e-9

D = TypeVar("D")


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


@dataclass(frozen=True)
class GameResult:
    """A game on the mechanism itself, whose power is to be measured.

    Attributes:
        epsilon: the claimed ε.
        delta: the claimed δ.
        estimate: the certified bound.
        theory: the ε of the pair by the law of its noise, if known.
    """

    epsilon: float
    delta: float
    estimate: Estimate
    theory: Estimate | None = None

    @property
    def share(self) -> float:
        """Rough share of the claimed ε that the game shows; only chooses which mutants to try."""
        shown = self.estimate.value if self.estimate.lower > 0 else 0.0
        if self.theory:
            shown = min(shown, self.theory.value)
        return min(1.0, shown / self.epsilon)


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


def controls_of(
    certify: Callable[[float], float], result: GameResult, bars: Sequence[Bar] = ()
) -> tuple[Control, ...]:
    """Try mutants until each bar is exceeded, or the ladder ends.

    Args:
        certify: takes a factor, runs the game on the mutant with the noise of that many times the
            claimed ε, and returns the certified lower bound; raises if there is no such mutant.
        result: the game on the mechanism itself.
        bars: limits to exceed besides the claim.

    Returns:
        The controls tried, by increasing factor. Empty if the claim is infinite or the game itself
        broke it, or if there are too few trials to certify an excess over the claim at all.
    """
    tried: dict[float, Control] = {}
    if all(bar.limit != result.epsilon for bar in bars):
        bars = (*bars, Bar(result.epsilon))
    for bar in bars:
        if result.estimate.lower > bar.limit or any(
            shows(control, bar.limit, bar.factor or LADDER[0]) for control in tried.values()
        ):
            continue
        for factor in _rungs(bar, result):
            if factor not in tried:
                try:
                    certified = certify(factor)
                except (DpauditError, ValueError):  # no such mutant
                    break
                tried[factor] = Control(
                    mutant=f"noise for ε = {factor * result.epsilon:.4g}",
                    factor=factor,
                    epsilon=factor * result.epsilon,
                    certified=certified,
                    found=certified > result.epsilon,
                )
            if tried[factor].certified > bar.limit:
                break
    return tuple(tried[factor] for factor in sorted(tried))


def reported(controls: Sequence[Control]) -> Control | None:
    """Return the control to report: the smallest mutant found, else the largest one tried."""
    found = [control for control in controls if control.found]
    return min(found, key=_size) if found else max(controls, key=_size, default=None)


def shows(control: Control, limit: float, factor: float) -> bool:
    """Whether a control exceeded a limit with noise for at most `factor` times that limit."""
    return control.certified > limit and control.epsilon <= factor * limit * (1 + _SAME)


def _size(control: Control) -> float:
    return control.factor


def _rungs(bar: Bar, result: GameResult) -> Iterator[float]:
    """Yield the factors to try, as multiples of the claim, increasing."""
    if not 0 < bar.limit < math.inf or math.isinf(result.epsilon):
        return
    n, alpha = result.estimate.n, result.estimate.alpha
    least = detectable_epsilon(bar.limit, n, alpha, delta=result.delta)
    if math.isinf(least):
        return
    unit = bar.limit / result.epsilon
    if bar.factor is not None:
        yield unit * bar.factor
    for rung in LADDER:
        if rung > (bar.factor or 1.0) and (
            rung * bar.limit * result.share >= least or rung == LADDER[-1]
        ):
            yield unit * rung
