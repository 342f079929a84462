"""A pairwise ranking loss with friends' items: triples, submissions, gradients (Meng et al. 2018).

Also the cosine of two friends' ratings, by which the rating form weights friends.

P_i are the items that user i holds, F_i the items that their friends offer and they do not hold,
and N_i all others. The user prefers P_i to F_i and F_i to N_i; if F_i is empty, P_i to N_i. A
triple (i, j, k) says that user i prefers item j to item k. User i's share of the objective is

    Σ ln φ(u_i · v_j − u_i · v_k),    φ(x) = 1/(1 + e^−x),

over the user's triples (i, j, k), all or a sample (equation (11)). All its gradients follow from
one weight per item,

    a_ij = Σ ψ_ijk − Σ ψ_ikj,    ψ_ijk = 1/(1 + e^(u_i · v_j − u_i · v_k)):

the gradient by v_j is a_ij u_i (equation (13)), the one by u_i is Σ_j a_ij v_j (equation (12)).

Factors are flat float32 arrays `(users or items, size)`, `size` a multiple of 16; the padding
beyond the model's factors is zero and stays so. P_i is `held[held_start[i]:held_start[i + 1]]`, and
P_i ∪ F_i is `near[near_start[i]:near_start[i + 1]]`; both are sorted.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpaudit.kernels.jit import exact_kernel, inline
from dpaudit.kernels.lanes import LANES, add_product, dot, every, fma, load, store, total
from dpaudit.kernels.noise import _bits, _float, _fma, philox_words

F32, I32, I64, U64 = np.float32, np.int32, np.int64, np.uint64

Flat = NDArray[np.float32]
Rows = NDArray[np.int32]
Starts = NDArray[np.int64]
Triples = NDArray[np.int32]
Words = NDArray[np.uint32]
Weights = NDArray[np.float64]
Marks = NDArray[np.bool_]


@inline
def _below(x: np.float32) -> np.float32:
    # ψ = 1/(1 + e^x). e^x = 2^n e^r, |r| <= ln 2 / 2, e^r by the polynomial of Cephes' expf; for
    # |x| > 80 clamping does not matter.
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


@exact_kernel
def _scratch(n_items: int) -> tuple[Weights, Marks, Flat, Flat, Rows]:
    """Scratch for one user: weights, marks of listed items, scores, probabilities ψ, the list."""
    return (
        np.zeros(n_items, np.float64), np.zeros(n_items, np.bool_),
        np.empty(n_items, np.float32), np.empty(n_items, np.float32), np.empty(n_items, np.int32),
    )  # fmt: skip


@exact_kernel
def _weigh_drawn(
    better: Rows, worse: Rows, left: Flat, u: int, right: Flat, size: int,
    weights: Weights, known: Marks, touched: Rows,
) -> int:  # fmt: skip
    """Add a_ij of one user over sampled triples; list the items in `touched`, return how many."""
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
def _list_sets(held: Rows, near: Rows, touched: Rows) -> None:
    """List P_i, then F_i, then N_i in `touched`, each in increasing order."""
    p, f, n = 0, len(held), len(near)
    next_held = close = 0
    for item in range(len(touched)):
        if close == len(near) or near[close] != item:
            touched[n] = item
            n += 1
            continue
        close += 1
        if next_held < len(held) and held[next_held] == item:
            next_held += 1
            touched[p] = item
            p += 1
        else:
            touched[f] = item
            f += 1


@exact_kernel
def _above(score: np.float32, scores: Flat, gains: Weights, psi: Flat) -> float:
    """Return Σ ψ of an item with this score preferred to others; subtract each ψ from `gains`."""
    # Separate loops, each starting at 0, vectorise.
    for k in range(len(scores)):
        psi[k] = _below(F32(score - scores[k]))
    for k in range(len(scores)):
        gains[k] -= psi[k]
    whole = every(F32(0))
    end = len(scores) // LANES * LANES
    for k in range(0, end, LANES):
        whole = whole + load(psi, k)
    gained = np.float64(total(whole))
    for k in range(end, len(scores)):
        gained += psi[k]
    return gained


@exact_kernel
def _weigh_all(
    held: Rows, near: Rows, left: Flat, u: int, right: Flat, size: int,
    weights: Weights, scores: Flat, psi: Flat, touched: Rows,
) -> int:  # fmt: skip
    """Set a_ij of one user over all their triples; list every item in `touched`."""
    n_items, n_held, close = len(weights), len(held), len(near)
    _list_sets(held, near, touched)
    for t in range(n_items):
        scores[t] = total(dot(left, u, right, touched[t] * size, size // LANES))
    gains = np.zeros(n_items, np.float64)
    # P_i is preferred to F_i, or to N_i if F_i is empty; F_i is preferred to N_i.
    below_own = close if close > n_held else n_items
    for j in range(close):
        first, last = (n_held, below_own) if j < n_held else (close, n_items)
        gains[j] += _above(scores[j], scores[first:last], gains[first:last], psi)
    for t in range(n_items):
        weights[touched[t]] = gains[t]
    return n_items


@exact_kernel
def _weigh(
    i: int, better: Triples, worse: Triples, held_start: Starts, held: Rows, near_start: Starts,
    near: Rows, left: Flat, right: Flat, size: int,
    weights: Weights, known: Marks, scores: Flat, psi: Flat, touched: Rows,
) -> int:  # fmt: skip
    """Add a_ij of user i to `weights`; list the items in `touched` and return their number."""
    if better.shape[1] > 0:
        return _weigh_drawn(
            better[i], worse[i], left, i * size, right, size, weights, known, touched
        )
    return _weigh_all(
        held[held_start[i] : held_start[i + 1]], near[near_start[i] : near_start[i + 1]],
        left, i * size, right, size, weights, scores, psi, touched,
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
    sums: Flat | Weights,
    shown: Flat,
) -> None:
    """Compute users' noiseless submissions about all items, `w_i a_ij u_i`, and their sums.

    All of a user's values form one vector; the factor `w_i <= 1` clips its L2 norm to `clip`.

    Args:
        order: the users `(n,)`.
        better: j of each user's sampled triples `(N, 2 t)`; if t is 0, all triples are used.
        worse: k of the same triples.
        held_start: offsets of P_i in `held`, `(N + 1,)`.
        held: P_i.
        near_start: offsets of P_i ∪ F_i in `near`, `(N + 1,)`.
        near: P_i ∪ F_i.
        left: U, `(N, size)`, flat.
        right: V, `(M, size)`, flat.
        size: the length of a row of factors.
        clip: the largest norm; infinite for no clipping.
        sums: the sum over users for each item is added to this `(M, size)`, flat. In double
            precision it is almost exact.
        shown: result, initially zero: each user's submission `(n, M, size)`, flat; if empty,
            nothing is written.
    """
    keeps = len(shown) > 0
    weights, known, scores, psi, touched = _scratch(len(right) // size)
    for place in range(len(order)):
        i = order[place]
        u = i * size
        count = _weigh(
            i, better, worse, held_start, held, near_start, near, left, right, size,
            weights, known, scores, psi, touched,
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
                add_product(sums, at, x, every(F32(1)))
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
    """Compute the gradient of every user's share by their own factors, `Σ_j a_ij v_j`.

    Args:
        better: j of each user's sampled triples `(N, 2 t)`; if t is 0, all triples are used.
        worse: k of the same triples.
        held_start: offsets of P_i in `held`, `(N + 1,)`.
        held: P_i.
        near_start: offsets of P_i ∪ F_i in `near`, `(N + 1,)`.
        near: P_i ∪ F_i.
        left: U, `(N, size)`, flat.
        right: V, `(M, size)`, flat.
        size: the length of a row of factors.
        slopes: result, initially zero, `(N, size)`, flat.
    """
    weights, known, scores, psi, touched = _scratch(len(right) // size)
    for i in range(len(held_start) - 1):
        u = i * size
        count = _weigh(
            i, better, worse, held_start, held, near_start, near, left, right, size,
            weights, known, scores, psi, touched,
        )  # fmt: skip
        for t in range(count):
            item = touched[t]
            weight = every(F32(weights[item]))
            weights[item], known[item] = 0.0, False
            for f in range(0, size, LANES):
                moved = fma(weight, load(right, item * size + f), load(slopes, u + f))
                store(slopes, u + f, moved)


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
