"""Certify a lower bound on ε by a game, and measure what the same game finds of mutants.

Every game that bounds an ε goes this way: those of a config, of the catalogue, of a black box and
of membership. Its trials on both data sets become outcomes (`GameScores` or `CoinScores`), which
`bound` turns into a certificate. What chose the attack, the threshold or the direction is held out
by whoever makes the outcomes. A mutant is bounded by the same function.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, Self, TypeVar, overload

from dpaudit.auditor.games.controls import Bar, control_seed, dependable, reported, rungs, shows
from dpaudit.auditor.games.outcomes import CoinScores, GameScores
from dpaudit.bounds.frequentist.labels import LabelTest, label_epsilon
from dpaudit.bounds.frequentist.one_run import one_run_scores_epsilon
from dpaudit.core.errors import DpauditError
from dpaudit.core.estimate import Estimate
from dpaudit.core.messages import plain
from dpaudit.record.result import Family
from dpaudit.record.values import Control

D = TypeVar("D")
S = TypeVar("S")


@dataclass(frozen=True)
class Level:
    """The δ of a bound on ε, its level, and the confidence to state."""

    delta: float
    alpha: float
    confidence: float

    @classmethod
    def of(cls, family: Family, delta: float) -> Self:
        """Return the level of a bound that holds jointly with the others of a family."""
        return cls(delta, family.alpha, family.confidence)

    @property
    def dependable(self) -> Self:
        """The level at which one run of a mutant shows the power of the game at this one."""
        return replace(self, alpha=dependable(self.alpha))


@dataclass(frozen=True)
class FailedControl:
    """A mutant on which the game could not be run, so that it says nothing of the game's power.

    Attributes:
        mutant: how the mutant is made, in words.
        reason: why the run failed, in one sentence.
    """

    mutant: str
    reason: str

    def __str__(self) -> str:
        return f"the same game cannot be run on {self.mutant} ({self.reason})"


@dataclass(frozen=True, eq=False)
class Certificate(Generic[S]):
    """A bound on ε, with what it rests on.

    Attributes:
        outcomes: the outcomes of the trials that certify it.
        estimate: the bound.
        event: the event that certifies it; the method where no event was chosen.
        controls: what the same game certifies of mutants, by increasing size of the violation.
        failed: the mutants on which it could not be run.
    """

    outcomes: S
    estimate: Estimate
    event: LabelTest | str
    controls: tuple[Control, ...] = ()
    failed: tuple[FailedControl, ...] = ()

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of a measurement that hold it; controls are listed if there are several."""
        return {
            "estimate": self.estimate,
            "event": str(self.event),
            "control": reported(self.controls),
            "tried": self.controls if len(self.controls) > 1 else (),
        }


@overload
def bound(outcomes: GameScores, level: Level, seed: int) -> tuple[Estimate, LabelTest]: ...


@overload
def bound(
    outcomes: GameScores | CoinScores, level: Level, seed: int
) -> tuple[Estimate, LabelTest | str]: ...


def bound(
    outcomes: GameScores | CoinScores, level: Level, seed: int
) -> tuple[Estimate, LabelTest | str]:
    """Return a certified lower bound on ε, and the event that certifies it.

    Args:
        outcomes: scores that were made without the labels that they are tested with.
        level: the δ, level and confidence of the bound.
        seed: orders equal scores and chooses the trials of the pilot.

    Raises:
        InputError: a score is not finite, or there are too few.
    """
    if isinstance(outcomes, CoinScores):
        guesses = outcomes.guesses
        estimate = one_run_scores_epsilon(
            outcomes.scores,
            outcomes.coins,
            delta=level.delta,
            alpha=level.alpha,
            confidence=level.confidence,
            grid=guesses and [guesses],
            seed=seed,
        )
        if guesses:
            set_ = f"{sum(guesses)} guesses set beforehand"
            estimate = estimate.changed(method=f"one-run exact at δ = {level.delta:g}, {set_}")
        return estimate, estimate.method
    return label_epsilon(
        outcomes.absent,
        outcomes.present,
        delta=level.delta,
        alpha=level.alpha,
        confidence=level.confidence,
        coin_flipped=outcomes.coin_flipped,
        expected=outcomes.expected,
        log_odds=outcomes.log_odds,
        seed=seed,
    )


