"""Log-likelihoods of releases with a known distribution."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dpaudit.kernels.exact_noise import _minus_log
from dpaudit.kernels.jit import exact_kernel


@exact_kernel
def log_laplace_cdf(z: float) -> float:
    """`ln F(z)` of the standard Laplace law."""
    if z < 0.0:
        return z - math.log(2.0)
    return math.log1p(-0.5 * math.exp(-z))


@exact_kernel
def top_list_log_likelihood(
    items: NDArray[np.int32],
    values: NDArray[np.float64],
    exact: NDArray[np.float64],
    shown: NDArray[np.bool_],
    scale: float,
    out: NDArray[np.float64],
) -> None:
    """Log-density of a top-k list with its noised values, for each candidate of the hidden rating.

    The listed items have density `Π exp(−|A_j − f_j|/b)`. Every other item that could have been
    shown lies below the last listed value: `Π F((A_last − f_j)/b)`.

    Args:
        items: the list `(k,)`.
        values: its noised values, decreasing `(k,)`.
        exact: `f_j(v)`, `(M, C)`.
        shown: whether an item could have been shown under a candidate, `(M, C)`; a candidate under
            which a listed item could not be shown gets −inf.
        scale: the Laplace scale `b > 0`.
        out: result `(C,)`, up to a constant.
    """
    last = values[-1]
    listed = np.zeros(len(shown), np.bool_)
    for j in items:
        listed[j] = True
    for c in range(len(out)):
        total = 0.0
        for i in range(len(items)):
            j = items[i]
            total -= abs(values[i] - exact[j, c]) / scale if shown[j, c] else np.inf
        for j in range(len(shown)):
            if shown[j, c] and not listed[j]:
                z = (last - exact[j, c]) / scale
                # Beyond this, |ln F(z)| is below 1e-13.
                if z < 30.0:
                    total += log_laplace_cdf(z)
        out[c] = total


@exact_kernel
def minus_logs(x: NDArray[np.float64], out: NDArray[np.float64]) -> None:
    """Fill `out` `(n,)` with `−ln x` for `1e-300 <= x <= 1`, bit-identical on any machine."""
    for i in range(len(x)):
        out[i] = _minus_log(x[i] * 2.0**63)
