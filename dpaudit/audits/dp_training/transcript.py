"""What a training by DP-SGD did, step by step: numbers from which checks decide, without a library.

A step clips the gradients of the rows of a batch to a norm C, adds them up to S, adds noise Z of
standard deviation σ C, divides by D, and gives G = (S + Z)/D to what moves the weights (Abadi et
al. 2016, arXiv:1607.00133, algorithm 1).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.streams import generator

Vector = NDArray[np.float32]
Unit = Literal["interaction", "user"]
# Noise below this, in units of σC, is none but for rounding.
_NONE = 1e-4
# How many coordinates of a step are kept for comparisons between steps, and how many are compared
# with each other within a step.
KEPT, COMPARED = 4096, 2**19


class Place(NamedTuple):
    """A line of code.

    Attributes:
        file: the file.
        line: from 1.
    """

    file: str
    line: int


class Clipping(NamedTuple):
    """What clipping did to the rows of a batch.

    Attributes:
        excess: ‖S − Σ min(1, C/‖g_i‖) g_i‖ / C.
        largest: the largest ‖g_i‖/C before clipping; 0 for an empty batch.
    """

    excess: float
    largest: float


@dataclass(frozen=True, eq=False)
class Step:
    """One step.

    Attributes:
        divisor: D, as the library or the loop states it.
        noise: Z/(σC) at some coordinates that are the same in all steps `(K,)`.
        count: the number k of coordinates.
        squares: Σ (Z/(σC))² over all.
        fourth: Σ (Z/(σC))⁴ over all.
        missing: the number of coordinates without noise.
        repeated: the share of coordinates with the noise of another one, of those with S = 0.
        free: the number of coordinates with S = 0.
        free_squares: Σ (G D/(σC))² over these.
        rows: the number of rows in the batch; None if it is not known.
        clipping: what clipping did, where the gradient of each row is known.
        sums: S/C `(k,)`; None if it is not kept.
        state: a digest of weights, buffers and learning rates before the step.
    """

    divisor: float
    noise: Vector
    count: int
    squares: float
    fourth: float
    missing: int
    repeated: float
    free: int
    free_squares: float
    rows: int | None = None
    clipping: Clipping | None = None
    sums: Vector | None = None
    state: str = ""

    @classmethod
    def of(cls, summed: Vector, noised: Vector, divisor: float, scale: float, **seen: Any) -> Step:
        """Return what checks need of a step.

        Args:
            summed: S `(k,)`.
            noised: S + Z, as G D `(k,)`.
            divisor: D.
            scale: σC, above 0.
            seen: `rows`, `clipping`, `sums` and `state`.
        """
        noise = (noised.astype(np.float64) - summed) / scale
        alone, squared = noised[summed == 0], noise**2
        return cls(
            divisor=divisor,
            noise=noise[kept(len(noise))].astype(np.float32),
            count=len(noise),
            squares=float(squared.sum()),
            fourth=float((squared**2).sum()),
            missing=int(np.count_nonzero(np.abs(noise) < _NONE)),
            repeated=_repeated(alone),
            free=len(alone),
            free_squares=float(np.square(alone / scale, dtype=np.float64).sum()),
            **seen,
        )


@cache
def kept(count: int) -> NDArray[np.int64]:
    """Return which of `count` coordinates are kept, at most `KEPT`, increasing."""
    if count <= KEPT:
        return np.arange(count)
    return np.sort(generator(count, "kept coordinates").choice(count, KEPT, replace=False))


def _repeated(values: Vector) -> float:
    """Return the share of values other than 0 that another coordinate has, too."""
    bits = np.abs(values[values != 0]).view(np.int32)
    # Of many values some are compared, chosen by themselves, so that equal ones stay together.
    bits = np.sort(bits[bits % max(1, len(bits) // COMPARED) == 0])
    return np.count_nonzero(bits[1:] == bits[:-1]) / len(bits) if len(bits) else 0.0


@dataclass(frozen=True)
class Setup:
    """What a training has settled before its first step.

    Attributes:
        records: the number n of rows that it draws batches from.
        rate: the probability with which a batch takes a row, as the accountant has it.
        noise_multiplier: σ.
        bound: C.
        steps: the number of steps of an epoch, or that are planned; None if it is not known.
        poisson: whether the sampler is known to take each row by itself; None if it is not known.
        unit: what a row is, which is clipped: an interaction, or all of a user.
        divisor: D, which the first step shows.
        coordinates: the number of coordinates, which the first step shows.
    """

    records: int
    rate: float
    noise_multiplier: float
    bound: float
    steps: int | None = None
    poisson: bool | None = None
    unit: Unit = "interaction"
    divisor: float = 0.0
    coordinates: int = 0


@dataclass(frozen=True, eq=False)
class Forced:
    """G of each step, to put in place of a training's own: beyond those that are kept, noise.

    Attributes:
        setup: what the training states, whose noise has the standard deviation σC/D.
        count: the number of steps.
        kept: G of the first steps `(k,)`.
    """

    setup: Setup
    count: int
    kept: Sequence[Vector] = ()

    def at(self, index: int) -> Vector:
        """Return G of a step, from 0."""
        if index < len(self.kept):
            return self.kept[index]
        scale = self.setup.noise_multiplier * self.setup.bound / self.setup.divisor
        source = generator(index, "noised sums")
        return np.float32(scale) * source.standard_normal(self.setup.coordinates, np.float32)


@dataclass(frozen=True, eq=False)
class Transcript:
    """One training.

    Attributes:
        setup: what was settled before.
        steps: its steps, in order.
        counted: the number of steps that the accountant counted; None without an accountant.
        stated: the ε that the accountant states at the claim's δ; None without one.
        final: a digest of the weights and of what the training returned; empty if it was ended.
        kept: G of its first steps: as many as are kept.
        places: the lines that are to blame if a part of a step is at fault.
    """

    setup: Setup
    steps: Sequence[Step]
    counted: int | None = None
    stated: float | None = None
    final: str = ""
    kept: Sequence[Vector] = ()
    places: Mapping[str, Place] = field(default_factory=dict)

    @property
    def forced(self) -> Forced:
        """What other trainings get in place of their own sums."""
        return Forced(self.setup, len(self.steps), self.kept)
