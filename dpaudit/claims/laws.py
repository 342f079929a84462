"""Laws of lists that have a closed form: the truth beside a certificate."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dpaudit.defenses.base import EntryPair
from dpaudit.defenses.list_laws import JointLaw
from dpaudit.defenses.top_k import TopK
from dpaudit.releases import ListLaw

Scores = NDArray[np.float32]


def first_of_two(before: NDArray[np.float64], after: NDArray[np.float64], scale: float) -> float:
    """The ε of showing which of two predictions with Laplace noise is larger.

    The difference of two Laplace draws of scale b exceeds d·b with probability

        p(d) = e^{−d} (1/2 + d/4)   for d ≥ 0,   1 − p(−d) below,

    and ε is the larger of |ln p(d')/p(d)| and |ln (1 − p(d'))/(1 − p(d))|.

    Args:
        before: the two exact predictions in world D.
        after: the same in world D'.
        scale: the Laplace scale b of either.
    """

    def second_wins(predictions: NDArray[np.float64]) -> tuple[float, float]:
        """The probability that the second is shown, and that the first is."""
        d = float(predictions[0] - predictions[1]) / scale
        tail = math.exp(-abs(d)) * (0.5 + abs(d) / 4)
        return (tail, 1 - tail) if d >= 0 else (1 - tail, tail)

    pairs = zip(second_wins(before), second_wins(after), strict=True)
    return max(abs(math.log(q / p)) for p, q in pairs)


def common_shift(before: NDArray[np.float64], after: NDArray[np.float64], scale: float) -> float:
    """0: a shift that all predictions share changes no list.

    Raises:
        ValueError: the shift is not the same everywhere.
    """
    if np.ptp(after - before) > 1e-5 * scale:
        raise ValueError("the predictions do not move by one common shift: no closed form")
    return 0.0


def entry_epsilon(defense: TopK, pair: EntryPair) -> float | None:
    """The ε of a list when one entry of the completed matrix changes; None if several do.

    The largest |ln P'(list)/P(list)| is looked for among the lists where it must be: published, the
    sets of all states in either world; corrected, see `extreme_lists`.
    """
    moved = np.flatnonzero(pair.before.scores != pair.after.scores)
    if len(moved) != 1:
        return None
    rows = (pair.before, pair.after)
    if defense.variant == "published":
        sets = [defense.chain(exact).sets for exact in rows]
        lists = np.concatenate([each.items(np.arange(len(each.out))) for each in sets])
    else:
        lists = extreme_lists(pair.before.scores, int(moved[0]), defense.top_k)
    return _largest_ratio([defense.law(exact) for exact in rows], lists)


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
