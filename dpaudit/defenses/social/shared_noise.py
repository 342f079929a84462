"""Normal noise whose variances many users share, multiplied by exponential draws or not."""

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

# Who sees what is submitted: the recommender each piece, or sums alone.
Summation = Literal["local", "secure"]

Numbers = NDArray[np.float64]

# Fills an array with draws of some worlds at a step of the noise source with a key.
Law = Callable[[Numbers, NDArray[np.int64], int, NDArray[np.uint32]], None]


@dataclass(frozen=True, eq=False)
class SharedNoise:
    """Draws vectors of noise, one an item.

    A coordinate's noise is normal with a given variance times h; h is 1, or where it is shared the
    exponential draw of that item, coordinate and round. Given h, the noise of several users is
    normal, and so is its sum; where h is not known it is Laplace, as `√(2h) c ~ Lap(1)` of
    `h ~ Exp(1)`, `c ~ N(0, 1)` (Meng et al. 2018, Lemma 1).

    Attributes:
        world: the only world.
        dimensions: the coordinates of a vector.
        shared: whether h is drawn.
    """

    world: Streams
    dimensions: int
    shared: bool

    def draws(self, law: Law, count: int, step: int) -> Numbers:
        """Standard draws of a law at a step of the noise source `(count, d)`."""
        found = np.empty((1, count * self.dimensions), np.float64)
        law(found, self.world.worlds, step, self.world.key)
        return found.reshape(count, -1)

    def factors(self, count: int, step: int, spread: float, start: str) -> Floats:
        """Initial factors in rows that kernels read: normal, or all `spread` if start is constant.

        Beyond the dimensions they are 0.
        """
        found = aligned(count, width(self.dimensions))
        drawn = 1.0 if start == "constant" else self.draws(exact_noise.normal, count, step)
        found[:, : self.dimensions] = drawn * spread
        return found

    def scales(self, count: int, step: int) -> Numbers:
        """What the variances of each item are multiplied by, h, `(count, d)`."""
        if not self.shared:
            return np.ones((count, self.dimensions))
        # The size of a Laplace draw is exponential.
        return abs(self.draws(exact_noise.laplace, count, step))

    def sums(self, variances: Numbers, scales: Numbers | None, step: int) -> Numbers:
        """Noise of these variances times h, an item each, `(count, d)`.

        Args:
            variances: of all shares of an item together, before h, `(count,)`.
            scales: h `(count, d)`; None where nobody draws a share of her own.
            step: the noise source's step.
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
    """Refuse a secure summation of which a form makes no use.

    Raises:
        ValueError: the form is not the corrected one.
    """
    if summation == "secure" and variant != "corrected":
        raise ValueError(
            f"summation = 'secure' is part of variant 'corrected', and variant {variant!r} shows "
            "the recommender each submission: leave it out"
        )


def honest_raters(raters: NDArray[np.int64], insiders: int) -> NDArray[np.int64]:
    """How many shares of noise a sum keeps that nobody else knows: `max(n − k, 1)`.

    Args:
        raters: n, how many add a share to each sum.
        insiders: k, how many of them tell theirs, but not one of whom a claim speaks.
    """
    return np.maximum(raters - insiders, 1)
