"""Positive controls of a black box: what the same game certifies where a violation is planted.

That a game certifies nothing is evidence for a mechanism only if the same game certifies something
on a mechanism that breaks the claim. A **mutant** with a planted violation is made from outputs of
the mechanism on D alone, each used once. A trial's coin L is turned into a bit B that equals L with
probability p = (e^ε' + δ)/(1 + e^ε'), and B decides the form of the output in one of two ways.

- *Split.* Outputs are divided into two sets by a visible feature (above or below the median of an
  entry, of the numbers in a text, or of the lengths; or one of the two most frequent outputs). The
  mutant releases the next unused output of the set that B selects. Given B, its distribution is
  that of the mechanism on D conditioned on the set, independent of L.
- *Written.* B is written into the next unused output: its lowest bit, its last digit, the sign of
  its zeros, or the type of its number.

In both cases the output is a post-processing of B and of values independent of L, and B can be
recovered from it: the mutant is exactly (ε', δ)-DP on this pair, and not for any smaller ε'. Where
only a share of the outputs can carry B (zeros), this is exact given such an output, and the plant
is used if that share is large enough. A last mutant is a rare leak: it reveals L, by one of two
outputs, in so small a share of its outputs that the trials just show it (ε = ∞ at δ = 0).

Plants do not depend on the score, except that a given score chooses the entry to split by. A given
score states what it reads, so violations are planted only in values, texts and lengths. A learned
score claims to see any form, so every plant that the outputs can carry must be found.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from dpaudit.attacks.black_box.encoding import packed
from dpaudit.auditor.black_box.calls import Score, Trials
from dpaudit.auditor.black_box.plants import (
    Bits,
    Pair,
    Plant,
    Written,
    informative,
    splits,
    taken,
    writings,
)
from dpaudit.bounds.power.power import detectable_epsilon
from dpaudit.record.result import Control

Draw = Callable[[int], Any]

# A rare leak occurs `_TIMES` times as often as the best bound needs, plus `_MORE` times. Its share
# of the outputs is at least `_RAREST`; above `_COMMONEST` it is not rare, and is not planted.
_TIMES, _MORE, _RAREST, _COMMONEST = 4.0, 20, 1e-3, 0.05
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

    Returns:
        The least certified bound and the mutants that it belongs to; None if there are too few
        trials to find such a violation even with the best score.
    """
    epsilon = factor * claim
    if not _enough(claim, epsilon, sizes[1], alpha, delta):
        return None
    count = sum(sizes)
    pool = draw(count + count // 4 + 200)
    plants: list[Plant] = list(splits(pool, score, rng))
    if not plants:
        return Control(
            mutant="any planted violation (the outputs on D are too much alike to carry one)",
            factor=factor,
            epsilon=epsilon,
            certified=0.0,
            found=False,
        )
    odds = math.exp(min(epsilon, 700.0))
    right = (odds + delta) / (1 + odds)
    if score is None:
        plants += [
            plant
            for plant, share in writings(pool)
            if _enough(claim, epsilon, int(share * sizes[1]), alpha, delta)
        ]
    bounds: dict[str, float] = {}
    for plant in plants:
        coins = rng.random(count) < 0.5
        bits = coins ^ (rng.random(count) >= right)
        made = _mutated(plant, pool, bits, draw)
        bounds[plant.name] = 0.0 if made is None else certified(*_halves(made, coins, sizes[0]))
    rare = None if score else _rare_share(claim, sizes[1], alpha, delta)
    tells = informative(pool)
    if rare is not None and tells is not None:
        coins, told = rng.random(count) < 0.5, rng.random(count) < rare
        made = [
            tells[int(coin)] if leaks else output
            for output, coin, leaks in zip(pool, coins, told, strict=False)
        ]
        made = packed(made)
        bounds[_LEAK] = certified(*_halves(made, coins, sizes[0]))
    missed = [name for name, bound in bounds.items() if bound <= claim]
    return Control(
        mutant=_said(missed or list(bounds), epsilon, rare, found=not missed),
        factor=factor,
        epsilon=epsilon,
        certified=min(bounds.values()),
        found=not missed,
    )


def _enough(claim: float, epsilon: float, trials: int, alpha: float, delta: float) -> bool:
    """Whether this number of trials is expected to detect a violation of this ε."""
    return trials > 0 and detectable_epsilon(claim, trials, alpha, delta=delta) <= epsilon


def _said(names: list[str], epsilon: float, rare: float | None, *, found: bool) -> str:
    """Describe the plants in words."""
    places = [name for name in names if name != _LEAK]
    parts = []
    if places:
        every = "every" if found and len(places) > 1 else "a"
        planted = (", " if found else " or ").join(places)
        parts.append(f"{every} violation of ε = {epsilon:.4g} planted in {planted}")
    if _LEAK in names and rare is not None:
        parts.append(f"a leak of one output in {math.floor(1 / rare)}")
    return (" and " if found else " or ").join(parts)


def _halves(made: Any, coins: Bits, train: int) -> tuple[Trials, Trials]:
    """Split trials into those that train and those that certify; the same ones if none trains."""
    parts = [
        Trials(taken(made, places), coins[places], np.arange(len(places)))
        for places in (np.arange(train), np.arange(train, len(coins)))
    ]
    return (parts[0] if train else parts[1]), parts[1]


def _mutated(plant: Plant, pool: Any, bits: Bits, draw: Draw) -> Any:
    """Make outputs that carry the bits; None if one set of a split has too few outputs."""
    if isinstance(plant, Pair):
        return packed([plant.outputs[bit] for bit in bits.astype(int)])
    if isinstance(plant, Written):
        return plant.put(taken(pool, np.arange(len(bits))), bits)
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
    return taken(pool, places)


def _rare_share(claim: float, trials: int, alpha: float, delta: float) -> float | None:
    """Return the share of outputs that must leak to be detected; None if it is not rare."""
    needed = math.log(1 / alpha) / math.log1p(math.exp(-claim))
    share = max((_TIMES * needed + _MORE) / trials + 3 * delta, _RAREST)
    return share if share <= _COMMONEST else None
