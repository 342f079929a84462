"""Draw triples of a user, a preferred item and a less preferred item (Meng et al. 2018).

P_i are the items that user i holds, F_i the items that their friends offer and they do not hold,
and N_i all others. The user prefers P_i to F_i and F_i to N_i; if F_i is empty, P_i to N_i
(equation (11)).
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
    # The number with 0-based rank `rank` among 0, 1, … without the sorted `members[first:last]`.
    # It comes after member m if x_m − m, which never decreases, is at most rank.
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
    # One of 0 … count − 1; probabilities differ by at most a relative count/2^32.
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
    trial: int,
    key: Words,
    better: Triples,
    worse: Triples,
) -> None:
    """Draw independent uniform triples of every user.

    The first half of a user's triples has `j ∈ P_i` and `k ∈ F_i`, or `k ∈ N_i` if F_i is empty;
    the second half has `j ∈ F_i` and `k ∈ N_i`. A user's draws depend on their own sets only.

    Args:
        held_start: offsets of P_i in `held`, `(N + 1,)`.
        held: P_i.
        near_start: offsets of P_i ∪ F_i in `near`, `(N + 1,)`.
        near: P_i ∪ F_i.
        places: 0-based position of each item of P_i in the user's part of `near`; same shape as
            `held`.
        n_items: `M`.
        step: the noise source's step.
        trial: the trial.
        key: the noise source's key.
        better: result `(N, 2 t)` int32: j of each triple, −1 where one of its sets is empty.
        worse: result `(N, 2 t)` int32: k of each triple.
    """
    count = better.shape[1] // 2
    words = np.empty(4 * count, np.uint32)
    for i in range(len(held_start) - 1):
        philox_words(words, i * count, step, trial, key)
        own_start, own_end = held_start[i], held_start[i + 1]
        all_, all_end = near_start[i], near_start[i + 1]
        p = own_end - own_start
        f, n = all_end - all_ - p, n_items - (all_end - all_)
        for t in range(count):
            w = 4 * t
            better[i, t] = worse[i, t] = better[i, count + t] = worse[i, count + t] = -1
            if p > 0 and f > 0:
                better[i, t] = held[own_start + _choice(words[w], p)]
                place = _outside(places, own_start, own_end, _choice(words[w + 1], f))
                worse[i, t] = near[all_ + place]
            elif p > 0 and n > 0:
                better[i, t] = held[own_start + _choice(words[w], p)]
                worse[i, t] = _outside(near, all_, all_end, _choice(words[w + 1], n))
            if f > 0 and n > 0:
                place = _outside(places, own_start, own_end, _choice(words[w + 2], f))
                better[i, count + t] = near[all_ + place]
                worse[i, count + t] = _outside(near, all_, all_end, _choice(words[w + 3], n))
