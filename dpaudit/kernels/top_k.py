"""Top-k lists, many trials at once: ranked by noised scores, or drawn from a law.

Ranked lists are also of a factor model's scores. Drawn ones are lists and sets, and the states of a
birth-death chain. A uniform draw takes two words of the noise source and is one of 2^52 equally
spaced values in (0, 1), so choice probabilities have about the resolution of double precision.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dpaudit.kernels.exact_noise import laplace_row
from dpaudit.kernels.jit import exact_kernel, inline
from dpaudit.kernels.lanes import LANES, dot, total
from dpaudit.kernels.noise import TILE, philox_words


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


U32, F64 = np.uint32, np.float64

Vector = NDArray[np.float64]
Indices = NDArray[np.int32]
Trials = NDArray[np.int64]
Words = NDArray[np.uint32]


@inline
def _uniform(high: np.uint32, low: np.uint32) -> np.float64:
    # (n + 1/2) / 2^52 with 26 bits of each word: exact, never 0 or 1.
    n = F64(high >> U32(6)) * 67108864.0 + F64(low >> U32(6))
    return (n + 0.5) * 2.0**-52


@inline
def _words_for(uniforms: int) -> int:
    return (2 * uniforms + 3) // 4 * 4


@exact_kernel
def chain_states(
    states: Indices, up: Vector, down: Vector, count: int, trials: Trials, step: int, key: Words
) -> None:
    """Simulate a birth-death chain from state 0; move `i` uses noise coordinates `2i`, `2i + 1`.

    Args:
        states: result `(W,)` int32, each trial's state after `count` moves.
        up: the probability of moving from each state to the next `(J,)`, 0 for the last.
        down: the probability of moving to the previous state `(J,)`, 0 for the first.
        count: the number of moves.
        trials: the indices of the trials `(W,)`.
        step: the noise source's step.
        key: the noise source's key.
    """
    words = np.empty(TILE, np.uint32)
    moves = up + down
    for w in range(len(states)):
        j = 0
        for start in range(0, count, TILE // 2):
            part = min(count - start, TILE // 2)
            philox_words(words[: _words_for(part)], start // 2, step, trials[w], key)
            for i in range(part):
                u = _uniform(words[2 * i], words[2 * i + 1])
                # +1 for u below `up`, −1 from there to `up + down`, without a branch.
                j += 2 * int(u < up[j]) - int(u < moves[j])
        states[w] = j


@exact_kernel
def chain_law(law: Vector, up: Vector, down: Vector, count: int) -> None:
    """Advance the distribution `(J,)` of a birth-death chain's state by `count` moves, in place."""
    last = len(law) - 1
    for _ in range(count):
        inflow = 0.0
        for j in range(last + 1):
            mass = law[j]
            below = law[j + 1] * down[j + 1] if j < last else 0.0
            law[j] = mass * max(0.0, 1.0 - (up[j] + down[j])) + inflow + below
            inflow = mass * up[j]


@exact_kernel
def pick(states: Indices, cumulative: Vector, trials: Trials, step: int, key: Words) -> None:
    """Fill `states` `(W,)` with draws from a distribution with running sums `cumulative` `(J,)`."""
    words = np.empty(4, np.uint32)
    for w in range(len(states)):
        philox_words(words, 0, step, trials[w], key)
        u = _uniform(words[0], words[1]) * cumulative[-1]
        low, high = 0, len(cumulative) - 1
        while low < high:
            middle = (low + high) // 2
            if u < cumulative[middle]:
                high = middle
            else:
                low = middle + 1
        states[w] = low


@exact_kernel
def sum_tree(weights: Vector) -> Vector:
    """Return a binary tree of sums: node `n` is the sum of `2n` and `2n + 1`, the root is node 1.

    The result has `2L` entries, `L` the smallest power of two not below the number of weights; the
    weights are entries `L …`.
    """
    size = 1
    while size < len(weights):
        size *= 2
    tree = np.zeros(2 * size)
    tree[size : size + len(weights)] = weights
    for n in range(size - 1, 0, -1):
        tree[n] = tree[2 * n] + tree[2 * n + 1]
    return tree


@inline
def _remove(tree: Vector, leaf: int) -> None:
    # Sums are recomputed instead of subtracted, which keeps their relative precision.
    total = 0.0
    tree[leaf] = total
    while leaf > 1:
        total += tree[leaf ^ 1]
        leaf >>= 1
        tree[leaf] = total


