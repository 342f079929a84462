"""The ε of a list by its law, where it is known: the truth beside a certificate."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.estimate import Estimate
from dpaudit.core.releases import ListLaw
from dpaudit.core.streams import Streams
from dpaudit.defenses.base import EntryPair
from dpaudit.defenses.top_k.defense import TopK
from dpaudit.defenses.top_k.laws import JointLaw

Scores = NDArray[np.float32]
# The grid of an integral in Laplace scales: how far beyond the predictions, how long, how fine.
_REACH, _LONGEST, _NODES = 40.0, 500.0, 20.0


def entry_epsilon(defense: TopK, pair: EntryPair) -> float | None:
    """The ε of a list when one entry of the completed matrix changes; None if several do.

    The largest |ln P'(list)/P(list)| is looked for among the lists where it must be: without
    privacy the two that are shown; published, the sets of all states in either world; corrected,
    see `extreme_lists`.
    """
    moved = np.flatnonzero(pair.before.scores != pair.after.scores)
    if len(moved) != 1:
        return None
    rows = (pair.before, pair.after)
    laws = [defense.law(exact) for exact in rows]
    if defense.variant == "nonprivate":
        lists = np.concatenate([law.draw(Streams.first(0, "shown", 1)) for law in laws])
    elif defense.variant == "published":
        sets = [defense.chain(exact).sets for exact in rows]
        lists = np.concatenate([each.items(np.arange(len(each.out))) for each in sets])
    else:
        lists = extreme_lists(pair.before.scores, int(moved[0]), defense.top_k)
    return _largest_ratio(laws, lists)


def entry_truth(defense: TopK, pair: EntryPair) -> Estimate | None:
    """`entry_epsilon` as it stands beside a certificate."""
    epsilon = entry_epsilon(defense, pair)
    return None if epsilon is None else Estimate.exact(epsilon, "law of the list")


def sets_epsilon(before: Scores, after: Scores, rate: float, k: int) -> float:
    """The ε of drawing a set of k with probability `∝ exp(rate · Σ scores)`, one score changing."""
    items = np.arange(len(before), dtype=np.int32)
    moved = int(np.flatnonzero(before != after)[0])
    laws = [JointLaw(items, rate * row.astype(np.float64), k) for row in (before, after)]
    return _largest_ratio(laws, extreme_lists(before, moved, k))


def extreme_lists(scores: Scores, item: int, k: int) -> NDArray[np.int32]:
    """The two lists on which one item's weight matters most `(2, k)`.

    Every factor of the ratio that the weight enters is the further from 1 the less the others'
    weights add up to: they are the item first, and the heaviest others first without it.
    """
    order = np.argsort(-scores, kind="stable").astype(np.int32)
    others = order[(order != item) & np.isfinite(scores[order])]
    return np.stack((np.append(np.int32(item), others[: k - 1]), others[:k]))


def _largest_ratio(laws: Sequence[ListLaw], lists: NDArray[np.int32]) -> float:
    before, after = (law.log_probability(lists) for law in laws)
    possible = ~(np.isneginf(before) & np.isneginf(after))
    return float(abs(after[possible] - before[possible]).max())


def place_epsilon(
    before: Scores, after: Scores, item: int, k: int, scale: float
) -> Estimate | None:
    """The ε of one item's place in a list of the k best predictions with Laplace noise.

    No other prediction differs between the worlds. Given the item's noised prediction x, the others
    are above x independently; the law of their number is convolved for every x of a grid and
    integrated (trapezoids, 1e-3 of the ε). The released values' public grid is left out.

    Args:
        before: the exact predictions in world D, `−inf` where none is shown.
        after: the same in world D'.
        item: the item whose place is seen.
        k: the length of the list.
        scale: the Laplace scale b.

    Returns:
        None without noise, and where the predictions are spread over so many b that the grid would
        be too long.
    """
    others = np.delete(before, item)
    others = others[np.isfinite(others)].astype(np.float64)
    ends = [*others, float(before[item]), float(after[item])]
    low, high = min(ends) - _REACH * scale, max(ends) + _REACH * scale
    if scale == 0 or (high - low) / scale > _LONGEST:
        return None
    x = np.linspace(low, high, int((high - low) / scale * _NODES) + 2)
    # The law of the number of others above x, from 0 to k and more, `(k + 1, X)`.
    number = np.zeros((k + 1, len(x)))
    number[0] = 1.0
    for other in others:
        above = laplace_tail((x - other) / scale)
        up = number * above
        number -= up
        number[1:] += up[:-1]
        number[-1] += up[-1]

    def places(score: float) -> NDArray[np.float64]:
        density = np.exp(-np.abs(x - score) / scale) / (2 * scale)
        return np.trapezoid(number * density, x, axis=1)

    absent, present = places(float(before[item])), places(float(after[item]))
    ratio = np.abs(np.log(present) - np.log(absent))
    return Estimate.exact(float(ratio.max()), "law of the item's place, integrated")


def laplace_tail(distance: NDArray[np.floating]) -> NDArray[np.float64]:
    """The probability that Laplace noise of scale 1 exceeds these."""
    half = np.exp(-np.abs(distance)) / 2
    return np.where(distance > 0, half, 1 - half)
