"""Distinguish two neighbouring data sets, certify ε by that, and find mutants by the same game.

Every game that bounds an ε goes this way: those of a config, of the catalogue, of a black box and
of membership. Its trials on both data sets become outcomes (`GameScores` or `CoinScores`), which
`bound` turns into a certificate. What chose the attack, the threshold or the direction is held out
by whoever makes the outcomes. A mutant is bounded by the same function.

**Positive controls.** That a game certifies nothing is evidence for a mechanism only if the same
game certifies something on a mechanism that breaks the claim. Power is therefore measured: the game
is run with the same pair, attack and number of trials on a mutant, such as a copy whose noise is
that of a larger ε, and must find it with room to spare (`Level.dependable`): finding it once may be
luck. Forecasts only choose which mutants are tried; they are not reported.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from operator import attrgetter
from typing import Any, Generic, Protocol, Self, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from dpaudit.attacks.base import Distinguisher, LearnedDistinguisher
from dpaudit.auditor import trainings
from dpaudit.bounds.frequentist.labels import Ends, LabelTest, label_epsilon
from dpaudit.bounds.frequentist.one_run import one_run_scores_epsilon
from dpaudit.bounds.planning import found_from
from dpaudit.core.errors import DpauditError
from dpaudit.core.estimate import Estimate
from dpaudit.core.messages import plain
from dpaudit.core.releases import Observer, PreparedPair
from dpaudit.core.streams import Streams
from dpaudit.execution.executor import INLINE, Executor
from dpaudit.execution.tasks import Task
from dpaudit.record.result import Family
from dpaudit.record.values import TRACE, Control


@dataclass(frozen=True, eq=False)
class GameScores:
    """The scores of independent trials on two data sets.

    Attributes:
        absent: the attack's score in each trial on D `(T,)`.
        present: its score in each trial on D' `(T,)`.
        truth: the ε of this pair by the law of the mechanism, if known.
        coin_flipped: whether a fair coin chose the data set of each trial; else the numbers of
            trials are fixed.
        expected: the ends of the scores that the event takes if a pilot is not informative.
        log_odds: whether scores estimate the log-odds of D' up to a factor and a constant.
    """

    absent: NDArray[np.float64]
    present: NDArray[np.float64]
    truth: Estimate | None = None
    coin_flipped: bool = False
    expected: Ends = "top"
    log_odds: bool = False


@dataclass(frozen=True, eq=False)
class CoinScores:
    """The scores of targets whose coins decide the data of a few trainings, and these coins.

    Attributes:
        scores: large where the coin is guessed to be 1 `(trainings · targets,)`.
        coins: the coins, 0 or 1 `(trainings · targets,)`.
        trainings: number of trainings.
        guesses: the numbers of coins to guess as 1 and as 0, set without these coins; None to
            choose among a few numbers, which share the level.
        truth: the ε by the law of the mechanism, if known.
    """

    scores: NDArray[np.float64]
    coins: NDArray[np.int64] | NDArray[np.bool_]
    trainings: int
    guesses: tuple[int, int] | None = None
    truth: Estimate | None = None


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
    factor = attrgetter("factor")
    return min(successes, key=factor) if successes else max(controls, key=factor, default=None)


def shows(control: Control, limit: float, factor: float) -> bool:
    """Whether a control exceeded a limit with noise for at most `factor` times that limit."""
    return control.certified > limit and control.epsilon <= factor * limit * (1 + _SAME)


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
            outcomes.scores, outcomes.coins, **vars(level), grid=guesses and [guesses], seed=seed
        )
        if guesses:
            set_ = f"{sum(guesses)} guesses set beforehand"
            estimate = estimate.changed(method=f"one-run exact at δ = {level.delta:g}, {set_}")
        return estimate, estimate.method
    return label_epsilon(
        outcomes.absent,
        outcomes.present,
        **vars(level),
        coin_flipped=outcomes.coin_flipped,
        expected=outcomes.expected,
        log_odds=outcomes.log_odds,
        seed=seed,
    )


class Certifiable(Protocol[S]):
    """A game that bounds the ε of a mechanism, and of mutants that violate a limit."""

    def run(self) -> Certificate[S]:
        """Run the game on the mechanism."""

    def rungs(self, bar: Bar, certificate: Certificate[S]) -> Iterator[float]:
        """Yield the sizes of the violations to try until one exceeds the bar, increasing."""

    def control(self, rung: float, bar: Bar) -> Control | FailedControl | None:
        """Run the game on the mutants with this violation; None if there are none."""


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
        outcomes = self.score(self.mechanism, self.seed)
        return Certificate(outcomes, *bound(outcomes, self.level, self.seed))

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
            mutant=words, factor=rung, epsilon=epsilon, certified=lower, found=lower > self._claimed
        )

    @property
    def _claimed(self) -> float:
        return math.inf if self.claimed is None else self.claimed


P = TypeVar("P")

# The score of an output that only one of the data sets can produce.
CERTAIN = 1e300
# The score of a trial whose training ends without a model, which the attacker sees. No other trial
# has it, and the test finds out in which data set it is likelier.
NO_MODEL = 2 * CERTAIN
# The fewest trials with a model, on each data set, that a learned attack is fitted on.
_FITTED = 8


@dataclass(frozen=True, eq=False)
class DistinguishingGame(Generic[P]):
    """A game in which one attack distinguishes D' from D by the view of one observer.

    Attributes:
        observer: the observer.
        pair: the two data sets, prepared.
        attack: the attack; its `reads` must contain what the observer is shown.
    """

    observer: Observer[P]
    pair: PreparedPair[P]
    attack: Distinguisher | LearnedDistinguisher

    def run(self, *, trials: int, seed: int, executor: Executor = INLINE) -> GameScores:
        """Run the mechanism in `trials` trials on D and as many on D', and score each.

        Every trial draws its own noise; D and D' share no stream. A learned attack is fitted on
        separate trials, which share no stream with those that are scored. A trial whose training
        ends without a model has the score `NO_MODEL`: whether it does may depend on the data, so
        this is part of what the mechanism shows.

        Args:
            trials: number of trials on each data set.
            seed: seed of every random stream.
            executor: runs the blocks of trials; the result does not depend on it.

        Raises:
            ConfigError: the observer sees nothing of this pair, or always the same.
        """

        def reads(of: Callable[[P, Streams], NDArray[Any]], purpose: str, count: int) -> list[Read]:
            return [
                (
                    partial(of, shown),
                    Streams.first(seed, f"{self.observer.purpose}/{purpose}{name}", count),
                )
                for shown, name in ((self.pair.before, "absent"), (self.pair.after, "present"))
            ]

        attack, size = self.attack, self.observer.block
        if isinstance(attack, LearnedDistinguisher):
            fitted = reads(self._features, "fit/", attack.fitted_on)
            scored = reads(self._features, "play/", trials)
            *seen, absent, present = in_blocks([*fitted, *scored], size, executor)
            score = _fitted(attack, *(rows[rows[:, 0] == 0, 1:] for rows in seen))
            return GameScores(score(absent), score(present))
        absent, present = in_blocks(reads(self._score, "", trials), size, executor)
        return GameScores(absent, present)

    def _score(self, shown: P, streams: Streams) -> NDArray[np.float64]:
        """Sum the scores of the views, clipped because infinities of both signs cannot be summed.

        Bounds also need finite scores.
        """
        attack = self.attack
        if isinstance(attack, LearnedDistinguisher):
            raise TypeError(f"{attack.name} learns its score")

        def summed(part: Streams) -> NDArray[np.float64]:
            total = np.zeros(len(part))
            for release, knowledge in self.observer.views(self.pair, shown, part):
                total += np.clip(attack.score(release, knowledge), -CERTAIN, CERTAIN)
            return np.clip(total, -CERTAIN, CERTAIN)

        return trainings.outcomes(summed, streams, np.array([NO_MODEL]))

    def _features(self, shown: P, streams: Streams) -> NDArray[Any]:
        """Return 0 and the features of each trial, or 1 for one without a model `(W, 1 + F)`."""
        attack = self.attack
        if not isinstance(attack, LearnedDistinguisher):
            raise TypeError(f"{attack.name} reads no features")

        def read(part: Streams) -> NDArray[Any]:
            views = self.observer.views(self.pair, shown, part)
            features = np.concatenate([attack.features(*view) for view in views], axis=1)
            return np.column_stack([np.zeros(len(features), np.int8), features])

        return trainings.outcomes(read, streams, np.ones((1, 1), np.int8))


def _fitted(
    attack: LearnedDistinguisher, absent: NDArray[Any], present: NDArray[Any]
) -> Callable[[NDArray[Any]], NDArray[np.float64]]:
    """Fit the attack on trials with a model, and return the score of outcomes `(T, 1 + F)`.

    With too few such trials to fit on, all trials with a model have the score 0.
    """
    enough = min(len(absent), len(present)) >= min(_FITTED, attack.fitted_on)
    ratio = attack.fit(absent, present) if enough else None

    def score(rows: NDArray[Any]) -> NDArray[np.float64]:
        scores, model = np.full(len(rows), NO_MODEL), rows[:, 0] == 0
        scores[model] = ratio.score(rows[model, 1:]) if ratio and model.any() else 0.0
        return scores

    return score


# A function that returns an array with one entry per trial, and all trials to apply it to.
Read = tuple[Callable[[Streams], NDArray[Any]], Streams]


def in_blocks(reads: Sequence[Read], size: int, executor: Executor) -> list[NDArray[Any]]:
    """Apply each function to all its trials, in blocks of a fixed size; return an array of each.

    Args:
        reads: the functions with their trials.
        size: number of trials in a block.
        executor: runs the blocks of all functions together.
    """
    counts = [-(-len(streams) // size) for _, streams in reads]
    results = executor.run(
        Task(read, block, len(block)) for read, streams in reads for block in streams.blocks(size)
    )
    ends = np.cumsum([0, *counts])
    return [trainings.joined(results[start:end]) for start, end in pairwise(ends)]
