"""Triples of a user and two items of which she likes the first more (Meng et al. 2018, eq. (11)).

P_i are the items that user i holds, F_i those that her friends offer and she does not hold, N_i all
others. She likes what is in P_i more than what is in F_i, and that more than what is in N_i; where
F_i is empty, P_i more than N_i. Her share of the objective is

    Σ ln φ(u_i · v_j − u_i · v_k),    φ(x) = 1/(1 + e^−x),

over her triples (i, j, k); all its slopes follow from one weight of each item,

    a_ij = Σ ψ_ijk − Σ ψ_ikj,    ψ_ijk = 1/(1 + e^(u_i · v_j − u_i · v_k)):

that by v_j is a_ij u_i (equation (13)), that by u_i is Σ_j a_ij v_j (equation (12)).

Factors are flat float32 arrays `(users or items, size)`, `size` a multiple of 16; those beyond
the model's are zero and stay so. The sets of user i are `held[held_start[i]:held_start[i + 1]]`,
which is P_i, and `near[near_start[i]:near_start[i + 1]]`, which is P_i and F_i; both increase.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpaudit.kernels.jit import exact_kernel, inline
from dpaudit.kernels.lanes import LANES, dot, every, fma, load, store, total
from dpaudit.kernels.noise import _bits, _float, _fma, philox_words
from dpaudit.kernels.ranking import _insert

F32, I32, I64, U64 = np.float32, np.int32, np.int64, np.uint64

Flat = NDArray[np.float32]
Rows = NDArray[np.int32]
Starts = NDArray[np.int64]
Words = NDArray[np.uint32]
Triples = NDArray[np.int32]
Weights = NDArray[np.float64]
Marks = NDArray[np.bool_]
Kinds = NDArray[np.int8]


@inline
def _below(x: np.float32) -> np.float32:
    # ψ = 1/(1 + e^x). e^x = 2^n e^r, |r| <= ln 2 / 2, e^r by the polynomial of Cephes' expf; beyond
    # 80 it makes no difference.
    x = F32(min(max(x, F32(-80)), F32(80)))
    n = F32(np.rint(F32(x * F32(1.4426950408889634))))
    r = _fma(n, F32(2.12194440e-4), _fma(n, F32(-0.693359375), x))
    q = _fma(F32(1.9875691500e-4), r, F32(1.3981999507e-3))
    q = _fma(q, r, F32(8.3334519073e-3))
    q = _fma(q, r, F32(4.1665795894e-2))
    q = _fma(q, r, F32(1.6666665459e-1))
    q = _fma(q, r, F32(5.0000001201e-1))
    e = F32(_fma(q, F32(r * r), r) + F32(1))
    grown = _float(I32(_bits(e) + I32(I32(n) << I32(23))))
    return F32(F32(1) / F32(F32(1) + grown))


@exact_kernel
def below(differences: Flat, out: Flat) -> None:
    """Fill `out` with `1/(1 + e^x)` of each difference, both float32 `(n,)`."""
    for i in range(len(differences)):
        out[i] = _below(differences[i])


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


@exact_kernel
def _scratch(n_items: int) -> tuple[Weights, Marks, Flat, Kinds, Rows]:
    """Room for one user: weights, whether an item is listed, scores, sets, the list."""
    return (
        np.zeros(n_items, np.float64), np.zeros(n_items, np.bool_),
        np.empty(n_items, np.float32), np.empty(n_items, np.int8), np.empty(n_items, np.int32),
    )  # fmt: skip


@exact_kernel
def _weigh_drawn(
    better: Rows, worse: Rows, left: Flat, u: int, right: Flat, size: int,
    weights: Weights, known: Marks, touched: Rows,
) -> int:  # fmt: skip
    """Add a_ij of one user over drawn triples; how many items these touch, listed in `touched`."""
    count, vectors = 0, size // LANES
    for t in range(len(better)):
        j, k = better[t], worse[t]
        if j < 0:
            continue
        above = total(dot(left, u, right, j * size, vectors))
        psi = _below(F32(above - total(dot(left, u, right, k * size, vectors))))
        weights[j] += psi
        weights[k] -= psi
        for item in (j, k):
            if not known[item]:
                known[item] = True
                touched[count] = item
                count += 1
    return count


@exact_kernel
def _weigh_all(
    held: Rows, near: Rows, left: Flat, u: int, right: Flat, size: int,
    weights: Weights, scores: Flat, kinds: Kinds, touched: Rows,
) -> int:  # fmt: skip
    """Add a_ij of one user over all her triples; every item is touched and listed."""
    n_items, vectors = len(weights), size // LANES
    for m in range(n_items):
        scores[m] = total(dot(left, u, right, m * size, vectors))
        kinds[m] = 0
        touched[m] = m
    for item in near:
        kinds[item] = 1
    for item in held:
        kinds[item] = 2
    friends = len(near) > len(held)
    for j in near:
        # What comes next: F_i after P_i where there is any, else N_i.
        following = 1 if friends and kinds[j] == 2 else 0
        for k in range(n_items):
            if kinds[k] == following:
                psi = _below(F32(scores[j] - scores[k]))
                weights[j] += psi
                weights[k] -= psi
    return n_items


@exact_kernel
def _weigh(
    i: int, better: Triples, worse: Triples, held_start: Starts, held: Rows, near_start: Starts,
    near: Rows, left: Flat, right: Flat, size: int,
    weights: Weights, known: Marks, scores: Flat, kinds: Kinds, touched: Rows,
) -> int:  # fmt: skip
    """Add a_ij of user i to `weights`; how many items these touch, listed in `touched`."""
    if better.shape[1] > 0:
        return _weigh_drawn(
            better[i], worse[i], left, i * size, right, size, weights, known, touched
        )
    return _weigh_all(
        held[held_start[i] : held_start[i + 1]], near[near_start[i] : near_start[i + 1]],
        left, i * size, right, size, weights, scores, kinds, touched,
    )  # fmt: skip


@exact_kernel
def submit(
    order: Rows,
    better: Triples,
    worse: Triples,
    held_start: Starts,
    held: Rows,
    near_start: Starts,
    near: Rows,
    left: Flat,
    right: Flat,
    size: int,
    clip: float,
    sums: Flat,
    shown: Flat,
) -> None:
    """What users submit about all items, `w_i a_ij u_i`, without noise, and its sums.

    All that a user submits is one vector; `w_i` is 1, or less where its L2 norm would be above
    `clip`.

    Args:
        order: the users `(n,)`.
        better: j of the drawn triples of each user `(N, 2 t)`; all of hers where t is 0.
        worse: k of them.
        held_start: of P_i `(N + 1,)`.
        held: P_i.
        near_start: of P_i and F_i together `(N + 1,)`.
        near: P_i and F_i.
        left: U, `(N, size)`, flat.
        right: V, `(M, size)`, flat.
        size: the length of a row of factors.
        clip: the largest norm; infinite for none.
        sums: the sum over users for each item `(M, size)`, flat; added to.
        shown: result, zeros before: what each user submits `(n, M, size)`, flat; nothing is written
            where it is empty.
    """
    keeps = len(shown) > 0
    weights, known, scores, kinds, touched = _scratch(len(right) // size)
    for place in range(len(order)):
        i = order[place]
        u = i * size
        count = _weigh(
            i, better, worse, held_start, held, near_start, near, left, right, size,
            weights, known, scores, kinds, touched,
        )  # fmt: skip
        square = 0.0
        for t in range(count):
            square += weights[touched[t]] ** 2
        norm = np.sqrt(square * total(dot(left, u, left, u, size // LANES)))
        factor = clip / norm if norm > clip else 1.0
        for t in range(count):
            item = touched[t]
            weight = every(F32(factor * weights[item]))
            weights[item], known[item] = 0.0, False
            for f in range(0, size, LANES):
                x = weight * load(left, u + f)
                at = item * size + f
                store(sums, at, load(sums, at) + x)
                if keeps:
                    store(shown, place * len(right) + at, x)


@exact_kernel
def learn(
    better: Triples,
    worse: Triples,
    held_start: Starts,
    held: Rows,
    near_start: Starts,
    near: Rows,
    left: Flat,
    right: Flat,
    size: int,
    slopes: Flat,
) -> None:
    """The slope of every user's share by her factors, `Σ_j a_ij v_j`.

    Args:
        better: j of the drawn triples of each user `(N, 2 t)`; all of hers where t is 0.
        worse: k of them.
        held_start: of P_i `(N + 1,)`.
        held: P_i.
        near_start: of P_i and F_i together `(N + 1,)`.
        near: P_i and F_i.
        left: U, `(N, size)`, flat.
        right: V, `(M, size)`, flat.
        size: the length of a row of factors.
        slopes: result, zeros before, `(N, size)`, flat.
    """
    weights, known, scores, kinds, touched = _scratch(len(right) // size)
    for i in range(len(held_start) - 1):
        u = i * size
        count = _weigh(
            i, better, worse, held_start, held, near_start, near, left, right, size,
            weights, known, scores, kinds, touched,
        )  # fmt: skip
        for t in range(count):
            item = touched[t]
            weight = every(F32(weights[item]))
            weights[item], known[item] = 0.0, False
            for f in range(0, size, LANES):
                moved = fma(weight, load(right, item * size + f), load(slopes, u + f))
                store(slopes, u + f, moved)


@exact_kernel
def best(
    users: Rows,
    left: Flat,
    right: Flat,
    size: int,
    seen_start: Starts,
    seen: Rows,
    items: NDArray[np.int32],
    values: NDArray[np.float32],
) -> None:
    """The items of the largest `u_i · v_j` that each user has not seen.

    Of equal scores the item of the lower index comes first.

    Args:
        users: whose lists they are `(n,)`.
        left: U, `(N, size)`, flat.
        right: V, `(M, size)`, flat.
        size: the length of a row of factors.
        seen_start: what user i has seen is `seen[seen_start[i]:seen_start[i + 1]]`, `(N + 1,)`.
        seen: these items, increasing for each user.
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
                _insert(items[r], values[r], m, score)
                least = values[r, -1]
