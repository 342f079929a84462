"""How often the next training lies outside an interval: resampled targets beside dpaudit's range.

Numbers of simulated trainings have the laws of the tests of gates. The scores of a training's
targets are normal, with the training's area under the ROC curve.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from privacy_guard_attacks import Frames, analysed
from scipy.stats import norm

from dpaudit.audits.membership.calibration import Curve
from dpaudit.bounds.frequentist.intervals import next_exceeds
from dpaudit.core.streams import generator
from dpaudit.reports.render.markdown import row

SEED, TARGETS, RATE = 7, 2500, 0.01
JUDGED = (1, 8, 19)
# The level of the resampled intervals, which is the peer's.
TAIL = 0.025
# The laws of the tests, and what they are.
LAWS = {
    "null": "honest: AUC near 0.5",
    "borderline": "a twentieth of the trainings have AUC 0.6",
    "seldom": "one training of thirty shows everything",
    "cluster": "all targets remembered, or none",
}
Numbers = NDArray[np.float64]
Mask = NDArray[np.bool_]


class Audit(NamedTuple):
    """One simulated audit of the most trainings, and the next training.

    Attributes:
        scores: scores of the targets; the last training is the next one `(J + 1, m)`.
        present: their coins `(J + 1, m)`.
    """

    scores: Numbers
    present: Mask

    @property
    def first(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        """The scores of the first training's present and absent targets, as the peer reads them."""
        frame = pd.DataFrame({"user_id": np.arange(TARGETS), "score": self.scores[0]})
        return frame[self.present[0]].copy(), frame[~self.present[0]].copy()

    @classmethod
    def of(cls, law: str, number: int) -> Audit:
        """Draw the areas of the trainings by a law, then coins and scores."""
        rng = generator(SEED, f"coverage {law}", child=number)
        areas = getattr(import_module("test_trainings"), law)(rng, max(JUDGED) + 1)
        gaps = np.sqrt(2) * norm.ppf(np.clip(areas, 1e-9, 1 - 1e-9))
        present = rng.integers(0, 2, (len(areas), TARGETS)).astype(np.bool_)
        return cls(rng.normal(size=present.shape) + present * gaps[:, None], present)


def coverage_table(number: int, resamples: int) -> str:
    """Table of how often the next training is outside the intervals, and above dpaudit's range.

    Args:
        number: of audits of each law.
        resamples: for an interval; the peer's default is 1000.
    """
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "auditor"))
    head = ["law of the trainings", "J", "AUC, PrivacyGuard", "AUC, pooled", "AUC, dpaudit"]
    head += ["TPR, pooled", "TPR, dpaudit", "at most", "AUC above dpaudit's", "at most"]
    lines = [head, ["---"] * len(head)]
    for law, words in LAWS.items():
        audits = [Audit.of(law, place) for place in range(number)]
        peers = np.array(
            [analysed(Frames(*audit.first), resamples, seed) for seed, audit in enumerate(audits)]
        )
        curves = [Curve(*audit) for audit in audits]
        areas = np.stack([curve.areas() for curve in curves])
        rates = np.stack([curve.rates(RATE) for curve in curves])
        for judged in JUDGED:
            area, rate = np.array(
                [_resampled(audit, judged, place, resamples) for place, audit in enumerate(audits)]
            ).transpose(1, 0, 2)
            bound = next_exceeds(judged, 0)
            shares = [_outside(areas[:, -1], ends) for ends in (peers, area)]
            shares += [_outside(areas[:, -1], _range(areas, judged))]
            shares += [_outside(rates[:, -1], ends) for ends in (rate, _range(rates, judged))]
            shares += [2 * bound, (areas[:, -1] > areas[:, :judged].max(1)).mean(), bound]
            cells = [f"{100 * share:.0f} %" for share in shares]
            if judged == 1:  # there is no range
                cells[2] = cells[4] = cells[5] = "–"
            lines.append([words, str(judged), *cells])
    return "\n".join(map(row, lines))


def _outside(numbers: Numbers, ends: Numbers) -> float:
    """The share of numbers outside their intervals `(n, 2)`."""
    return float(((numbers < ends[:, 0]) | (numbers > ends[:, 1])).mean())


def _range(numbers: Numbers, judged: int) -> Numbers:
    """The least and the largest number of the judged trainings of each audit `(n, 2)`."""
    some = numbers[:, :judged]
    return np.stack((some.min(1), some.max(1)), axis=1)


def _resampled(audit: Audit, judged: int, place: int, resamples: int) -> Numbers:
    """The intervals of AUC and TPR of the targets of all judged trainings, resampled `(2, 2)`."""
    rng = generator(SEED, "coverage resamples", child=place)
    scores, present = audit.scores[:judged].reshape(-1), audit.present[:judged].reshape(-1)
    inside = present[np.argsort(-scores)]
    size, others = int(inside.sum()), int((~inside).sum())
    numbers = np.empty((resamples, 2))
    for resample in numbers:
        true, false = np.zeros(len(scores)), np.zeros(len(scores))
        true[inside] = np.bincount(rng.integers(0, size, size), minlength=size)
        false[~inside] = np.bincount(rng.integers(0, others, others), minlength=others)
        tpr, fpr = np.cumsum(true) / size, np.cumsum(false) / others
        # As the peer's: the last point of the curve with at most this share of false positives.
        last = int(np.searchsorted(fpr, RATE, "right")) - 1
        resample[:] = (false * tpr).sum() / others, tpr[last] if last >= 0 else 0.0
    ends: Numbers = np.quantile(numbers, (TAIL, 1 - TAIL), axis=0).T
    return ends
