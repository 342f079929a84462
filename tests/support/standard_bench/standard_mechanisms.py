"""The mechanisms that black-box searches for privacy violations are compared on, right and wrong.

The bench of StatDP (Ding et al. 2018, arXiv:1805.10277), DP-Finder (Bichsel et al. 2018,
doi:10.1145/3243734.3243863) and DP-Sniper (Bichsel et al. 2021, doi:10.1109/SP40001.2021.00081),
with the parameters of the last. Every docstring derives the mechanism's true ε: the largest
log-ratio of two output probabilities over all neighbours of its length and all events.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Data = NDArray[np.float64]
Outputs = NDArray[np.float64]
Run = Callable[[Data, np.random.Generator, int], Outputs]

EPSILON = 0.1
# What a sparse vector shows for a query below the threshold, and after it has stopped.
BELOW, STOPPED = -1000.0, -2000.0


def laplace(
    data: Data, rng: np.random.Generator, n: int, scale: float = 1 / EPSILON, copies: int = 1
) -> Outputs:
    """Laplace noise on every coordinate `(n, copies · length)`.

    The densities of a coordinate that moves by 1 differ by at most e^(1/scale), and do so exactly
    beyond both values: ε = copies/scale if one coordinate moves.
    """
    return np.tile(data, copies) + rng.laplace(scale=scale, size=(n, copies * len(data)))


def prefix_sum(data: Data, rng: np.random.Generator, n: int) -> Outputs:
    """All prefix sums of Laplace-noised values `(n, length)`.

    The differences give the noised values back: ε times the number of coordinates that may move.
    """
    return laplace(data, rng, n).cumsum(1)


# 2^−k and its power 1/(1 + 2^−k): the paper's ratio for ε = 0.1, with k = ⌈ln(2/ε)⌉ = 3.
GEOMETRIC_RATIO = 8 / 9
GEOMETRIC_TOP = 5


def truncated_geometric(data: Data, rng: np.random.Generator, n: int) -> Outputs:
    """A count in 0..5 with two-sided geometric noise, clipped to 0..5: `(n,)`.

    Inside, P(z) = (1 − a)/(1 + a)·a^|z − c| with a = 8/9; at the ends a^(distance)/(1 + a). A step
    of c changes each by a factor 1/a at most, and at the ends by exactly that: ε = ln(9/8). The
    difference of two geometric variables has this law.
    """
    noise = rng.geometric(1 - GEOMETRIC_RATIO, (2, n))
    found: Outputs = np.clip(data[0] + noise[0] - noise[1], 0, GEOMETRIC_TOP)
    return found


def noisy_max(
    data: Data, rng: np.random.Generator, n: int, noise: str, value: bool = False
) -> Outputs:
    """The largest of the answers with noise of scale b = 2/ε: its index or its value `(n,)`.

    Index: given the others' noise, i wins if its own exceeds a bound that moves by at most 2, so
    ε holds for both noises. The exponential attains it at (0, 2) against (1, 1): the first wins
    with probability ½e^(−2/b) and ½. With Laplace noise it is the limit: from (0, Q) to (1, Q − 1)
    the first's chance grows by e^(2/b)·(1 + Q/2b − 1/b)/(1 + Q/2b).

    Value, Laplace: P(max ≤ v) = Π F(v − q_j) and its density is a sum of products of one density
    and m − 1 such factors, each of which moves by at most e^(1/b); below all answers of both
    neighbours each moves by exactly that: ε·m/2. Value, exponential: there is no output below the
    largest answer, which may move: ∞.
    """
    draw = rng.laplace if noise == "laplace" else rng.exponential
    noised: Outputs = data + draw(scale=2 / EPSILON, size=(n, len(data)))
    return np.asarray(noised.max(1) if value else noised.argmax(1), np.float64)


def sparse_vector(
    data: Data,
    rng: np.random.Generator,
    n: int,
    *,
    threshold: float = 1.0,
    threshold_scale: float,
    query_scale: float,
    cutoff: int | None,
    redraw: bool = False,
    values: bool = False,
    value_scale: float | None = None,
) -> Outputs:
    """Which answers lie above a noised threshold `(n, length)`: 1 or 0, and −2000 once stopped.

    Answer i is above if q_i + ν_i ≥ T + ρ, with ρ of scale s, ν_i of scale t; F and f are the
    distribution and the density of ν. An output with ⊥ in A and ⊤ in B has the probability

        ∫ p(ρ) Π_A F(T + ρ − q_i) Π_B (1 − F(T + ρ − q_i)) dρ.

    Substituting ρ + 1 for ρ, it changes by at most e^(1/s) · e^(2|B|/t) (Lyu et al., Theorem 2).
    In the limit this is attained: A's answers at Q → ∞, one up, B's fixed, one down; then ρ is near
    Q if the integrand grows up to there, |A|/t > 1/s + |B|/t, and each exponential tail gives its
    whole factor. (*)
    Without the substitution, factor by factor, it changes by at most e^(length/t). (**)

    Args:
        data: the answers q.
        rng: the source of randomness.
        n: the number of outputs.
        threshold: T.
        threshold_scale: s.
        query_scale: t; 0 for none.
        cutoff: stop after so many above; never if None.
        redraw: draw ρ anew after each above.
        values: show q_i + ν_i instead of 1, and −1000 instead of 0.
        value_scale: then with new noise of this scale in place of ν_i.
    """
    noised = data + query_scale * rng.laplace(size=(n, len(data)))
    limit = len(data) if cutoff is None else cutoff
    bounds = threshold + rng.laplace(scale=threshold_scale, size=(n, limit if redraw else 1))
    shown = noised if values else np.ones_like(noised)
    if value_scale is not None:
        shown = laplace(data, rng, n, value_scale)
    found = np.empty_like(noised)
    count = np.zeros(n, np.int64)
    for i in range(len(data)):
        bound = bounds[np.arange(n), np.minimum(count, bounds.shape[1] - 1)]
        above = noised[:, i] >= bound
        found[:, i] = np.where(above, shown[:, i], BELOW if values else 0.0)
        found[count >= limit, i] = STOPPED
        count += above & (count < limit)
    return found


def both(data: Data, rng: np.random.Generator, n: int, one: Run, other: Run) -> Outputs:
    """The outputs of two mechanisms on the same data, side by side: their ε add up at most."""
    return np.hstack((one(data, rng, n), other(data, rng, n)))


def gridded(data: Data, rng: np.random.Generator, n: int, run: Run) -> Outputs:
    """Outputs rounded to multiples of 2^-20.

    The truths are those of real numbers. In floating point the low bits of a sum show what was
    added (Mironov 2012): with them ε is infinite. Rounding is a post-processing, and coarse enough
    that what is left of them is below 2^-30.
    """
    found: Outputs = np.round(run(data, rng, n) * 2.0**20) / 2.0**20
    return found


BITS, HASHES = 20, 4


def bloom(value: int) -> NDArray[np.bool_]:
    """The Bloom filter of a value: 4 hashes set bits of 20, those that DP-Sniper used."""
    bits = np.zeros(BITS, np.bool_)
    for i in range(HASHES):
        bits[_murmur(str(value).encode(), i) % BITS] = True
    return bits


def _murmur(data: bytes, seed: int) -> int:
    """MurmurHash3 of Appleby, x86, 32 bits, as a signed integer."""

    def mixed(block: bytes) -> int:
        k = int.from_bytes(block, "little") * 0xCC9E2D51 % 2**32
        return (k << 15 | k >> 17) % 2**32 * 0x1B873593 % 2**32

    found, whole = seed, len(data) // 4 * 4
    for i in range(0, whole, 4):
        found ^= mixed(data[i : i + 4])
        found = ((found << 13 | found >> 19) % 2**32 * 5 + 0xE6546B64) % 2**32
    found ^= mixed(data[whole:]) ^ len(data)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        found = (found ^ found >> shift) * factor % 2**32
    return found - 2**32 if found >= 2**31 else found


def rappor(
    data: Data, rng: np.random.Generator, n: int, f: float, p: float = 0.0, q: float = 1.0
) -> Outputs:
    """The Bloom filter of a value after one or two randomised responses `(n, 20)`.

    A bit is kept with probability 1 − f, else drawn by a fair coin; then shown as 1 with
    probability q if it is 1, p if it is 0 (p = 0, q = 1: one-time RAPPOR). A set bit is shown as 1
    with q* = f(p + q)/2 + (1 − f)q, another with p* = f(p + q)/2 + (1 − f)p. As p + q = 1, also
    p* + q* = 1, and every bit in which two filters differ adds exactly ln(q*/p*): at most 2·4 bits.
    """
    bits = np.broadcast_to(bloom(int(data[0])), (n, BITS))
    permanent = np.where(rng.random(bits.shape) < f, rng.random(bits.shape) < 0.5, bits)
    return (rng.random(bits.shape) < np.where(permanent, q, p)).astype(np.float64)


def bit_log_ratio(f: float, p: float = 0.0, q: float = 1.0) -> float:
    """ln(q*/p*), see `rappor`."""
    coin = f * (p + q) / 2
    return math.log((coin + (1 - f) * q) / (coin + (1 - f) * p))
