"""Checks whether outputs depend on the call that made them, or on its place in the order."""

from __future__ import annotations

import numpy as np

from dpaudit.audits.mechanism.calls import MOST, Trials, numeric
from dpaudit.bounds.outcomes import Scores
from dpaudit.core.errors import InputError

# Standard errors beyond which the scores within calls count as correlated.
_ALIKE = 6.0
# The number of entries tested for drift; the level of that test; the divisor of √n in the limit on
# a fourth moment.
_COORDINATES, _DRIFT, _TAIL = 8, 1e-6, 5


def check_calls(trials: Trials, scores: Scores) -> None:
    """Refuse scores that are positively correlated within the calls of one data set.

    If the outputs of a call are independent, the product of two centred scores of one call has
    mean 0. Tested on the ranks, and on the indicators of the upper nine tenths, half and tenth.

    Raises:
        InputError: the scores are correlated.
    """
    if len(np.unique(trials.calls)) == len(trials):
        return
    from scipy.stats import rankdata

    statistic = 0.0
    for name in (None, 0.1, 0.5, 0.9):
        excess = variance = 0.0
        for dataset in (False, True):
            here = trials.present == dataset
            ranks = rankdata(scores[here])
            values = ranks if name is None else (ranks > name * len(ranks)).astype(float)
            spread = values.std()
            if spread == 0:
                continue
            values = (values - values.mean()) / spread
            sums = np.bincount(trials.calls[here], values)
            sizes = np.bincount(trials.calls[here]).astype(float)
            pairs = float((sizes * (sizes - 1)).sum())
            excess += float((sums**2).sum() - len(values) + pairs / max(len(values) - 1, 1))
            variance += 2 * pairs
        if variance:
            statistic = max(statistic, excess / variance**0.5)
    if statistic > _ALIKE:
        raise InputError(
            "outputs of one call are alike, so one output reveals the data set of the others: make "
            f"the n outputs of a call independent, leave out batched, or use at most {MOST} "
            "trials, which are drawn one per call"
        )


def drift(trials: Trials, scores: Scores) -> str | None:
    """Describe how outputs change with the call's number or depend on the previous call; else None.

    Tests the score and the first entries of numeric outputs, and their distances from the median,
    by Spearman's correlation with the call's number and between successive calls, at a joint level
    of one in a million. The certificate stays valid because of the coins, but a claim about a
    single call says little about a mechanism with memory.
    """
    from scipy.special import ndtri
    from scipy.stats import rankdata

    series = [scores]
    if numeric(trials.outputs):
        flat = trials.outputs.reshape(len(trials), -1)
        series += [flat[:, j] for j in range(min(flat.shape[1], _COORDINATES))]
    count = len(trials)
    # NaN ranks below all numbers.
    ranked = [rankdata(np.where(np.isnan(values), -np.inf, values)) for values in series]
    ranked += [_distance_ranks(ranks) for ranks in ranked]
    limit = -float(ndtri(_DRIFT / (4 * len(ranked))))
    position = np.linspace(-1, 1, count) * (3 * (count - 1) / (count + 1)) ** 0.5
    trend = memory = 0.0
    for ranks in ranked:
        spread = ranks.std()
        if spread == 0:
            continue
        unit = (ranks - ranks.mean()) / spread
        squares = unit * unit
        # With a few extreme values the correlations are not approximately normal.
        if (squares * squares).sum() / count > count**0.5 / _TAIL:
            continue
        trend = max(trend, abs(float((unit * position).sum())) / count**0.5)
        memory = max(memory, abs(float((unit[1:] * unit[:-1]).sum())) / count**0.5)
    said = [
        words
        for size, words in (
            (trend, "change with the number of the call"),
            (memory, "depend on those of the call before"),
        )
        if size > limit
    ]
    if not said:
        return None
    return (
        f"outputs {' and '.join(said)}: the mechanism keeps a state between calls, and this audit "
        "is about a single call"
    )


def _distance_ranks(ranks: Scores) -> Scores:
    """Rank the distances of ranks from their middle, by counting instead of sorting."""
    distances = np.abs(2 * ranks - (len(ranks) + 1)).astype(np.int64)
    counts = np.bincount(distances)
    midranks: Scores = (counts.cumsum() - (counts - 1) / 2)[distances]
    return midranks
