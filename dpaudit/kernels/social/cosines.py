"""The cosine of two users' ratings of the items that both rated."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpaudit.kernels.jit import exact_kernel


@exact_kernel
def cosines(
    start: NDArray[np.int64],
    items: NDArray[np.int32],
    values: NDArray[np.float32],
    left: NDArray[np.int32],
    right: NDArray[np.int32],
    result: NDArray[np.float64],
) -> None:
    """Fill `result` with the cosine of each pair of users, 0 where they have no item in common.

        Σ_j r_ij r_fj / √(Σ_j r_ij² Σ_j r_fj²),    j over the items that both rated.

    Args:
        start: the ratings of user i are `start[i] … start[i + 1]`, `(N + 1,)`.
        items: their items, increasing for each user `(R,)`.
        values: the ratings.
        left: the first user of each pair `(L,)`.
        right: the second.
        result: result `(L,)`.
    """
    for link in range(len(left)):
        a, a_end = start[left[link]], start[left[link] + 1]
        b, b_end = start[right[link]], start[right[link] + 1]
        both = ours = theirs = 0.0
        while a < a_end and b < b_end:
            if items[a] < items[b]:
                a += 1
            elif items[a] > items[b]:
                b += 1
            else:
                x, y = np.float64(values[a]), np.float64(values[b])
                both += x * y
                ours += x * x
                theirs += y * y
                a += 1
                b += 1
        squares = ours * theirs
        result[link] = both / np.sqrt(squares) if squares > 0 else 0.0
