"""Top-k lists of noised scores, many noise trials at once, and of a factor model's scores."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpaudit.kernels.exact_noise import laplace_row
from dpaudit.kernels.jit import exact_kernel
from dpaudit.kernels.lanes import LANES, dot, total
from dpaudit.kernels.noise import TILE


@exact_kernel
def insert(
    items: NDArray[np.int32], values: NDArray[np.float32], item: int, value: np.float32
) -> None:
    """Insert an item into a list in decreasing order of values; the last one drops out."""
    place = len(values) - 1
    while place > 0 and values[place - 1] < value:
        values[place], items[place] = values[place - 1], items[place - 1]
        place -= 1
    values[place], items[place] = value, item


@exact_kernel
def laplace_top_k(
    items: NDArray[np.int32],
    values: NDArray[np.float32],
    scores: NDArray[np.float32],
    scale: float,
    grid: float,
    trials: NDArray[np.int64],
    step: int,
    key: NDArray[np.uint32],
) -> None:
    """Rank `scores + scale · Laplace` on a grid; the noise of item `c` is coordinate `c`.

    Ties are broken by the lower item index.

    Args:
        items: result `(W, k)` int32, the items of the k largest values, best first.
        values: result `(W, k)` float32, their noised scores.
        scores: exact scores `(M,)` float32; `−inf` for an item that is never shown.
        scale: the Laplace scale, 0 for none.
        grid: values are rounded to its multiples, a power of two; 0 without noise.
        trials: the indices of the trials `(W,)`.
        step: the noise source's step.
        key: the noise source's key.
    """
    words = np.empty((2, TILE), np.uint32)
    draws = np.empty(TILE, np.float64)
    shown = np.empty(TILE, np.float32)
    n = len(scores)
    for w in range(items.shape[0]):
        values[w] = -np.inf
        items[w] = -1
        for start in range(0, n, TILE):
            stop = min(start + TILE, n)
            if scale > 0:
                laplace_row(draws[: stop - start], words, start, step, trials[w], key)
                for i in range(stop - start):
                    x = scores[start + i] + scale * draws[i]
                    shown[i] = np.float32(np.rint(x / grid) * grid)
            else:
                shown[: stop - start] = scores[start:stop]
            least = values[w, -1]
            for i in range(stop - start):
                if shown[i] > least:
                    insert(items[w], values[w], start + i, shown[i])
                    least = values[w, -1]


@exact_kernel
def best(
    users: NDArray[np.int32],
    left: NDArray[np.float32],
    right: NDArray[np.float32],
    size: int,
    seen_start: NDArray[np.int64],
    seen: NDArray[np.int32],
    items: NDArray[np.int32],
    values: NDArray[np.float32],
) -> None:
    """Find the items with the largest `u_i · v_j` among those that each user has not seen.

    Ties are broken by the lower item index.

    Args:
        users: the users to make lists for `(n,)`.
        left: U, `(N, size)`, flat.
        right: V, `(M, size)`, flat.
        size: the length of a row of factors.
        seen_start: user i has seen `seen[seen_start[i]:seen_start[i + 1]]`, `(N + 1,)`.
        seen: the seen items, increasing for each user.
        items: result `(n, k)` int32, best first; −1 where there are no more.
        values: result `(n, k)` float32, their scores; −inf where there are no more.
    """
    n_items, vectors = len(right) // size, size // LANES
    for r in range(len(users)):
        i = users[r]
        place, last = seen_start[i], seen_start[i + 1]
        items[r] = -1
        values[r] = -np.inf
        least = values[r, -1]
        for m in range(n_items):
            if place < last and seen[place] == m:
                place += 1
                continue
            score = total(dot(left, i * size, right, m * size, vectors))
            if score > least:
                insert(items[r], values[r], m, score)
                least = values[r, -1]