@inline
def _restore(tree: Vector, original: Vector, leaf: int) -> None:
    while leaf > 0:
        tree[leaf] = original[leaf]
        leaf >>= 1


@exact_kernel
def peeling(places: Indices, tree: Vector, trials: Trials, step: int, key: Words) -> None:
    """Draw items one after another in proportion to their weights, without replacement.

    The result is distributed as the `k` largest of `ln weight + Gumbel`, best first
    (Plackett-Luce).

    Args:
        places: result `(W, k)` int32, the indices of the drawn weights, in order of drawing.
        tree: from `sum_tree`; at least `k` weights, all positive.
        trials: the indices of the trials `(W,)`.
        step: the noise source's step.
        key: the noise source's key.
    """
    k = places.shape[1]
    size = len(tree) // 2
    words = np.empty(_words_for(k), np.uint32)
    work = tree.copy()
    for w in range(places.shape[0]):
        philox_words(words, 0, step, trials[w], key)
        for t in range(k):
            x = _uniform(words[2 * t], words[2 * t + 1]) * work[1]
            node = 1
            while node < size:
                node *= 2
                left = work[node]
                # Rounding may put x beyond the last weight, so never enter an empty subtree.
                right = int(x >= left) & int(work[node + 1] > 0)
                x -= left if right else 0.0
                node += right
            places[w, t] = node - size
            if t < k - 1:
                _remove(work, node)
        for t in range(k - 1):
            _restore(work, tree, size + places[w, t])


@exact_kernel
def peeling_log_law(out: Vector, places: Indices, tree: Vector) -> None:
    """Fill `out` `(W,)` with the log-probabilities of lists `places` `(W, k)` under `peeling`.

    They are `ln Π_t w_t / (sum of the weights not drawn before t)`. A list must have no duplicates.
    """
    k = places.shape[1]
    size = len(tree) // 2
    work = tree.copy()
    for w in range(places.shape[0]):
        total = 0.0
        for t in range(k):
            leaf = size + places[w, t]
            total += math.log(tree[leaf]) - math.log(work[1])
            _remove(work, leaf)
        out[w] = total
        for t in range(k):
            _restore(work, tree, size + places[w, t])


@exact_kernel
def symmetric_sums(log_weights: Vector, k: int) -> Vector:
    """Return `ln e_r(w_n, …, w_{M−1})`, the elementary symmetric sums of tails, `(k + 1, M + 1)`.

    Entry `[r, n]` is for the weights from `n` on; −inf if there are fewer than `r`.
    """
    size = len(log_weights)
    sums = np.full((k + 1, size + 1), -np.inf)
    sums[0] = 0.0
    for n in range(size - 1, -1, -1):
        for r in range(1, min(k, size - n) + 1):
            # e_r(n…) = e_r(n+1…) + w_n · e_{r−1}(n+1…)
            without, within = sums[r, n + 1], log_weights[n] + sums[r - 1, n + 1]
            high, low = max(without, within), min(without, within)
            sums[r, n] = high + math.log1p(math.exp(low - high))
    return sums


@exact_kernel
def weighted_sets(places: Indices, sums: Vector, trials: Trials, step: int, key: Words) -> None:
    """Draw sets of `k` in proportion to the product of their weights.

    Given that `r` indices from `m` on are still to be drawn, none of them is below `n` with
    probability `e_r(n…) / e_r(m…)`; the next index is drawn by inverting this survival function.

    Args:
        places: result `(W, k)` int32, increasing indices.
        sums: from `symmetric_sums`, of at least `k` weights.
        trials: the indices of the trials `(W,)`.
        step: the noise source's step.
        key: the noise source's key.
    """
    k = places.shape[1]
    size = sums.shape[1] - 1
    words = np.empty(_words_for(k), np.uint32)
    for w in range(places.shape[0]):
        philox_words(words, 0, step, trials[w], key)
        first = 0
        for t in range(k):
            tail = sums[k - t]
            bar = tail[first] + math.log(_uniform(words[2 * t], words[2 * t + 1]))
            # The last index whose tail exceeds the bar; `first` always does.
            low, high = first, size - (k - t) + 1
            while high - low > 1:
                middle = (low + high) // 2
                if tail[middle] > bar:
                    low = middle
                else:
                    high = middle
            places[w, t] = low
            first = low + 1
