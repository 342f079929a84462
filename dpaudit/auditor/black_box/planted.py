"""Positive controls of a black box: what the same game finds where a violation was planted.

A game that certifies nothing speaks for a mechanism only if it certifies something on one that
breaks the claim. A **mutant** is made from outputs of the mechanism on D alone, each used once: a
trial's coin L is turned into a bit B that equals L with probability p = (e^ε' + δ)/(1 + e^ε'), and
B decides what the output looks like, in one of two ways.

- *Split.* Outputs are divided into two sets by something that can be seen in them (half of the
  values of an entry, the commoner two of few outputs, half of the numbers in a text, half of the
  lengths); the next unused output of the set that B names is given out. Given B, its law is that of
  the mechanism on D given the set, whatever L.
- *Written.* B is written into the next unused output: its lowest bit, its last digit, the sign of
  its zeros, the type of its number.

Either way the output is a post-processing of B and of things that do not depend on L, and B can be
read off it: the mutant is (ε', δ)-DP on this pair for no smaller ε', exactly. Where that is only so
in a share of the outputs (zeros), it is exact given such an output, and the plant is used if these
are enough. A last mutant tells L outright, by one of two outputs, in so small a share of its
outputs that the trials just show it: a rare leak, of infinite ε with δ = 0.

No plant looks at the score, but for the choice of the entry where the score was given. A given
score says itself what it reads, so that violations are planted in values, texts and lengths alone;
a learned one claims to see any form, so that every plant that the outputs can carry must be found.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from dpaudit.attacks.black_box.encoding import packed
from dpaudit.auditor.black_box.calls import Trials
from dpaudit.auditor.black_box.plants import (
    Bits,
    Pair,
    Plant,
    Score,
    Written,
    splits,
    taken,
    telling,
    writings,
)
from dpaudit.bounds.power.power import detectable_epsilon
from dpaudit.record.result import Control

Draw = Callable[[int], Any]

# A rare leak is shown so many times as often as the best bound needs, and so many times more; it
# is no rarer than the least share, and no leak is rare beyond the largest.
_TIMES, _MORE, _RAREST, _COMMONEST = 4.0, 20, 1e-3, 0.05
# So many outputs a trial are drawn at most.
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
    """Play the game on mutants of a mechanism that break its claim by a factor.

    Args:
        draw: so many outputs on D; more of them extend the same sequence.
        certified: the bound that the game certifies when it trains and certifies on such trials.
        claim: the claimed ε, which the bounds must exceed.
        factor: the mutants' ε as a multiple of that.
        sizes: the numbers of trials that train and that certify.
        alpha: the level of the bound.
        delta: the δ of the claim.
        rng: decides coins, sets and bits.
        score: the score that was given; None where it is learned.

    Returns:
        The least that was certified, and on what; None where so few trials could not be expected to
        find such a violation with the best score.
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
    tells = telling(pool)
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
    """Whether so many trials can be expected to show such a violation."""
    return trials > 0 and detectable_epsilon(claim, trials, alpha, delta=delta) <= epsilon


def _said(names: list[str], epsilon: float, rare: float | None, *, found: bool) -> str:
    """The plants in words."""
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
    """The trials that train and those that certify; all of them where none trains."""
    parts = [
        Trials(taken(made, places), coins[places], np.arange(len(places)))
        for places in (np.arange(train), np.arange(train, len(coins)))
    ]
    return (parts[0] if train else parts[1]), parts[1]


def _mutated(plant: Plant, pool: Any, bits: Bits, draw: Draw) -> Any:
    """Outputs that look as the bits say; None where there are too few of a set."""
    if isinstance(plant, Pair):
        return packed([plant.outputs[bit] for bit in bits.astype(int)])
    if isinstance(plant, Written):
        return plant.put(taken(pool, np.arange(len(bits))), bits)
    inside = plant.inside(pool)
    wanted = np.array([(~bits).sum(), bits.sum()])
    shares = np.array([(~inside).mean(), inside.mean()])
    while (np.array([(~inside).sum(), inside.sum()]) < wanted).any():
        if len(pool) > _LONGEST * len(bits):  # a mechanism that changes may never fill a set again
            return None
        pool = draw(int(max(1.1 * (wanted / shares).max() + 200, 1.2 * len(pool))))
        inside = plant.inside(pool)
    places = np.empty(len(bits), np.int64)
    for side in (False, True):
        places[bits == side] = np.flatnonzero(inside == side)[: int(wanted[int(side)])]
    return taken(pool, places)


def _rare_share(claim: float, trials: int, alpha: float, delta: float) -> float | None:
    """The share of outputs that must leak so that the trials show it, if that is rare."""
    needed = math.log(1 / alpha) / math.log1p(math.exp(-claim))
    share = max((_TIMES * needed + _MORE) / trials + 3 * delta, _RAREST)
    return share if share <= _COMMONEST else None
