"""Positive controls of a black box: what the same game certifies where a violation is planted.

That a game certifies nothing is evidence for a mechanism only if the same game certifies something
on a mechanism that breaks the claim. A **mutant** with a planted violation is made from outputs of
the mechanism on D alone, each used once. A trial's coin L is turned into a bit B that equals L with
probability p = (e^ε' + δ)/(1 + e^ε'), and B decides the form of the output in one of two ways.

- *Split.* Outputs are divided into two sets by a visible feature (above or below the median of an
  entry, of the numbers in a text, or of the lengths; or one of the two most frequent outputs). The
  mutant releases the next unused output of the set that B selects. Given B, its distribution is
  that of the mechanism on D conditioned on the set, independent of L.
- *Written.* B is written into the next unused output: a bit of a number, the last digit of a number
  in a text, the sign of zeros, or the type of a number.

There is one plant for each kind of place, at a position drawn by the seed. What is not read at all
counts as a violation that is missed.

In both cases the output is a post-processing of B and of values independent of L, and B can be
recovered from it: the mutant is exactly (ε', δ)-DP on this pair, and not for any smaller ε'. Where
only a share of the outputs can carry B (zeros), this is exact given such an output, and the plant
is used if that share is large enough. A last mutant is a rare leak: it reveals L, by one of two
outputs that occur nowhere else, in a small share of its outputs (ε = ∞ at δ = 0). The share is one
at which the search finds at least 9 of 10 such leaks, as measured (docs/methods/statistics.md).

A planted bit is the easiest leak of its size, so it shows that the score reads a place, and not how
small a leak of noise is found. Nothing is planted in fewer trials than find noise of this ε with a
power of 95 %, by the law of the noise (`dpaudit.bounds.planning.found_from`).

Plants do not depend on the score, except that a given score chooses the entry to split by. A given
score states what it reads, so violations are planted only in values, texts and lengths. A learned
score claims to see any form, so every plant that the outputs can carry must be found.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit.attacks.black_box.encoding import as_batch
from dpaudit.auditor.games import certify as certifying
from dpaudit.auditor.games.controls import Bar
from dpaudit.audits.mechanism.calls import OutputTrials, Score
from dpaudit.audits.mechanism.certificate import OutputCertificate
from dpaudit.audits.mechanism.game import OutputBound
from dpaudit.audits.mechanism.plants import (
    Bits,
    OutputPair,
    OutputPool,
    Plant,
    Written,
    splits,
    writings,
)
from dpaudit.audits.mechanism.repetition import unrepeated
from dpaudit.bounds.planning import detectable_epsilon, found_from
from dpaudit.core.streams import generator
from dpaudit.record.values import Control

_Draw = Callable[[int], Any]

# A rare leak occurs `_TIMES` times as often as the best bound needs, plus `_MORE` times. Its share
# of the outputs is at least `_RAREST`; above `_COMMONEST` it is not rare, and is not planted.
_TIMES, _MORE, _RAREST, _COMMONEST = 4.0, 20, 1e-3, 0.05
# The power with which a place that few outputs have must be found to be tried.
_SURE = 0.999
# Most outputs drawn per trial.
_LONGEST = 4
_LEAK = "a leak"


@dataclass(frozen=True)
class Violation:
    """A planted violation of a claim, and the trials that are to find it.

    Attributes:
        claim: the claimed ε, which bounds must exceed.
        factor: the planted ε as a multiple of the claim.
        sizes: the numbers of trials that train and that certify.
        alpha: the level of the bound.
        delta: the δ of the claim.
    """

    claim: float
    factor: float
    sizes: tuple[int, int]
    alpha: float
    delta: float

    @property
    def epsilon(self) -> float:
        """The planted ε."""
        return self.factor * self.claim

    @property
    def right(self) -> float:
        """The probability with which a planted bit equals its coin."""
        odds = math.exp(min(self.epsilon, 700.0))
        return (odds + self.delta) / (1 + odds)

    @property
    def findable(self) -> bool:
        """Whether the trials find noise of such an ε with the best score."""
        trials = self.sizes[1]
        least = found_from(self.claim, trials, self.alpha, delta=self.delta) if trials else math.inf
        return least <= self.epsilon

    def surely_found_in(self, share: float) -> bool:
        """Whether this share of the trials surely finds a bit in these, by forecast."""
        trials = int(share * self.sizes[1])
        if trials == 0:
            return False
        least = detectable_epsilon(self.claim, trials, self.alpha, delta=self.delta, power=_SURE)
        return least <= self.epsilon

    @property
    def rare_share(self) -> float | None:
        """The share of outputs that must leak to be detected; None if it is not rare."""
        needed = math.log(1 / self.alpha) / math.log1p(math.exp(-self.claim))
        share = max((_TIMES * needed + _MORE) / self.sizes[1] + 3 * self.delta, _RAREST)
        return share if share <= _COMMONEST else None

    def untried(self, mutant: str) -> Control:
        """Return the control of mutants that are missed without a trial."""
        factor = self.epsilon / self.claim
        return Control(
            mutant=mutant, factor=factor, epsilon=self.epsilon, certified=0.0, found=False
        )


def positive_control(
    draw: _Draw,
    certified: Callable[[OutputTrials, OutputTrials], float],
    violation: Violation,
    rng: np.random.Generator,
    *,
    score: Score | None = None,
    unread: Sequence[str] = (),
) -> Control | None:
    """Run the game on mutants of a mechanism that break its claim by a factor.

    Args:
        draw: draws the given number of outputs on D; a larger number extends the same sequence.
        certified: the bound that the game certifies from trials that train and that certify.
        violation: the violation to plant.
        rng: generator of coins, bits and the choice of an entry.
        score: the given score; None if it is learned.
        unread: what a learned score does not read; no mutant is tried then.

    Returns:
        The least certified bound and the mutants that it belongs to; None if there are too few
        trials to find noise of such an ε even with the best score.
    """
    if not violation.findable:
        return None
    if unread:
        return violation.untried(f"any violation in what it does not read: {', '.join(unread)}")
    (train, _), count = violation.sizes, sum(violation.sizes)

    def drawn(wanted: int) -> OutputPool:
        return OutputPool.of(draw(wanted), given_score=score is not None)

    pool = drawn(count + count // 4 + 200)
    plants: list[Plant] = list(splits(pool, score, rng))
    if not plants:
        alike = "the outputs on D are too much alike to carry one"
        return violation.untried(f"any planted violation ({alike})")
    if score is None:
        places = writings(pool, rng)
        plants += [writing for writing in places if violation.surely_found_in(writing.share)]
    bounds: dict[str, float] = {}
    for plant in plants:
        coins = rng.random(count) < 0.5
        bits = coins ^ (rng.random(count) >= violation.right)
        outputs = _mutated(plant, pool, bits, drawn)
        bounds[plant.name] = 0.0 if outputs is None else certified(*_halves(outputs, coins, train))
    rare = None if score else violation.rare_share
    tells = pool.informative()
    if rare is not None and tells is not None:
        coins, leaks = rng.random(count) < 0.5, rng.random(count) < rare
        leaky = [
            tells[int(coin)] if leak else output
            for output, coin, leak in zip(pool.content, coins, leaks, strict=False)
        ]
        bounds[_LEAK] = certified(*_halves(as_batch(leaky), coins, train))
    missed = [name for name, bound in bounds.items() if bound <= violation.claim]
    return Control(
        mutant=_described(missed or list(bounds), violation.epsilon, rare, found=not missed),
        factor=violation.factor,
        epsilon=violation.epsilon,
        certified=min(bounds.values()),
        found=not missed,
    )


def _described(names: list[str], epsilon: float, rare: float | None, *, found: bool) -> str:
    """Describe the plants in words."""
    places = [name for name in names if name != _LEAK]
    parts = []
    if places:
        every = "every" if found and len(places) > 1 else "a"
        planted = (", " if found else " or ").join(places)
        parts.append(f"{every} violation of ε = {epsilon:.4g} planted in {planted}")
    if _LEAK in names and rare is not None:
        parts.append(f"a leak by two outputs of their own, one output in {math.floor(1 / rare)}")
    return (" and " if found else " or ").join(parts)


def _halves(outputs: Any, coins: Bits, train: int) -> tuple[OutputTrials, OutputTrials]:
    """Split trials into those that train and those that certify; the same ones if none trains."""
    parts = [
        OutputTrials(_taken(outputs, places), coins[places], np.arange(len(places)))
        for places in (np.arange(train), np.arange(train, len(coins)))
    ]
    return (parts[0] if train else parts[1]), parts[1]


def _mutated(plant: Plant, pool: OutputPool, bits: Bits, draw: Callable[[int], OutputPool]) -> Any:
    """Make outputs that carry the bits; None if one set of a split has too few outputs."""
    if isinstance(plant, OutputPair):
        return as_batch([plant.outputs[bit] for bit in bits.astype(int)])
    if isinstance(plant, Written):
        return plant.put(pool, bits)
    inside = plant.inside(pool)
    wanted = np.array([(~bits).sum(), bits.sum()])
    shares = np.array([(~inside).mean(), inside.mean()])
    while (np.array([(~inside).sum(), inside.sum()]) < wanted).any():
        if len(pool) > _LONGEST * len(bits):  # a mechanism with state may never fill a set
            return None
        pool = draw(int(max(1.1 * (wanted / shares).max() + 200, 1.2 * len(pool))))
        inside = plant.inside(pool)
    places = np.empty(len(bits), np.int64)
    for side in (False, True):
        places[bits == side] = np.flatnonzero(inside == side)[: int(wanted[int(side)])]
    return _taken(pool.content, places)


def _taken(outputs: Any, places: NDArray[np.int64]) -> Any:
    """Select the outputs at the given places."""
    if isinstance(outputs, np.ndarray):
        return outputs[places]
    return [outputs[i] for i in places]


@dataclass(frozen=True, eq=False)
class PlantedGame:
    """A certificate that fresh processes repeat, and violations planted in outputs on D.

    Attributes:
        game: the game.
        first: what the calls of one process certify.
        certificate: what fresh processes repeat of it.
    """

    game: OutputBound
    first: OutputCertificate
    certificate: OutputCertificate

    @property
    def doubtful(self) -> bool:
        """Whether one process breaks the claim, and fresh processes do not repeat that."""
        claim, certified = self.game.claim, self.certificate.epsilon.lower
        return claim is not None and certified <= claim < self.first.epsilon.lower

    def run(self) -> certifying.Certificate[OutputTrials]:
        """Return the certificate."""
        certificate = self.certificate
        return certifying.Certificate(certificate.trials, certificate.epsilon, certificate.event)

    def rungs(self, bar: Bar, certificate: certifying.Certificate[OutputTrials]) -> Iterator[float]:
        """Yield the one factor to try."""
        yield bar.least

    def control(self, rung: float, bar: Bar) -> Control | None:
        """Return what the game certifies of violations of so many times the limit.

        None if there are too few trials to find them.
        """
        game, calls = self.game, self.game.calls
        if self.doubtful:
            broken, certified = self.first.epsilon.lower, self.certificate.epsilon.lower
            return unrepeated(broken, certified, rung)

        def certified_of(train: OutputTrials, test: OutputTrials) -> float:
            return game.certify(train, test).epsilon.lower

        def on_d(count: int) -> Any:
            calls.progress.expect(count)
            return calls.run((game.pair[0], game.pair[0]), "control", count).outputs

        calls.progress.stage("positive control")
        return positive_control(
            on_d,
            certified_of,
            Violation(bar.limit, rung, game.sizes(game.trials), game.alpha, game.delta),
            generator(calls.seed, "planted"),
            score=None if game.score == "learned" else game.score,
            unread=self.certificate.scorer.unread,
        )
