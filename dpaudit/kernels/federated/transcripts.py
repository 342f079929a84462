"""Fold a round of submissions into running statistics of each (user, item) pair.

A fold gets the indices of the pairs that submitted (`place`), their submissions (`shown`) and the
item's values to subtract (`fakes`, indexed by `items`): `r = shown − fakes`. It updates its sums in
place; pairs without a submission are unchanged. Means and squares use Welford's (1962) update, so
that single precision suffices for thousands of rounds, even if the mean is much larger than the
noise. The module also has two-sample statistics, and the Kullback-Leibler divergences in nats of
real submissions from fake ones.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dpaudit.kernels.jit import exact_kernel, inline

F32 = np.float32

Floats = NDArray[np.float32]
Sums = NDArray[np.float64]
Counts = NDArray[np.int32]


@inline
def _dot(a: Floats, b: Floats) -> np.float32:
    # Four independent sums, in a fixed order.
    s0, s1, s2, s3 = F32(0), F32(0), F32(0), F32(0)
    whole = len(a) // 4 * 4
    for f in range(0, whole, 4):
        s0 += a[f] * b[f]
        s1 += a[f + 1] * b[f + 1]
        s2 += a[f + 2] * b[f + 2]
        s3 += a[f + 3] * b[f + 3]
    for f in range(whole, len(a)):
        s0 += a[f] * b[f]
    return F32((s0 + s1) + (s2 + s3))


@inline
def _square_distance(a: Floats, b: Floats) -> np.float32:
    s0, s1, s2, s3 = F32(0), F32(0), F32(0), F32(0)
    whole = len(a) // 4 * 4
    for f in range(0, whole, 4):
        s0 += (a[f] - b[f]) * (a[f] - b[f])
        s1 += (a[f + 1] - b[f + 1]) * (a[f + 1] - b[f + 1])
        s2 += (a[f + 2] - b[f + 2]) * (a[f + 2] - b[f + 2])
        s3 += (a[f + 3] - b[f + 3]) * (a[f + 3] - b[f + 3])
    for f in range(whole, len(a)):
        s0 += (a[f] - b[f]) * (a[f] - b[f])
    return F32((s0 + s1) + (s2 + s3))


@exact_kernel
def fold_means(
    place: Counts, shown: Floats, fakes: Floats, items: Counts, count: Counts, mean: Floats
) -> None:
    """Update the count `(P,)` and the mean `(P, d)` of each pair's `r`."""
    for i in range(len(place)):
        p = place[i]
        x, fake, m = shown[i], fakes[items[p]], mean[p]
        count[p] += 1
        gain = F32(1) / F32(count[p])
        for f in range(len(x)):
            m[f] += (x[f] - fake[f] - m[f]) * gain


@exact_kernel
def fold_moments(
    place: Counts,
    shown: Floats,
    fakes: Floats,
    items: Counts,
    count: Counts,
    mean: Floats,
    square: Floats,
) -> None:
    """Update the count `(P,)`, the mean and the squared deviations `Σ(r − mean)²` `(P, d)`."""
    for i in range(len(place)):
        p = place[i]
        x, fake, m, s = shown[i], fakes[items[p]], mean[p], square[p]
        count[p] += 1
        gain = F32(1) / F32(count[p])
        for f in range(len(x)):
            r = x[f] - fake[f]
            away = r - m[f]
            m[f] += away * gain
            s[f] += away * (r - m[f])


@exact_kernel
def fold_signs(
    place: Counts, shown: Floats, fakes: Floats, items: Counts, above: Counts, below: Counts
) -> None:
    """Count, for each coordinate, how often `r` is above and below zero `(P, d)`."""
    for i in range(len(place)):
        p = place[i]
        x, fake, a, b = shown[i], fakes[items[p]], above[p], below[p]
        for f in range(len(x)):
            a[f] += x[f] > fake[f]
            b[f] += x[f] < fake[f]


