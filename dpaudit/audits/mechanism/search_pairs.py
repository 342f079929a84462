"""Search among pairs of neighbouring data sets for the most informative one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dpaudit.attacks.black_box.encoding import joined_batches
from dpaudit.attacks.black_box.learned import LearnedScore
from dpaudit.attacks.black_box.prospects import prospect
from dpaudit.audits.mechanism.calls import Score

# `draw(pair, round, count)` draws `count` outputs on either data set of a pair.
Draw = Callable[[int, int, int], tuple[Any, Any]]


def most_informative(
    draw: Draw, pairs: int, budget: int, trials: int, seed: int, score: Score | None
) -> int:
    """Return the index of the pair with the largest forecast of the certified bound.

    Successive halving (Karnin, Koren & Somekh 2013): each pair gets `budget` outputs, the better
    half as many again as it has, and so on; all outputs of a pair are kept. A quick score is
    learned on half of a pair's outputs, and its bound is forecast from the others; ties, such as
    forecasts of 0, are broken by the AUC.

    Args:
        draw: draws fresh outputs.
        pairs: number of pairs.
        budget: outputs of each pair in the first round.
        trials: number of outputs that the certificate will use.
        seed: seed of the scores.
        score: the given score; None if it is learned.
    """
    left = list(range(pairs))
    held: dict[int, tuple[Any, Any]] = {}
    turn = 0
    while len(left) > 1:
        turn += 1
        worth = {}
        for index in left:
            fresh = draw(index, turn, budget // 2)
            old = held.get(index)
            held[index] = fresh if old is None else _extended(old, fresh)
            worth[index] = _promise(held[index], trials, seed, score)
        left = sorted(left, key=lambda index: worth[index], reverse=True)[: -(-len(left) // 2)]
        # Double each pair's outputs, with at most `trials` new ones in a round.
        budget = min(budget * (2 if turn > 1 else 1), trials)
        held = {index: held[index] for index in left}
    return left[0]


def _extended(old: tuple[Any, Any], fresh: tuple[Any, Any]) -> tuple[Any, Any]:
    return joined_batches([old[0], fresh[0]]), joined_batches([old[1], fresh[1]])


def _promise(
    outputs: tuple[Any, Any], trials: int, seed: int, score: Score | None
) -> tuple[float, float]:
    """Return a pair's forecast bound, and the distance of its AUC from ½."""
    from scipy.stats import rankdata

    judged = outputs
    if score is None:
        half = len(outputs[0]) // 2
        score = LearnedScore.fit(outputs[0][:half], outputs[1][:half], seed, quick=True).score
        judged = outputs[0][half:], outputs[1][half:]
    absent, present = (np.asarray(score(batch), np.float64) for batch in judged)
    scores, labels = np.r_[absent, present], np.repeat([0, 1], [len(absent), len(present)])
    excess = rankdata(scores)[len(absent) :].mean() - (len(scores) + 1) / 2
    promise = prospect(scores, labels, trials, calibrated=True)
    return promise.epsilon, abs(float(excess)) / len(absent)
