"""Normal noise, optionally with its variance multiplied by exponential draws that users share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.claim import Variant
from dpaudit.core.streams import Streams
from dpaudit.defenses.factors import Floats, width
from dpaudit.kernels import exact_noise
from dpaudit.kernels.lanes import aligned

# What the recommender sees: each submission (local), or only sums (secure).
Summation = Literal["local", "secure"]

Numbers = NDArray[np.float64]

# Fills an array with draws, given the trials, the step of the noise source, and its key.
Law = Callable[[Numbers, NDArray[np.int64], int, NDArray[np.uint32]], None]


@dataclass(frozen=True, eq=False)
class SharedNoise:
    """Draws vectors of noise, one for each item.

    A coordinate's noise is normal with a given variance times h. If `shared`, h is an exponential
    draw for that item, coordinate and round; otherwise h is 1. Given h, the noise of several users
    is normal, and so is its sum. If h is unknown, the noise is Laplace: `√(2h) c ~ Lap(1)` with
    `h ~ Exp(1)`, `c ~ N(0, 1)` (Meng et al. 2018, Lemma 1).

    Attributes:
        trial: the only trial.
        dimensions: the number of coordinates of a vector.
        shared: whether h is drawn.
    """

    trial: Streams
    dimensions: int
    shared: bool

    def draws(self, law: Law, count: int, step: int) -> Numbers:
        """Return standard draws of a law at a step of the noise source `(count, d)`."""
        draws = np.empty((1, count * self.dimensions), np.float64)
        law(draws, self.trial.trials, step, self.trial.key)
        return draws.reshape(count, -1)

    def factors(self, count: int, step: int, spread: float, start: str) -> Floats:
        """Return initial factors in rows padded with 0 for the kernels, `(count, width(d))`.

        They are normal with standard deviation `spread`, or all `spread` if `start` is 'constant'.
        """
        factors = aligned(count, width(self.dimensions))
        drawn = 1.0 if start == "constant" else self.draws(exact_noise.normal, count, step)
        factors[:, : self.dimensions] = drawn * spread
        return factors

    def scales(self, count: int, step: int) -> Numbers:
        """Return h, the factors on the variances of each item, `(count, d)`."""
        if not self.shared:
            return np.ones((count, self.dimensions))
        # The absolute value of a Laplace draw is exponential.
        return abs(self.draws(exact_noise.laplace, count, step))

    def sums(self, variances: Numbers, scales: Numbers | None, step: int) -> Numbers:
        """Return one noise vector for each item, with these variances times h, `(count, d)`.

        Args:
            variances: the total variance of an item's shares, before h, `(count,)`.
            scales: h `(count, d)`; None if no user draws a share individually, so that h is not
                needed.
            step: the step of the noise source.
        """
        if not variances.any():
            return np.zeros((len(variances), self.dimensions))
        if scales is None and self.shared:
            draws = self.draws(exact_noise.laplace, len(variances), step)
            return draws * np.sqrt(variances / 2)[:, None]
        draws = self.draws(exact_noise.normal, len(variances), step)
        draws *= np.sqrt(variances)[:, None]
        return draws if scales is None else draws * np.sqrt(scales)


def check_summation(summation: Summation, variant: Variant) -> None:
    """Refuse a secure summation in a variant that does not use it.

    Raises:
        ValueError: the variant is not `corrected`.
    """
    if summation == "secure" and variant != "corrected":
        raise ValueError(
            f"summation = 'secure' is part of variant 'corrected', and variant {variant!r} shows "
            "the recommender each submission: leave it out"
        )


def honest_raters(raters: NDArray[np.int64], insiders: int) -> NDArray[np.int64]:
    """Return the number of shares of noise in a sum that insiders do not know, `max(n − k, 1)`.

    Args:
        raters: n, the number of users who add a share to each sum.
        insiders: k, the number of them who reveal their shares, without the user whom the claim
            protects.
    """
    return np.maximum(raters - insiders, 1)
