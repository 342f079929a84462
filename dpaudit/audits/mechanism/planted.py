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
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit.attacks.black_box.encoding import as_batch
from dpaudit.audits.mechanism.calls import Score, Trials
from dpaudit.audits.mechanism.plants import Bits, Pair, Plant, Written, splits, writings
from dpaudit.audits.mechanism.pool import Pool
from dpaudit.bounds.planning import found_from
from dpaudit.bounds.power import detectable_epsilon
from dpaudit.record.result import Control

Draw = Callable[[int], Any]

# A rare leak occurs `_TIMES` times as often as the best bound needs, plus `_MORE` times. Its share
# of the outputs is at least `_RAREST`; above `_COMMONEST` it is not rare, and is not planted.
_TIMES, _MORE, _RAREST, _COMMONEST = 4.0, 20, 1e-3, 0.05
# The power with which a place that few outputs have must be found to be tried.
_SURE = 0.999
# Most outputs drawn per trial.
_LONGEST = 4
_LEAK = "a leak"


def positive_control(
    draw: Draw,
    certified: Callable[[Trials, Trials], float],
    *,
    claim: float,
    factor: float,
    sizes: tuple[int, int],
    alpha: float,
    delta: float,
    rng: np.random.Generator,
    score: Score | None = None,
    unread: Sequence[str] = (),
) -> Control | None:
    """Run the game on mutants of a mechanism that break its claim by a factor.

    Args:
        draw: draws the given number of outputs on D; a larger number extends the same sequence.
        certified: the bound that the game certifies from trials that train and that certify.
        claim: the claimed ε, which the bounds must exceed.
        factor: the mutants' ε as a multiple of `claim`.
        sizes: the numbers of trials that train and that certify.
        alpha: the level of the bound.
        delta: the δ of the claim.
        rng: generator of coins, bits and the choice of an entry.
        score: the given score; None if it is learned.
        unread: what a learned score does not read; no mutant is tried then.

    Returns:
        The least certified bound and the mutants that it belongs to; None if there are too few
        trials to find noise of such an ε even with the best score.
    """
    epsilon = factor * claim
    if sizes[1] == 0 or found_from(claim, sizes[1], alpha, delta=delta) > epsilon:
        return None
    if unread:
        return _not_found(
            f"any violation in what it does not read: {', '.join(unread)}", epsilon, claim
        )
    count = sum(sizes)

    def drawn(wanted: int) -> Pool:
        return Pool.of(draw(wanted), given_score=score is not None)

    pool = drawn(count + count // 4 + 200)
    plants: list[Plant] = list(splits(pool, score, rng))
    if not plants:
        alike = "any planted violation (the outputs on D are too much alike to carry one)"
        return _not_found(alike, epsilon, claim)
    odds = math.exp(min(epsilon, 700.0))
    right = (odds + delta) / (1 + odds)
    if score is None:
        plants += [
            plant
            for plant in writings(pool, rng)
            if _enough(claim, epsilon, int(plant.share * sizes[1]), alpha, delta)
        ]
    bounds: dict[str, float] = {}
    for plant in plants:
        coins = rng.random(count) < 0.5
        bits = coins ^ (rng.random(count) >= right)
        outputs = _mutated(plant, pool, bits, drawn)
        bounds[plant.name] = (
            0.0 if outputs is None else certified(*_halves(outputs, coins, sizes[0]))
        )
    rare = None if score else _rare_share(claim, sizes[1], alpha, delta)
    tells = pool.informative()
    if rare is not None and tells is not None:
        coins, leaks = rng.random(count) < 0.5, rng.random(count) < rare
        leaky = [
            tells[int(coin)] if leak else output
            for output, coin, leak in zip(pool.content, coins, leaks, strict=False)
        ]
        bounds[_LEAK] = certified(*_halves(as_batch(leaky), coins, sizes[0]))
    missed = [name for name, bound in bounds.items() if bound <= claim]
    return Control(
        mutant=_said(missed or list(bounds), epsilon, rare, found=not missed),
        factor=factor,
        epsilon=epsilon,
        certified=min(bounds.values()),
        found=not missed,
    )


def _not_found(mutant: str, epsilon: float, claim: float) -> Control:
    return Control(
        mutant=mutant, factor=epsilon / claim, epsilon=epsilon, certified=0.0, found=False
    )


def _enough(claim: float, epsilon: float, trials: int, alpha: float, delta: float) -> bool:
    """Whether this number of trials surely finds a planted violation of this ε, by forecast."""
    if trials == 0:
        return False
    return detectable_epsilon(claim, trials, alpha, delta=delta, power=_SURE) <= epsilon


def _said(names: list[str], epsilon: float, rare: float | None, *, found: bool) -> str:
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


def _halves(outputs: Any, coins: Bits, train: int) -> tuple[Trials, Trials]:
    """Split trials into those that train and those that certify; the same ones if none trains."""
    parts = [
        Trials(_taken(outputs, places), coins[places], np.arange(len(places)))
        for places in (np.arange(train), np.arange(train, len(coins)))
    ]
    return (parts[0] if train else parts[1]), parts[1]


def _mutated(plant: Plant, pool: Pool, bits: Bits, draw: Callable[[int], Pool]) -> Any:
    """Make outputs that carry the bits; None if one set of a split has too few outputs."""
    if isinstance(plant, Pair):
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


def _rare_share(claim: float, trials: int, alpha: float, delta: float) -> float | None:
    """Return the share of outputs that must leak to be detected; None if it is not rare."""
    needed = math.log(1 / alpha) / math.log1p(math.exp(-claim))
    share = max((_TIMES * needed + _MORE) / trials + 3 * delta, _RAREST)
    return share if share <= _COMMONEST else None
