"""What of a certificate may be believed: its repetition in fresh processes, and positive controls.

**Repetition.** A claim is about one answer of a mechanism. Where answers share randomness, such as
noise that an object keeps, a cache, a seed of hashes or a number of earlier calls, the trials of
one process are not independent, and their bound is none on that claim. So no bound above 0 is
believed before it is repeated:

- Some calls are made again in fresh processes on copied data, with the same streams and other seeds
  of hashes. Equal outputs show that they depend on the data and the stream alone. Then the trials
  are independent, and their bound stands.
- Where outputs differ, or are the same in every call on a data set, the event is counted again in
  calls that share nothing: each in a process of its own, with fresh coins. The bound is the smaller
  one. That of these calls alone holds; but a generator with a fixed seed, which gives every process
  the same noise, is no violation where one process makes all releases.
- Where such calls cannot be made, no bound is certified. A process cannot be given the mechanism,
  or gets copies of values which may be its noise: see `kept`.

**Positive controls.** That a game certifies nothing is evidence for a mechanism only if the same
game certifies something on a mechanism that breaks the claim. A **mutant** with a planted violation
is made from outputs of the mechanism on D alone, each used once. A trial's coin L is turned into a
bit B that equals L with probability p = (e^ε' + δ)/(1 + e^ε'), and B decides the form of the output
in one of two ways.

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
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpaudit.attacks.black_box.encoding import as_batch
from dpaudit.auditor import games as certifying
from dpaudit.auditor.games import Bar
from dpaudit.audits.mechanism import plants
from dpaudit.audits.mechanism.calls import OutputTrials, Score, taken
from dpaudit.audits.mechanism.game import OutputBound, OutputCertificate
from dpaudit.bounds.planning import detectable_epsilon, found_from
from dpaudit.core.errors import InputError
from dpaudit.core.rounding import at_least
from dpaudit.core.streams import generator
from dpaudit.record.values import Control

# The number of calls that are made again, each in a process of its own: in a new Python with its
# own seed of hashes, and in forks of one, which are faster.
_NEW, _FORKED = 4, 16
# How many calls count the event again: without a claim, and to show more than a claim, the first of
# these that is expected to suffice.
_COUNT, _COUNTS = 100, (50, 100, 200, 400)
# The level at which the event of an early end says how much it shows.
_DOUBT = 0.1
# How many kept values a sentence names.
_NAMED = 3
_BEYOND = "outputs depend on more than the data and rng"


def repeated(
    game: OutputBound, certificate: OutputCertificate
) -> tuple[OutputCertificate, str | None]:
    """Return the certificate that may be believed, and a sentence if it is not the given one.

    Args:
        game: the game, whose claim decides how many calls count the event again.
        certificate: what the calls of one process certify.
    """
    bound = certificate.epsilon.lower
    if bound <= 0:
        return certificate, None
    calls, pair, claim = game.calls, game.pair, game.claim
    try:
        kept = calls.may_be_noise(constant=certificate.noiseless)
        if kept:
            return _withheld(certificate, _given(kept))
        if not certificate.noiseless and all(
            calls.repeats(certificate.trials, pair, count, own_hash=own_hash)
            for count, own_hash in ((_FORKED, False), (_NEW, True))
        ):
            return certificate, None
        # A bound of bets lies little above the claim; their event shows more.
        event_bound = certificate.event.epsilon(game.delta, _DOUBT) if certificate.early else 0.0
        count = _sufficient(max(bound, event_bound), claim, game.alpha, game.delta)
        # Few seeds of hashes first, which is faster; then each call with its own.
        for own_hash in (False, True):
            trials = calls.fresh(pair, f"repetition/{own_hash}", count, own_hash=own_hash)
            alone = game.judge(certificate.scorer, trials)
            if alone.epsilon.lower <= 0:
                break
    except InputError as error:
        return _withheld(certificate, str(error))
    alone = replace(alone, epsilon=alone.epsilon.changed(lower=min(bound, alone.epsilon.lower)))
    if certificate.noiseless and alone.noiseless:
        return alone, None
    sentence = f"{_BEYOND}, so the bound is that of {count} calls in fresh processes"
    if alone.epsilon.lower <= (claim or 0.0) < bound:
        sentence = (
            f"{_BEYOND}: {count} calls in fresh processes do not repeat the ε of at least "
            f"{at_least(bound)} that calls in one process show, as where noise or a state is kept "
            "between calls"
        )
    return alone, sentence


def _sufficient(bound: float, claim: float | None, alpha: float, delta: float) -> int:
    """Return how many calls are expected to certify more than the claim if the bound is true."""
    if claim is None:
        return _COUNT
    if bound <= claim:
        return _COUNTS[0]
    least = (detectable_epsilon(claim, count, alpha, delta=delta) for count in _COUNTS)
    return next((count for count, e in zip(_COUNTS, least, strict=True) if e <= bound), _COUNTS[-1])


def _given(kept: list[str]) -> str:
    """Return why a bound holds for the given values only."""
    names = ", ".join(kept[:_NAMED]) + (f" and {len(kept) - _NAMED} more" * (len(kept) > _NAMED))
    return (
        f"it holds given values from when the mechanism was made ({names}), which may be its "
        "noise: give a function at the top of a module, or an object that a module holds, so that "
        "a fresh process makes them again, or keep the arguments of __init__ under their names"
    )


def _withheld(certificate: OutputCertificate, why: str) -> tuple[OutputCertificate, str]:
    """Return the certificate with the bound that always holds, and why it has no other."""
    bound = certificate.epsilon.lower
    nothing = replace(certificate, epsilon=certificate.epsilon.changed(lower=0.0))
    return (
        nothing,
        f"the ε of at least {at_least(bound)} of calls in one process is not certified: {why}",
    )


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

    def drawn(wanted: int) -> plants.OutputPool:
        return plants.OutputPool.of(draw(wanted), given_score=score is not None)

    pool = drawn(count + count // 4 + 200)
    carriers: list[plants.Plant] = list(plants.splits(pool, score, rng))
    if not carriers:
        alike = "the outputs on D are too much alike to carry one"
        return violation.untried(f"any planted violation ({alike})")
    if score is None:
        places = plants.writings(pool, rng)
        carriers += [writing for writing in places if violation.surely_found_in(writing.share)]
    bounds: dict[str, float] = {}
    for plant in carriers:
        coins = rng.random(count) < 0.5
        outputs = _mutated(plant, pool, coins ^ (rng.random(count) >= violation.right), drawn)
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


def _halves(outputs: Any, coins: plants.Bits, train: int) -> tuple[OutputTrials, OutputTrials]:
    """Split trials into those that train and those that certify; the same ones if none trains."""
    parts = [
        OutputTrials(taken(outputs, places), coins[places], np.arange(len(places)))
        for places in (np.arange(train), np.arange(train, len(coins)))
    ]
    return (parts[0] if train else parts[1]), parts[1]


def _mutated(
    plant: plants.Plant,
    pool: plants.OutputPool,
    bits: plants.Bits,
    draw: Callable[[int], plants.OutputPool],
) -> Any:
    """Make outputs that carry the bits; None if one set of a split has too few outputs."""
    if isinstance(plant, plants.OutputPair):
        return as_batch([plant.outputs[bit] for bit in bits.astype(int)])
    if isinstance(plant, plants.Written):
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
    return taken(pool.content, places)


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
            # It found no copy, so that no gate passes.
            return Control(
                mutant="what calls in one process show and fresh processes do not repeat",
                factor=rung,
                epsilon=self.first.epsilon.lower,
                certified=self.certificate.epsilon.lower,
                found=False,
            )

        def on_d(count: int) -> Any:
            calls.progress.expect(count)
            return calls.run((game.pair[0], game.pair[0]), "control", count).outputs

        calls.progress.stage("positive control")
        return positive_control(
            on_d,
            lambda train, test: game.judge(game.scorer(train, len(test)), test).epsilon.lower,
            Violation(bar.limit, rung, game.sizes(game.trials), game.alpha, game.delta),
            generator(calls.seed, "planted"),
            score=None if game.score == "learned" else game.score,
            unread=self.certificate.scorer.unread,
        )