class Certifiable(Protocol[S]):
    """A game that bounds the ε of a mechanism, and of mutants that violate a limit."""

    def run(self) -> Certificate[S]:
        """Run the game on the mechanism."""
        ...

    def rungs(self, bar: Bar, certificate: Certificate[S]) -> Iterator[float]:
        """Yield the sizes of the violations to try until one exceeds the bar, increasing."""
        ...

    def control(self, rung: float, bar: Bar) -> Control | FailedControl | None:
        """Run the game on the mutants with this violation; None if there are none."""
        ...


def certify(game: Certifiable[S], bars: Sequence[Bar]) -> Certificate[S]:
    """Run a game, bound ε, and run the same game on mutants until it finds them.

    A mutant on which the game cannot be run counts neither as found nor as missing: the next larger
    one is tried, and the certificate names it.

    Args:
        game: the game.
        bars: limits that a mutant has to exceed; without any, no mutant is tried. Neither is one
            where the mechanism itself exceeds the limit.
    """
    certificate = game.run()
    tried: dict[float, Control] = {}
    failed: dict[float, FailedControl] = {}
    for bar in bars:
        if certificate.estimate.lower > bar.limit or any(
            shows(control, bar.limit, bar.least) for control in tried.values()
        ):
            continue
        for rung in game.rungs(bar, certificate):
            control = tried.get(rung) or failed.get(rung) or game.control(rung, bar)
            if control is None:
                break
            if isinstance(control, FailedControl):
                failed[rung] = control
                continue
            tried[rung] = control
            if control.certified > bar.limit:
                break
    return replace(
        certificate,
        controls=tuple(tried[rung] for rung in sorted(tried)),
        failed=tuple(failed[rung] for rung in sorted(failed)),
    )


@dataclass(frozen=True, eq=False)
class NoiseGame(Generic[D]):
    """A game whose mutants are copies of a mechanism with the noise of a larger ε.

    A mutant has streams of its own. It keeps the δ of the claim that it breaks.

    Attributes:
        mechanism: the mechanism.
        score: runs trials on a mechanism with a seed.
        weaken: returns the mechanism with the noise of so many times its ε; raises ValueError or a
            `DpauditError` if there is no such mutant.
        level: the level of the bound.
        seed: the seed of the trials on the mechanism itself.
        claimed: the claimed ε, of which a rung is a multiple; None if nothing is claimed, so that
            there are no mutants.
    """

    mechanism: D
    score: Callable[[D, int], GameScores | CoinScores]
    weaken: Callable[[D, float], D]
    level: Level
    seed: int
    claimed: float | None

    def certified(self, bars: Sequence[Bar] = ()) -> Certificate[Any]:
        """Certify, with mutants that have to exceed the claim and these limits."""
        if self.claimed is None:
            return self.run()
        claim = () if any(bar.limit == self.claimed for bar in bars) else (Bar(self.claimed),)
        return certify(self, (*bars, *claim))

    def run(self) -> Certificate[Any]:
        """Run the game on the mechanism itself."""
        return self._certificate(self.mechanism, self.seed)

    def rungs(self, bar: Bar, certificate: Certificate[Any]) -> Iterator[float]:
        """Yield multiples of the claim; none if too few trials could certify an excess."""
        truth = certificate.outcomes.truth
        yield from rungs(bar, certificate.estimate, self._claimed, self.level.delta, truth)

    def control(self, rung: float, bar: Bar) -> Control | FailedControl | None:
        """Run the same game with the noise of `rung` times the claimed ε."""
        try:
            mutant = self.weaken(self.mechanism, rung)
        except (DpauditError, ValueError):  # the mechanism takes no so large an ε
            return None
        epsilon = rung * self._claimed
        words = f"noise for ε = {epsilon:.4g}"
        try:
            outcomes = self.score(mutant, control_seed(self.seed, rung))
            lower = bound(outcomes, self.level.dependable, self.seed)[0].lower
        except (DpauditError, ValueError) as error:
            return FailedControl(words, plain(str(error)))
        return Control(
            mutant=words,
            factor=rung,
            epsilon=epsilon,
            certified=lower,
            found=lower > self._claimed,
        )

    @property
    def _claimed(self) -> float:
        return math.inf if self.claimed is None else self.claimed

    def _certificate(self, mechanism: D, seed: int) -> Certificate[Any]:
        outcomes = self.score(mechanism, seed)
        return Certificate(outcomes, *bound(outcomes, self.level, seed))
