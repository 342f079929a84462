"""Error rates of membership inference, one number for each training.

Trainings are independent given the attacker's own, whatever the dependence of targets within one.
So every interval takes the training as its sample, never the pair of training and target.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Curve:
    """Scores of targets in some trainings; a training whose targets are all alike counts as chance.

    Attributes:
        scores: the scores, larger for likelier presence `(T, m)`.
        present: whether the target is in the data `(T, m)`.
    """

    scores: Numbers
    present: Mask

    def areas(self) -> Numbers:
        """Return each training's area under the ROC curve, ties counted half `(T,)`.

        (Σ ranks of the present − M(M + 1)/2)/(M N), for M present and N absent targets (Hanley &
        McNeil 1982, doi:10.1148/radiology.143.1.7063747).
        """
        from scipy.stats import rankdata  # takes half a second to import

        present = self.present.sum(1)
        absent = self.present.shape[1] - present
        ranks = (rankdata(self.scores, axis=1) * self.present).sum(1)
        with np.errstate(divide="ignore", invalid="ignore"):
            area = (ranks - present * (present + 1) / 2) / (present * absent)
        return np.where(present * absent > 0, area, 0.5)

    def above(self, rate: float) -> Mask:
        """Return which targets score above the threshold at a false-positive rate `(T, m)`.

        In a training with N absent targets it is the ⌊(N + 1)·rate⌋-th largest of their scores. If
        targets are exchangeable, another absent target exceeds it with probability at most `rate`,
        since its rank among N + 1 is uniform. With fewer than 1/rate − 1 absent targets, nothing is
        above.
        """
        lowered = np.where(self.present, -np.inf, self.scores)
        ordered = -np.sort(-lowered, axis=1)
        absent = (~self.present).sum(1)
        rank = np.floor((absent + 1) * rate * (1 + 1e-12)).astype(int)
        bar = ordered[np.arange(len(ordered)), np.maximum(rank, 1) - 1]
        bar = np.where(rank > 0, bar, np.inf)
        found: Mask = self.scores > bar[:, None]
        return found

    def found(self, rate: float) -> Numbers:
        """Return each training's true-positive rate at a false-positive rate `(T,)`."""
        return self.share(self.above(rate), np.ones_like(self.present))

    def advantages(self, threshold: float) -> Numbers:
        """Return each training's true- minus false-positive rate at a threshold, −1 to 1 `(T,)`."""
        above = self.scores > threshold
        false = (above & ~self.present).sum(1) / np.maximum((~self.present).sum(1), 1)
        return (above & self.present).sum(1) / np.maximum(self.present.sum(1), 1) - false

    def share(self, above: Mask, among: Mask) -> Numbers:
        """Return the share of present targets of a group that are above; 0 without any `(T,)`."""
        group = self.present & among
        found: Numbers = (above & group).sum(1) / np.maximum(group.sum(1), 1)
        return found

    def gain(self, above: Mask, among: Mask) -> Numbers:
        """Return how much more a group's present targets are above than its absent ones `(T,)`.

        A group whose scores are large anyway, such as rare items, gains nothing by that.
        """
        group = ~self.present & among
        return self.share(above, among) - (above & group).sum(1) / np.maximum(group.sum(1), 1)

    def exposed(self, rate: float) -> Numbers:
        """Return how much more often a target is above when it is present than when absent `(m,)`.

        Targets that no training, or every training has are left out.
        """
        above, times = self.above(rate), self.present.sum(0)
        both = (times > 0) & (times < len(self.present))
        within = (above & self.present).sum(0)[both] / times[both]
        found: Numbers = (
            within - (above & ~self.present).sum(0)[both] / (~self.present).sum(0)[both]
        )
        return found


def best_threshold(scores: Numbers, present: Mask) -> float:
    """Return the threshold with the largest difference of true- and false-positive rate.

    It is halfway between two scores, and infinite if no threshold is better than none.
    """
    order = np.argsort(-scores, axis=None, kind="stable")
    values, isin = scores.reshape(-1)[order], present.reshape(-1)[order]
    gain = np.cumsum(isin / max(1, isin.sum()) - ~isin / max(1, (~isin).sum()))
    last = np.append(values[1:] != values[:-1], True)
    gain = np.where(last, gain, -np.inf)
    best = int(np.argmax(gain))
    if gain[best] <= 0:
        return math.inf
    return float((values[best] + values[best + 1]) / 2) if best + 1 < len(values) else -math.inf
