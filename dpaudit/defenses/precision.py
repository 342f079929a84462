"""What finite precision costs a claim, and the public grids that hide what it would tell.

Real numbers are not what a computer adds. The low-order bits of a floating-point sum tell its
summands (Mironov 2012, doi:10.1145/2382196.2382264), so whatever is released is rounded to

    g · round((x + s z)/g),    g = 2^i in (s/16, s/8],

s the noise's scale: a grid that depends on public numbers alone, coarse against what can be drawn
(`kernels.exact_noise`) and fine against the noise, whose variance it raises by 0.07 % (Laplace) or
0.13 % (normal). All else is computed from what was rounded.

What is left is that a grid point's probability is not exactly that of the ideal law. Its ends, in
grid steps, are off by the spacing of the draws (2^-46), by the rounding of z (2^-40.2 up to 221
scales), and by that of `x + s z` and its division (2^-40.2, if |x| is at most 2^12 steps): by less
than 2^-39 in all. Either end counts, in either data set, so a number that differs between the two
adds at most 2^-37 to ε, and one whose noise is normal, where a step at 21 deviations weighs 14
times more, 2^-36 (|z| ends at 21 there). One that does not differ adds nothing: given all that was
released before, it has the same law in both. So noise is scaled to what is left of ε. Beyond 221
scales lies a mass of 2^-319, which is why ε ends at 150.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpaudit.core.errors import ConfigError

# What a released number that differs adds to ε, by the law of its noise; of a list's predictions,
# whose grid is 64 times finer, and which may lie 2^16 grid steps from 0.
LAPLACE_EXCESS, NORMAL_EXCESS, LIST_EXCESS = 2.0**-37, 2.0**-36, 2.0**-30
# The share of ε that finite precision may take, and the largest ε that draws can keep.
_MOST_SHARE, MOST_EPSILON = 1 / 8, 150.0


def grid(scale: float) -> float:
    """The step of the grid for a number with noise of this scale; 0 without noise."""
    return 2.0 ** math.floor(math.log2(scale / 8)) if scale > 0 else 0.0


def list_grid(scale: float) -> float:
    """The step of a grid fine enough that ties decide no list: 2^i in (s/1024, s/512]."""
    return grid(scale) / 64


def grids(scales: NDArray[np.float64]) -> NDArray[np.float64]:
    """`grid` of each scale."""
    exponents = np.floor(np.log2(np.where(scales > 0, scales, 8.0) / 8))
    return np.where(scales > 0, np.exp2(exponents), 0.0)


def on_grid(values: NDArray[np.float64], steps: ArrayLike) -> NDArray[np.float64]:
    """Values on their grids, which broadcast; unchanged where the step is 0."""
    found = np.asarray(steps, np.float64)
    safe = np.where(found > 0, found, 1.0)
    return np.where(found > 0, np.rint(values / safe) * safe, values)


def rounded(values: NDArray[np.float64], steps: ArrayLike) -> NDArray[np.float32]:
    """The same in single precision, which holds a power of two's multiples up to 2^24 exactly."""
    return on_grid(values, steps).astype(np.float32)


def check_pure(epsilon: float) -> None:
    """Refuse an ε at δ = 0 that draws of finite length cannot keep.

    Raises:
        ValueError: it is above 150.
    """
    if epsilon > MOST_EPSILON:
        raise ValueError(
            f"epsilon = {epsilon:g} at delta = 0 is a claim that draws of finite length cannot "
            f"keep: give at most {MOST_EPSILON:g}"
        )


def hair(count: ArrayLike) -> NDArray[np.float64]:
    """By which share a norm is cut below its bound, as it is formed in single precision.

    Args:
        count: how many numbers it is formed of. Each sum, product and root is off by 2^-24 of it.
    """
    return np.minimum((np.asarray(count, np.float64) + 64) * 2.0**-22, 0.5)


def kept_epsilon(epsilon: float, excess: float) -> float:
    """What is left of ε for noise of the ideal law.

    Args:
        epsilon: what is claimed.
        excess: what finite precision adds: how many released numbers can differ between two
            neighbours at most, times what each adds.

    Raises:
        ConfigError: that is more than an eighth of ε.
    """
    if excess > _MOST_SHARE * epsilon:
        raise ConfigError(
            f"epsilon = {epsilon:g} is finer than double precision keeps for so many released "
            f"numbers, which adds up to {excess:.2g}: raise epsilon, or learn from fewer items or "
            "in fewer steps"
        )
    return epsilon - excess


def kept_budget(epsilon: float, delta: float, numbers: int) -> tuple[float, float]:
    """What is left of (ε, δ) for normal noise of the ideal law.

    Where every probability is within `e^s` of the ideal one's, ideal noise of (ε', δ') gives
    `(ε' + 2s, e^s δ')`; the excess is 2s, and more than s is taken off δ.

    Args:
        epsilon: ε of what is claimed.
        delta: its δ.
        numbers: how many released numbers can differ between two neighbours at most.

    Raises:
        ConfigError: finite precision would take more than an eighth of ε.
    """
    kept = kept_epsilon(epsilon, numbers * NORMAL_EXCESS)
    return kept, delta * math.exp(kept - epsilon)