@exact_kernel
def fold_scatter(
    place: Counts,
    shown: Floats,
    fakes: Floats,
    items: Counts,
    count: Counts,
    mean: Sums,
    scatter: Sums,
) -> None:
    """Update the count, the mean `(P, d)` and `Σ(r − mean)(r − mean)ᵀ` `(P, d, d)`."""
    d = shown.shape[1]
    away = np.empty(d)
    for i in range(len(place)):
        p = place[i]
        fake = fakes[items[p]]
        k = count[p]
        count[p] += 1
        for f in range(d):
            away[f] = shown[i, f] - fake[f] - mean[p, f]
            mean[p, f] += away[f] / (k + 1)
        share = k / (k + 1)
        for f in range(d):
            for g in range(d):
                scatter[p, f, g] += share * away[f] * away[g]


@exact_kernel
def fold_energy(
    place: Counts, shown: Floats, fakes: Floats, items: Counts, count: Counts, energy: Sums
) -> None:
    """Update the count and `Σ‖r‖²`, both `(P,)`."""
    for i in range(len(place)):
        p = place[i]
        count[p] += 1
        energy[p] += _square_distance(shown[i], fakes[items[p]])


@exact_kernel
def fold_differences(
    place: Counts,
    shown: Floats,
    fakes: Floats,
    items: Counts,
    count: Counts,
    last: Floats,
    energy: Sums,
) -> None:
    """Add `½‖r_2s − r_2s−1‖²` for consecutive submissions of each pair.

    `last` `(P, d)` keeps an odd submission until the next one.
    """
    for i in range(len(place)):
        p = place[i]
        x, fake, waiting = shown[i], fakes[items[p]], last[p]
        count[p] += 1
        for f in range(len(x)):
            # An odd submission is stored; an even one is compared with the stored one.
            waiting[f] = x[f] - fake[f] - (F32(0) if count[p] % 2 else waiting[f])
        if count[p] % 2 == 0:
            energy[p] += F32(0.5) * _dot(waiting, waiting)


@exact_kernel
def fold_ratio(
    place: Counts,
    shown: Floats,
    fakes: Floats,
    items: Counts,
    gradients: Floats,
    product: Sums,
    distance: Sums,
) -> None:
    """Update `Σ r·(g − F)` and `Σ‖g − F‖²`, both `(P,)`."""
    step = np.empty(shown.shape[1], np.float32)
    rest = np.empty(shown.shape[1], np.float32)
    for i in range(len(place)):
        p = place[i]
        x, fake, gradient = shown[i], fakes[items[p]], gradients[i]
        for f in range(len(x)):
            step[f] = gradient[f] - fake[f]
            rest[f] = x[f] - fake[f]
        product[p] += _dot(rest, step)
        distance[p] += _dot(step, step)


@inline
def _sent(x: Floats) -> int:
    """Index of the only non-zero coordinate."""
    sent = 0
    for f in range(len(x)):
        if x[f] != 0:
            sent = f
    return sent


@inline
def _two_valued(x: float, expected: float, size: int, level: float) -> float:
    """`ln (P(x)/½)`, where `P(±) = ½ ± clip(expected, ±1)·d/(2·level)`."""
    drift = min(max(expected, -1.0), 1.0) * size / level
    side = drift if x > 0 else -drift
    # A finite value if rounding makes the probability of the less likely sign 0.
    return math.log1p(side) if side > -1 else -700.0


@exact_kernel
def fold_two_valued(
    place: Counts, shown: Floats, gradients: Floats, level: float, log_ratio: Sums
) -> None:
    """Add `ln (P(sign | g) / ½)` of the one coordinate that each pair sent `(P,)`."""
    size = shown.shape[1]
    for i in range(len(place)):
        f = _sent(shown[i])
        log_ratio[place[i]] += _two_valued(shown[i, f], gradients[i, f], size, level)


@exact_kernel
def _shrinkage(memory: Counts, spread: Sums, variance: float, most: int) -> tuple[Sums, Sums, Sums]:
    """`c`, `ρ` and `½ ln(1 − ρ)` of `fold_directions` after `0 … most` submissions `(E, most + 1)`.

    A running mean with gain 1/L has the variance of an average of `2L − 1` values, once it has
    received that many.
    """
    shape = len(memory), most + 1
    trust, known, room = np.empty(shape), np.empty(shape), np.empty(shape)
    for e in range(len(memory)):
        for k in range(most + 1):
            signal = min(k, 2 * memory[e] - 1) * spread[e]
            c = signal / (signal + variance)
            left = spread[e] * (1 - c)
            trust[e, k] = c
            known[e, k] = left / (left + variance)
            room[e, k] = 0.5 * math.log(variance / (left + variance))
    return trust, known, room


