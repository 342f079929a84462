"""Draws of top-k lists and sets, and of a birth-death chain, many worlds at once.

A uniform draw takes two words of the noise source and is one of 2^52 equally spaced values in
(0, 1), so a choice among items is as fine as double precision.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dpaudit.kernels.jit import exact_kernel, inline
from dpaudit.kernels.noise import TILE, philox_words

U32, F64 = np.uint32, np.float64

Vector = NDArray[np.float64]
Indices = NDArray[np.int32]
Worlds = NDArray[np.int64]
Words = NDArray[np.uint32]


@inline
def _uniform(high: np.uint32, low: np.uint32) -> np.float64:
    # (n + 1/2) / 2^52 with 26 bits of either word: exact, never 0 or 1.
    n = F64(high >> U32(6)) * 67108864.0 + F64(low >> U32(6))
    return (n + 0.5) * 2.0**-52


@inline
def _words_for(uniforms: int) -> int:
    return (2 * uniforms + 3) // 4 * 4


@exact_kernel
def chain_states(
    states: Indices, up: Vector, down: Vector, count: int, worlds: Worlds, step: int, key: Words
) -> None:
    """Walk a birth-death chain from state 0; move `i` of a world takes coordinates `2i`, `2i + 1`.

    Args:
        states: result `(W,)` int32, each world's state after `count` moves.
        up: the probability of going from a state to the next `(J,)`, 0 of the last.
        down: the probability of going to the one before `(J,)`, 0 of the first.
        count: the number of moves.
        worlds: the indices of the worlds `(W,)`.
        step: the noise source's step.
        key: the noise source's key.
    """
    words = np.empty(TILE, np.uint32)
    moves = up + down
    for w in range(len(states)):
        j = 0
        for start in range(0, count, TILE // 2):
            part = min(count - start, TILE // 2)
            philox_words(words[: _words_for(part)], start // 2, step, worlds[w], key)
            for i in range(part):
                u = _uniform(words[2 * i], words[2 * i + 1])
                # +1 below `up`, −1 from there to `up + down`: no branch to mispredict.
                j += 2 * int(u < up[j]) - int(u < moves[j])
        states[w] = j


@exact_kernel
def chain_law(law: Vector, up: Vector, down: Vector, count: int) -> None:
    """Move the law `(J,)` of a birth-death chain's state `count` steps on, in place."""
    last = len(law) - 1
    for _ in range(count):
        inflow = 0.0
        for j in range(last + 1):
            mass = law[j]
            below = law[j + 1] * down[j + 1] if j < last else 0.0
            law[j] = mass * max(0.0, 1.0 - (up[j] + down[j])) + inflow + below
            inflow = mass * up[j]


@exact_kernel
def pick(states: Indices, cumulative: Vector, worlds: Worlds, step: int, key: Words) -> None:
    """Fill `states` `(W,)` with draws from the law whose running sums are `cumulative` `(J,)`."""
    words = np.empty(4, np.uint32)
    for w in range(len(states)):
        philox_words(words, 0, step, worlds[w], key)
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
    """A binary tree of sums: node `n` is the sum of `2n` and `2n + 1`, the root is node 1.

    The result has `2L` entries, `L` the power of two that holds the weights; they stand from `L`.
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
    # Sums are formed anew, never by subtraction: what is left keeps its relative precision.
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
def peeling(places: Indices, tree: Vector, worlds: Worlds, step: int, key: Words) -> None:
    """Draw items one after another in proportion to their weights, without replacement.

    In law these are the `k` largest of `ln weight + Gumbel`, best first (Plackett-Luce).

    Args:
        places: result `(W, k)` int32, the places of the weights drawn, in their order.
        tree: from `sum_tree`; at least `k` weights, all positive.
        worlds: the indices of the worlds `(W,)`.
        step: the noise source's step.
        key: the noise source's key.
    """
    k = places.shape[1]
    size = len(tree) // 2
    words = np.empty(_words_for(k), np.uint32)
    work = tree.copy()
    for w in range(places.shape[0]):
        philox_words(words, 0, step, worlds[w], key)
        for t in range(k):
            x = _uniform(words[2 * t], words[2 * t + 1]) * work[1]
            node = 1
            while node < size:
                node *= 2
                left = work[node]
                # A rounded x may lie beyond the last weight: what is empty is never entered.
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
    """Fill `out` `(W,)` with `ln Π_t w_t / (what is left before t)` of lists `(W, k)`.

    A list has no place twice.
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
    """`ln e_r(w_n, …, w_{M−1})`, the elementary symmetric sums of every tail, `(k + 1, M + 1)`.

    Entry `[r, n]` is that of the weights from `n` on; −inf where fewer than `r` are left.
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
def weighted_sets(places: Indices, sums: Vector, worlds: Worlds, step: int, key: Words) -> None:
    """Draw sets of `k` in proportion to the product of their weights.

    Given that `r` places from `m` on are still to come, none of them lies before `n` with
    probability `e_r(n…) / e_r(m…)`: the next place inverts that survival function.

    Args:
        places: result `(W, k)` int32, increasing.
        sums: from `symmetric_sums`, of at least `k` weights.
        worlds: the indices of the worlds `(W,)`.
        step: the noise source's step.
        key: the noise source's key.
    """
    k = places.shape[1]
    size = sums.shape[1] - 1
    words = np.empty(_words_for(k), np.uint32)
    for w in range(places.shape[0]):
        philox_words(words, 0, step, worlds[w], key)
        first = 0
        for t in range(k):
            tail = sums[k - t]
            bar = tail[first] + math.log(_uniform(words[2 * t], words[2 * t + 1]))
            # The last place whose tail still passes the bar; `first` always does.
            low, high = first, size - (k - t) + 1
            while high - low > 1:
                middle = (low + high) // 2
                if tail[middle] > bar:
                    low = middle
                else:
                    high = middle
            places[w, t] = low
            first = low + 1
