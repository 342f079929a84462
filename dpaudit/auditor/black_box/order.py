"""Whether outputs depend on the call that made them, or on its place in the order."""

from __future__ import annotations

import numpy as np

from dpaudit.auditor.black_box.calls import MOST, Trials, numeric
from dpaudit.bounds.outcomes import Scores
from dpaudit.core.errors import InputError

# Standard errors beyond which scores of one call are alike.
_ALIKE = 6.0
# Of the first so many entries; the level; how far a fourth moment may be from the normal law's.
_COORDINATES, _DRIFT, _TAIL = 8, 1e-6, 5


def check_calls(trials: Trials, scores: Scores) -> None:
    """Refuse scores that are more alike within the calls of one data set than between them.

    Were the outputs of a call independent, products of two scores of one call would have mean 0.
    Ranks are tried, and who is in the upper tenth, half and nine tenths.

    Raises:
        InputError: they are alike.
    """
    if len(np.unique(trials.calls)) == len(trials):
        return
    from scipy.stats import rankdata

    found = 0.0
    for name in (None, 0.1, 0.5, 0.9):
        excess = variance = 0.0
        for world in (False, True):
            here = trials.present == world
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
            found = max(found, excess / variance**0.5)
    if found > _ALIKE:
        raise InputError(
            "outputs of one call are alike, so that one tells the data set of the others: make the "
            f"n outputs of a call independent, leave out batched, or use fewer trials ({MOST} of "
            "them are drawn one a call)"
        )


def drift(trials: Trials, scores: Scores) -> str | None:
    """Whether outputs change with the number of the call, or depend on the one before, in words.

    The score and the first entries of numeric outputs are tried, as they are and by their distance
    from the median, by Spearman's correlation with the call's number and by that of neighbours, at
    a level of one in a million together. The coins keep the certificate valid; but a claim about
    one call says little of a mechanism with a memory.
    """
    from scipy.special import ndtri
    from scipy.stats import rankdata

    series = [scores]
    if numeric(trials.outputs):
        flat = trials.outputs.reshape(len(trials), -1)
        series += [flat[:, j] for j in range(min(flat.shape[1], _COORDINATES))]
    count = len(trials)
    # NaN has a place below all numbers, as everything else that a mechanism may return.
    ranked = [rankdata(np.where(np.isnan(values), -np.inf, values)) for values in series]
    ranked += [_distance_ranks(ranks) for ranks in ranked]
    limit = -float(ndtri(_DRIFT / (4 * len(ranked))))
    place = np.linspace(-1, 1, count) * (3 * (count - 1) / (count + 1)) ** 0.5
    trend = memory = 0.0
    for ranks in ranked:
        spread = ranks.std()
        if spread == 0:
            continue
        unit = (ranks - ranks.mean()) / spread
        squares = unit * unit
        # Of a few odd values the normal law of the correlations says nothing.
        if (squares * squares).sum() / count > count**0.5 / _TAIL:
            continue
        trend = max(trend, abs(float((unit * place).sum())) / count**0.5)
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
    """The ranks of the distances of ranks from their middle, counted rather than sorted."""
    distances = np.abs(2 * ranks - (len(ranks) + 1)).astype(np.int64)
    counts = np.bincount(distances)
    found: Scores = (counts.cumsum() - (counts - 1) / 2)[distances]
    return found