@exact_kernel
def fold_directions(
    place: Counts,
    shown: Floats,
    fakes: Floats,
    items: Counts,
    users: Counts,
    usual: Floats,
    variance: float,
    level: float,
    memory: Counts,
    keep: np.float32,
    count: Counts,
    mean: Floats,
    along: Floats,
    log_ratio: Sums,
    spread: Sums,
    direction: Floats,
    pull: Floats,
) -> None:
    """Add each submission's log-likelihood ratio as predicted from earlier rounds, then update.

    The prediction of a real submission, for each memory length L, is

        ĝ = (1 − c) usual_j + c a û,    c = κ τ² / (κ τ² + s²)

    with û the user's direction, a the mean of about the last L projections `x·û` of the pair, and κ
    the effective number of projections in that mean. τ² is the mean of `a² − s²/κ` over the pairs
    of the previous round. The uncertainty about a gives ĝ a variance `v = τ² (1 − c)` along û. So
    with `ρ = v/(v + s²)` and a real submission distributed as `N(ĝ, s²I + v ûûᵀ)`, the term added
    to the log-likelihood ratio is

        ln p(x | real)/p(x | F) = [‖x − F‖² − ‖x − ĝ‖² + ρ ((x − ĝ)·û)²]/(2s²) + ½ ln(1 − ρ)

    and for two-valued submissions the ratio at ĝ. Then û takes a step of the power method on
    `Σ k w wᵀ` over the user's pairs, where w is the mean of a pair's k submissions.

    Args:
        place: indices of the pairs that submitted `(n,)`.
        shown: their submissions `(n, d)`.
        fakes: F by item `(M, d)`.
        items: the item of each pair `(P,)`.
        users: the user of each pair `(P,)`.
        usual: the usual real submission, by item `(M, d)`.
        variance: s² of each coordinate of a submission.
        level: the magnitude of two-valued submissions; 0 for normal ones.
        memory: the memory lengths L `(E,)`.
        keep: the weight of earlier rounds in a step of û.
        count: submissions so far `(P,)`; updated.
        mean: w `(P, d)`; updated.
        along: a `(P, E)`; updated.
        log_ratio: result `(P, E)`, added to.
        spread: τ² `(E,)`; updated.
        direction: û `(N, d)`; updated.
        pull: accumulated steps of û `(N, d)`; updated.
    """
    size, memories = shown.shape[1], len(memory)
    half, rest = 0.5 / variance, np.empty(size, np.float32)
    surplus, weight = np.zeros(memories), np.zeros(memories)
    most = 0
    for i in range(len(place)):
        most = max(most, count[place[i]])
    trust, known, room = _shrinkage(memory, spread, variance, most)
    for i in range(len(place)):
        p = place[i]
        x, fake, base = shown[i], fakes[items[p]], usual[items[p]]
        u, w, step = direction[users[p]], mean[p], pull[users[p]]
        k = count[p]
        projection, start, far = _dot(x, u), _dot(base, u), _square_distance(x, fake)
        for e in range(memories):
            stay, move = F32(1 - trust[e, k]), F32(trust[e, k] * along[p, e])
            if level > 0:
                f = _sent(x)
                log_ratio[p, e] += _two_valued(x[f], stay * base[f] + move * u[f], size, level)
            else:
                for f in range(size):
                    rest[f] = x[f] - stay * base[f] - move * u[f]
                off = projection - stay * start - move
                near = _dot(rest, rest) - known[e, k] * (off * off)
                log_ratio[p, e] += half * (far - near) + room[e, k]
            a = along[p, e] + (projection - along[p, e]) / F32(min(k + 1, memory[e]))
            along[p, e] = a
            shares = min(k + 1, 2 * memory[e] - 1)
            surplus[e] += shares * (a * a) - variance
            weight[e] += shares
        count[p] = k + 1
        gain = F32(1) / F32(k + 1)
        for f in range(size):
            w[f] += (x[f] - w[f]) * gain
        pulled = F32(k + 1) * _dot(w, u)
        for f in range(size):
            step[f] += pulled * w[f]
    for e in range(memories):
        if weight[e] > 0:
            spread[e] = max(0.0, surplus[e] / weight[e])
    for n in range(len(direction)):
        length = F32(math.sqrt(_dot(pull[n], pull[n])))
        if length > 0:
            for f in range(size):
                direction[n, f] = pull[n, f] / length
                pull[n, f] *= keep


