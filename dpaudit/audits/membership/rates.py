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

    def above(self, rate: float) -> Numbers:
        """Return how likely the attacker at a false-positive rate calls a target present `(T, m)`.

        In a training with N absent targets the threshold is the K-th largest of their scores, K =
        ⌊(N + 1)·rate⌋. A score above it counts 1 and one below it 0. Equal scores are ordered at
        random: with A absent scores above the threshold and B at it, a score there is among the
        K − A largest of B + 1 with probability (K − A)/(B + 1), which is what it counts. So the
        true-positive rate is that of the ROC curve between its vertices, as of a randomised
        attacker, and no attack hides its finds in a tie.

        If targets are exchangeable, another absent target is called present with probability
        K/(N + 1), at most `rate`, since its rank among N + 1 is uniform once ties are broken. With
        fewer than 1/rate − 1 absent targets, nothing is called present.
        """
        absent = np.where(self.present, -np.inf, self.scores)
        ordered = -np.sort(-absent, axis=1)
        count = (~self.present).sum(1)
        rank = np.floor((count + 1) * rate * (1 + 1e-12)).astype(int)
        bar = ordered[np.arange(len(ordered)), np.maximum(rank, 1) - 1]
        bar = np.where(rank > 0, bar, np.inf)[:, None]
        tied = (rank - (absent > bar).sum(1)) / ((absent == bar).sum(1) + 1)
        calls: Numbers = (self.scores > bar) + (self.scores == bar) * tied[:, None]
        return calls

    def rates(self, rate: float) -> Numbers:
        """Return each training's true-positive rate at a false-positive rate `(T,)`."""
        return self.share(self.above(rate), np.ones_like(self.present))

    def advantages(self, threshold: float) -> Numbers:
        """Return each training's true- minus false-positive rate at a threshold, −1 to 1 `(T,)`."""
        above = self.scores > threshold
        false = (above & ~self.present).sum(1) / np.maximum((~self.present).sum(1), 1)
        return (above & self.present).sum(1) / np.maximum(self.present.sum(1), 1) - false

    def share(self, above: Numbers, among: Mask) -> Numbers:
        """Return the share of present targets of a group that are found; 0 without any `(T,)`."""
        group = self.present & among
        shares: Numbers = (above * group).sum(1) / np.maximum(group.sum(1), 1)
        return shares

    def gain(self, above: Numbers, among: Mask) -> Numbers:
        """Return how much more a group's present targets are found than its absent ones `(T,)`.

        A group whose scores are large anyway, such as rare items, gains nothing by that.
        """
        group = ~self.present & among
        return self.share(above, among) - (above * group).sum(1) / np.maximum(group.sum(1), 1)

    def exposed(self, rate: float) -> Numbers:
        """Return how much more often a target is found when it is present than when absent `(m,)`.

        Targets that no training, or every training has are left out.
        """
        above, times = self.above(rate), self.present.sum(0)
        both = (times > 0) & (times < len(self.present))
        within = (above * self.present).sum(0)[both] / times[both]
        without = (above * ~self.present).sum(0)[both] / (~self.present).sum(0)[both]
        gains: Numbers = within - without
        return gains


def least_absent(rate: float) -> int:
    """Return the least number of absent targets that show a false-positive rate, 1/rate − 1."""
    return math.ceil((1 / rate) * (1 - 1e-12)) - 1


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
    if best + 1 == len(values):
        return -math.inf
    above, below = float(values[best]), float(values[best + 1])
    half = above / 2 + below / 2
    # Of neighbouring numbers the half may be the larger one, which has to stay above.
    return half if half < above else below
