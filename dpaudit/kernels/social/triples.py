"""Draws triples of a user and two items of which she likes the first more (Meng et al. 2018).

P_i are the items that user i holds, F_i those that her friends offer and she does not hold, N_i all
others. She likes what is in P_i more than what is in F_i, and that more than what is in N_i; where
F_i is empty, P_i more than N_i (equation (11)).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpaudit.kernels.jit import exact_kernel, inline
from dpaudit.kernels.noise import philox_words

I64, U64 = np.int64, np.uint64

Rows = NDArray[np.int32]
Starts = NDArray[np.int64]
Words = NDArray[np.uint32]
Triples = NDArray[np.int32]


@inline
def _outside(members: Rows, first: int, last: int, rank: np.int64) -> np.int64:
    # The number that has `rank` smaller ones among 0, 1, … that are none of the increasing
    # `members[first:last]`: it comes after member m if x_m − m, which never falls, is at most rank.
    low, high = first, last
    while low < high:
        middle = (low + high) // 2
        if members[middle] - (middle - first) <= rank:
            low = middle + 1
        else:
            high = middle
    return rank + low - first


@inline
def _choice(word: np.uint32, count: int) -> np.int64:
    # One of 0 … count − 1; none is likelier than another by more than count/2^32 of its chance.
    return I64((U64(word) * U64(count)) >> U64(32))


@exact_kernel
def draw(
    held_start: Starts,
    held: Rows,
    near_start: Starts,
    near: Rows,
    places: Rows,
    n_items: int,
    step: int,
    world: int,
    key: Words,
    better: Triples,
    worse: Triples,
) -> None:
    """Triples of every user, uniform on hers and independent of each other.

    The first half of a user's has `j ∈ P_i`, `k ∈ F_i`, or where F_i is empty `k ∈ N_i`; the second
    half `j ∈ F_i`, `k ∈ N_i`. A user's draws depend on nobody else's sets.

    Args:
        held_start: of P_i `(N + 1,)`.
        held: P_i.
        near_start: of P_i and F_i together `(N + 1,)`.
        near: P_i and F_i.
        places: where each of P_i stands among a user's `near`, from 0; as `held`.
        n_items: `M`.
        step: the noise source's step.
        world: the world.
        key: the noise source's key.
        better: result `(N, 2 t)` int32: j of each triple, −1 where one of its sets is empty.
        worse: result `(N, 2 t)` int32: k of each.
    """
    count = better.shape[1] // 2
    words = np.empty(4 * count, np.uint32)
    for i in range(len(held_start) - 1):
        philox_words(words, i * count, step, world, key)
        own, own_end = held_start[i], held_start[i + 1]
        all_, all_end = near_start[i], near_start[i + 1]
        p = own_end - own
        f, n = all_end - all_ - p, n_items - (all_end - all_)
        for t in range(count):
            w = 4 * t
            better[i, t] = worse[i, t] = better[i, count + t] = worse[i, count + t] = -1
            if p > 0 and f > 0:
                better[i, t] = held[own + _choice(words[w], p)]
                place = _outside(places, own, own_end, _choice(words[w + 1], f))
                worse[i, t] = near[all_ + place]
            elif p > 0 and n > 0:
                better[i, t] = held[own + _choice(words[w], p)]
                worse[i, t] = _outside(near, all_, all_end, _choice(words[w + 1], n))
            if f > 0 and n > 0:
                place = _outside(places, own, own_end, _choice(words[w + 2], f))
                better[i, count + t] = near[all_ + place]
                worse[i, count + t] = _outside(near, all_, all_end, _choice(words[w + 3], n))