@exact_kernel
def kolmogorov_steps(left: Floats, right: Floats, out: Counts) -> None:
    """`k · sup|F − G|` of two samples' empirical distributions, per coordinate `(d,)`.

    `left` and `right` `(d, k)` hold each coordinate's k values in a sorted row. Ties are passed
    together.
    """
    k = left.shape[1]
    for f in range(len(out)):
        i = j = most = 0
        while i < k and j < k:
            at = min(left[f, i], right[f, j])
            while i < k and left[f, i] == at:
                i += 1
            while j < k and right[f, j] == at:
                j += 1
            most = max(most, abs(i - j))
        out[f] = most


@exact_kernel
def energy_distances(left: Floats, right: Floats, out: Sums) -> None:
    """The energy statistic of the first k points of two samples, for k = 1 … K, `(K,)`.

        E_k = (k/2) (2 A − B − C),    A = mean ‖x − y‖, B = mean ‖x − x'‖, C = mean ‖y − y'‖

    each over all k² pairs (Székely & Rizzo 2013, doi:10.1016/j.jspi.2013.03.018, section 7).
    """
    total = 0.0
    for k in range(len(out)):
        x, y = left[k], right[k]
        # The new row and column of 2‖x − y‖ − ‖x − x'‖ − ‖y − y'‖.
        total += 2 * math.sqrt(_square_distance(x, y))
        for i in range(k):
            total += 2 * (
                math.sqrt(_square_distance(x, right[i]))
                + math.sqrt(_square_distance(left[i], y))
                - math.sqrt(_square_distance(x, left[i]))
                - math.sqrt(_square_distance(y, right[i]))
            )
        out[k] = total / (2 * (k + 1))


@exact_kernel
def add_normal(
    place: Counts, gradients: Floats, fakes: Floats, items: Counts, sigma: float, sums: Sums
) -> None:
    """Add `‖g − F‖²/(2σ²)`, the divergence of `N(g, σ²I)` from `N(F, σ²I)`, to each pair's sum.

    Args:
        place: indices of the pairs that submitted `(n,)`.
        gradients: `g`, `(n, d)`.
        fakes: `F`, one row per item.
        items: the item of each pair, `(P,)`.
        sigma: σ.
        sums: result `(P,)`, added to. Up to 100 000 rounds add up, which single precision would
            round by as much as 0.6 %.
    """
    for k in range(len(place)):
        p = place[k]
        fake = fakes[items[p]]
        square = 0.0
        for f in range(gradients.shape[1]):
            square += (gradients[k, f] - fake[f]) ** 2
        sums[p] += square / (2 * sigma**2)


@exact_kernel
def add_two_valued(place: Counts, gradients: Floats, level: float, sums: Sums) -> None:
    """Add the divergence of a two-valued submission from a fair coin to each pair's sum.

    This is the mean of `Σ_± P(±) ln 2P(±)` over the d coordinates, of which one is sent, with
    `P(+) = ½ + x d/(2 level)` and x the coordinate clipped to [−1, 1].

    Args:
        place: indices of the pairs that submitted `(n,)`.
        gradients: `(n, d)`.
        level: the magnitude of the submitted value.
        sums: result `(P,)`, added to.
    """
    d = gradients.shape[1]
    for k in range(len(place)):
        total = 0.0
        for f in range(d):
            tilt = min(max(float(gradients[k, f]), -1.0), 1.0) * d / level
            for side in (-tilt, tilt):
                if side > -1:
                    total += (1 + side) / 2 * math.log1p(side)
        sums[place[k]] += total / d
