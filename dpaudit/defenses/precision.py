"""What finite precision costs a claim, and the public grids that released numbers are rounded to.

The low-order bits of a floating-point sum reveal its summands (Mironov 2012,
doi:10.1145/2382196.2382264). So every released number, x with noise s z of scale s, is rounded to

    g · round((x + s z)/g),    g = 2^i in (s/16, s/8].

The grid depends on public numbers alone. It is coarse compared with the spacing of the draws
(`kernels.exact_noise`), and fine compared with the noise, whose variance it raises by 0.07 %
(Laplace) or 0.13 % (normal). Everything else is computed from the rounded number.

The probability of a grid point still differs slightly from that under the ideal law. The ends of
its interval, in grid steps, are off by the spacing of the draws (2^-46), by the rounding of z
(2^-40.2 up to 221 scales), and by the rounding of `x + s z` and of the division (2^-40.2 if |x| is
at most 2^12 steps): by less than 2^-39 in all. Both ends count, in both data sets. So a released
number that differs between the two data sets adds at most 2^-37 to ε. With normal noise it adds at
most 2^-36, since a step at 21 deviations, where |z| ends, weighs 14 times more. A number that does
not differ adds nothing: given all that was released before, it has the same law in both data sets.
The noise is scaled to the rest of ε. A mass of 2^-319 lies beyond 221 scales, so ε is limited to
150.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpaudit.core.claim import Variant
from dpaudit.core.errors import ConfigError

# What a released number that differs adds to ε, by the law of its noise. LIST_EXCESS is that of
# item-item predictions, whose grid is 64 times finer and which may lie 2^16 grid steps from 0.
LAPLACE_EXCESS, NORMAL_EXCESS, LIST_EXCESS = 2.0**-37, 2.0**-36, 2.0**-30
# The largest share of ε that finite precision may take, and the largest ε that draws of finite
# length can keep.
_MOST_SHARE, MOST_EPSILON = 1 / 8, 150.0


def grid(scale: float) -> float:
    """Return the grid step for a number with noise of this scale, 0 without noise."""
    return 2.0 ** math.floor(math.log2(scale / 8)) if scale > 0 else 0.0


def list_grid(scale: float) -> float:
    """Return the step of a grid with few ties in a ranked list: 2^i in (s/1024, s/512]."""
    return grid(scale) / 64


def grids(scales: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return `grid` of each scale."""
    exponents = np.floor(np.log2(np.where(scales > 0, scales, 8.0) / 8))
    return np.where(scales > 0, np.exp2(exponents), 0.0)


def on_grid(values: NDArray[np.float64], steps: ArrayLike) -> NDArray[np.float64]:
    """Round values to multiples of `steps`, which broadcasts; a step of 0 rounds nothing."""
    sizes = np.asarray(steps, np.float64)
    safe = np.where(sizes > 0, sizes, 1.0)
    return np.where(sizes > 0, np.rint(values / safe) * safe, values)


def rounded(values: NDArray[np.float64], steps: ArrayLike) -> NDArray[np.float32]:
    """Round as `on_grid` to single precision, exact for up to 2^24 steps of a power of two."""
    return on_grid(values, steps).astype(np.float32)


def check_finite(epsilon: float, variant: Variant) -> None:
    """Refuse an ε above 1e6, except that `nonprivate` may have an infinite one.

    Raises:
        ValueError: it is larger.
    """
    if epsilon > 1e6 and not (variant == "nonprivate" and math.isinf(epsilon)):
        raise ValueError(
            f"epsilon = {epsilon:g} is above 1e6: use at most 1e6, or inf with the variant "
            "'nonprivate'"
        )


def check_pure(epsilon: float) -> None:
    """Check that draws of finite length can keep this ε at δ = 0.

    Raises:
        ValueError: `epsilon` is above 150.
    """
    if epsilon > MOST_EPSILON:
        raise ValueError(
            f"epsilon = {epsilon:g} at delta = 0 is a claim that draws of finite length cannot "
            f"keep: use at most {MOST_EPSILON:g}"
        )


def hair(count: ArrayLike) -> NDArray[np.float64]:
    """Return the share by which a norm is clipped below its bound, against rounding errors.

    Args:
        count: the number of summands of the norm, which is computed in single precision: each sum,
            product and root is off by a share of 2^-24.
    """
    return np.minimum((np.asarray(count, np.float64) + 64) * 2.0**-22, 0.5)


def kept_epsilon(epsilon: float, excess: float) -> float:
    """Return the ε that is left for noise of the ideal law: `epsilon − excess`.

    Args:
        epsilon: the claimed ε.
        excess: what finite precision adds: the largest number of released numbers that can differ
            between two neighbours, times what each adds.

    Raises:
        ConfigError: `excess` is more than an eighth of ε.
    """
    if excess > _MOST_SHARE * epsilon:
        raise ConfigError(
            f"epsilon = {epsilon:g} is too small for double precision: rounding of the released "
            f"numbers adds up to {excess:.2g}: raise epsilon, or train on fewer items or in fewer "
            "steps"
        )
    return epsilon - excess


def kept_budget(epsilon: float, delta: float, numbers: int) -> tuple[float, float]:
    """Return the (ε', δ') that are left for normal noise of the ideal law.

    If every probability is within a factor `e^s` of the ideal one, noise whose ideal law keeps
    (ε', δ') keeps `(ε' + 2s, e^s δ')`. The excess is 2s, and δ is reduced by the factor `e^−2s`.

    Args:
        epsilon: the claimed ε.
        delta: the claimed δ.
        numbers: the largest number of released numbers that can differ between two neighbours.

    Raises:
        ConfigError: finite precision would take more than an eighth of ε.
    """
    kept = kept_epsilon(epsilon, numbers * NORMAL_EXCESS)
    return kept, delta * math.exp(kept - epsilon)
