"""Comparison of data sets."""

from __future__ import annotations

from typing import Any

import numpy as np


def same_data(d: Any, d_prime: Any) -> bool:
    """Whether two data sets are certainly equal: one object, or the same type with equal parts.

    Data that cannot be compared, or are nested too deep, are not known to be equal.
    """
    try:
        return _same(d, d_prime)
    except Exception:  # a comparison of the user's types raises whatever it likes
        return False


def _same(d: Any, d_prime: Any) -> bool:  # noqa: PLR0911  one kind of data each
    if d is d_prime:
        return True
    if type(d) is not type(d_prime):
        return False
    if isinstance(d, dict):
        return d.keys() == d_prime.keys() and all(_same(d[key], d_prime[key]) for key in d)
    if isinstance(d, list | tuple):
        return len(d) == len(d_prime) and all(map(_same, d, d_prime))
    if isinstance(d, np.ndarray):
        nan = d.dtype.kind in "fc"
        return d.dtype == d_prime.dtype and bool(np.array_equal(d, d_prime, equal_nan=nan))
    if hasattr(d, "equals"):  # frames and series
        return bool(d.equals(d_prime))
    if hasattr(d, "nnz"):  # sparse arrays
        return bool(d.shape == d_prime.shape and (d != d_prime).nnz == 0)
    return bool(d == d_prime) or bool(d != d and d_prime != d_prime)  # noqa: PLR0124  NaN
