"""Noise proposals for importance sampling, which make rare outputs of a defense frequent."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.errors import InputError

Values = NDArray[np.float64]


@dataclass(frozen=True)
class NoiseProposal:
    """A mixture of a noise law and its shift, with importance weights back to the noise law.

    With the density f of the noise and the proposal R = (1 − a) f(z) + a f(z − shift), the weight
    f/R is at most 1/(1 − a) for every output (defensive mixture: Hesterberg 1995,
    doi:10.1080/00401706.1995.10484303).

    Attributes:
        law: law of each coordinate, independent of the others.
        scale: the standard deviation of Gaussian noise or the scale b of Laplace noise; positive.
        shift: shift of each coordinate; shape (d,).
        share: the probability a in (0, 1) of a shifted draw.
    """

    law: Literal["gaussian", "laplace"]
    scale: float
    shift: tuple[float, ...]
    share: float = 0.5

    def __post_init__(self) -> None:
        if self.law not in ("gaussian", "laplace"):
            raise InputError(f"law = {self.law!r} is unknown: use 'gaussian' or 'laplace'")
        if not 0 < self.scale < math.inf:
            raise InputError(f"scale = {self.scale} is not a finite number above 0")
        if not self.shift or not all(map(math.isfinite, self.shift)):
            raise InputError(f"shift = {self.shift} is not one finite number per coordinate")
        if not 0 < self.share < 1:
            raise InputError(f"share = {self.share} is not in (0, 1): use e.g. 0.5")

    @property
    def bound(self) -> float:
        """Largest possible weight, 1/(1 − a)."""
        return 1 / (1 - self.share)

    def draw(self, n: int, rng: np.random.Generator) -> Values:
        """Draw n noise vectors from the proposal; shape (n, d)."""
        size = (n, len(self.shift))
        noise = rng.normal if self.law == "gaussian" else rng.laplace
        shifted = rng.random((n, 1)) < self.share
        return noise(0, self.scale, size) + shifted * np.array(self.shift)

    def weight(self, noise: Values) -> Values:
        """Return the weights f/R of noise vectors of shape (n, d); shape (n,)."""
        z, h = noise / self.scale, np.array(self.shift) / self.scale
        if self.law == "gaussian":
            tilt = (z * h - h**2 / 2).sum(1)  # ln of f(z − h)/f(z)
        else:
            tilt = (abs(z) - abs(z - h)).sum(1)
        # 1/((1 − a) + a e^tilt), without overflow.
        return np.exp(-np.logaddexp(math.log1p(-self.share), math.log(self.share) + tilt))
