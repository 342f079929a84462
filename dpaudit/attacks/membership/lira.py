"""The likelihood-ratio attack: two normal laws for each target, from the attacker's trainings."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic.dataclasses import dataclass as parameters
from scipy.special import log_ndtr

from dpaudit.attacks.base import Form, MembershipInference, Numbers, Signals
from dpaudit.core.plugin import STRICT

# A standard deviation is at least this share of the feature's standard deviation over all targets
# and trainings, so that a feature which never changes does not decide alone.
_LEAST = 1e-3
# It is at least this number too, so that a feature which was always the same gives finite scores.
_SMALLEST = 1e-30


@parameters(frozen=True, config=STRICT)
class Lira(MembershipInference):
    """Compare each target's features with those of models trained with it and without it.

    Online, the score is Σ_f ln N(x_f; μ_in, σ_in) − ln N(x_f; μ_out, σ_out), with means of the
    target and standard deviations of the target or of all targets (Carlini et al. 2022, algorithm
    1). Offline, models trained with the target are not used, and the score is ln P[X ≤ fit] under
    N(μ_out, σ_out) (section VI-B). Features count as independent given presence.

    Attributes:
        online: whether models that were trained with the target are used.
        own_variance: whether every target has its own standard deviations, of which that of all
            targets counts as one observation; else all share one.
    """

    online: bool = True
    own_variance: bool = False

    name: ClassVar[str] = "lira"
    title: ClassVar[str] = "Likelihood-ratio attack: normal laws of each target's features"
    source: ClassVar[str] = (
        "Carlini, Chien, Nasr, Song, Terzis, Tramèr, Membership Inference Attacks From First "
        "Principles, 2022, arXiv:2112.03570, algorithm 1 and section VI"
    )
    usual: ClassVar[tuple[Form, ...]] = (
        Form(),
        Form({"own_variance": True}, "own variance"),
        Form({"online": False}, "offline"),
        Form({"online": False, "own_variance": True}, "offline own variance"),
    )
    rank: ClassVar[int] = 1

    def score(self, seen: Signals, reference: Signals, present: NDArray[np.bool_]) -> Numbers:
        """Score each target; arguments as in `MembershipInference.score`."""
        if not self.online:
            mean, deviation = self._law(reference.fit[:, :, None], ~present)
            scores: Numbers = log_ndtr((seen.fit - mean[:, 0]) / deviation[:, 0])
            return scores
        logs = []
        for which in (present, ~present):
            mean, deviation = self._law(reference.features, which)
            z = (seen.features - mean) / deviation
            logs.append(-(z**2) / 2 - np.log(deviation))
        ratio: Numbers = (logs[0] - logs[1]).sum(2)
        return ratio

    def _law(self, features: Numbers, which: NDArray[np.bool_]) -> tuple[Numbers, Numbers]:
        """Return means and standard deviations `(m, F)` over the selected trainings `(R, m)`.

        A target that no selected training has gets the mean over all targets.
        """
        # Around one value, so that the mean of equal values is their value and not rounded.
        center = features[0, 0]
        features = features - center
        weights = which[:, :, None].astype(np.float64)
        count = weights.sum(0)
        everywhere = (weights * features).sum((0, 1)) / max(1.0, float(count.sum()))
        mean = (weights * features).sum(0) / np.maximum(count, 1)
        mean = np.where(count > 0, mean, everywhere)
        squares = (weights * (features - mean) ** 2).sum(0)
        # Each target's mean takes one degree of freedom.
        free = np.maximum(count - 1, 0)
        shared = squares.sum(0) / np.maximum(free.sum(0), 1)
        variance = np.broadcast_to(shared, mean.shape)
        if self.own_variance:
            # A target with few trainings leans on the variance of all.
            variance = (squares + shared) / (free + 1)
        least = _LEAST * features.std((0, 1)) + _SMALLEST
        return mean + center, np.maximum(np.sqrt(variance), least)
