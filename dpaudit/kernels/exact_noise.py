"""Laplace and normal noise that privacy claims depend on, with fine resolution even in the tail.

A draw starts from 63 bits of `(key, trial, step, coordinate)`. If they put it in the tail
(once in 2^12), 256 further bits extend them. So neighbouring values that can be drawn are at most
2^-50 scales apart, rounding aside, everywhere up to 221 scales, and on any grid whose step is a
moderate fraction of the scale every cell has the probability that the law gives it. The probability
beyond 221 scales is 2^-319.

    u = k / 2^63,  E = −ln u,    Laplace: ±E,    normal: √(2E) (cos a, sin a)  (Box & Muller 1958)

All arithmetic is in double precision with explicit fused multiply-adds, so the draws have the same
bits in a vector lane, in a scalar tail and on another type of machine. Coordinates 2b and 2b + 1
use the words of Philox block b.

Also log-likelihoods of releases with this noise.
"""

from __future__ import annotations

import math

import numpy as np
from numba import types
from numpy.typing import NDArray

from dpaudit.kernels.jit import exact_kernel, inline
from dpaudit.kernels.noise import TILE, Draws, Trials, Words, _fused, _philox, _reinterpret

U32, U64, F32, F64 = np.uint32, np.uint64, np.float32, np.float64

Reals = NDArray[np.float64]

# A magnitude whose upper word is below this is extended by further bits.
RARE = U32(2**20)
# Block numbers of the further bits; they collide with no coordinate, since those are below 2^47.
_FURTHER = (U64(1 << 48), U64((1 << 48) | (1 << 47)))


_fma = _fused(types.float64)
_bits = _reinterpret(types.float64, types.uint64)
_float = _reinterpret(types.uint64, types.float64)

_SQRT_HALF = U64(np.float64(math.sqrt(0.5)).view(np.uint64))
# Bits of 2^63 √½, less 2^62, so that the difference is positive and shifts as an unsigned number.
_BASE = U64(int(_SQRT_HALF) + (63 << 52) - (1 << 62))
_MANTISSA = U64((1 << 52) - 1)
_TWO_52 = U64(0x4330000000000000)  # bits of 2^52
_MINUS_LN2 = F64(-math.log(2))


@inline
def _whole(x: np.uint64) -> np.float64:
    # An integer below 2^52 as a float; not every machine has a vector instruction for it.
    return _float(x | _TWO_52) - F64(4503599627370496.0)


@inline
def _minus_log(x: np.float64) -> np.float64:
    # −ln(x / 2^63), x = m 2^e with m in [√½, √2): ln m = 2 artanh s, s = (m − 1)/(m + 1), by its
    # series to s^19; the total error is below 1e-15.
    i = U64(_bits(x) - _BASE)
    e = _whole(U64(i >> U64(52))) - F64(1024.0)
    m = _float(U64((i & _MANTISSA) + _SQRT_HALF))
    s = (m - F64(1)) / (m + F64(1))
    z = s * s
    q = F64(2 / 19)
    q = _fma(q, z, F64(2 / 17))
    q = _fma(q, z, F64(2 / 15))
    q = _fma(q, z, F64(2 / 13))
    q = _fma(q, z, F64(2 / 11))
    q = _fma(q, z, F64(2 / 9))
    q = _fma(q, z, F64(2 / 7))
    q = _fma(q, z, F64(2 / 5))
    q = _fma(q, z, F64(2 / 3))
    return _fma(e, _MINUS_LN2, -_fma(q * z, s, s + s))


@inline
def _exponential(high: np.uint32, low: np.uint32) -> np.float64:
    """A standard exponential draw from 63 bits, the lowest set to 1."""
    k = _fma(_whole(U64(high)), F64(2147483648.0), _whole(U64(low >> U32(1)) | U64(1)))
    return _minus_log(k)


@exact_kernel
def far_exponential(
    high: np.uint32,
    low: np.uint32,
    coordinate: int,
    step: int,
    trial_low: np.uint32,
    trial_high: np.uint32,
    key: Words,
) -> float:
    """The exponential draw of a coordinate whose upper word is below `RARE`, with 256 more bits."""
    x = F64(high) * 2147483648.0 + F64(low >> U32(1))
    weight = 1.0
    for further in _FURTHER:
        for word in _philox(U64(coordinate) | further, step, trial_low, trial_high, key):
            weight *= 2.0**-32
            x += weight * F64(word)
    # At least 2^63 · 2^-320, which is a normal (not subnormal) number in double precision.
    return float(_minus_log(x + weight * 0.5))


@inline
def signed(size: np.float64, word: np.uint32) -> np.float64:
    """A draw's magnitude with the sign given by the lowest bit of its word."""
    return _float(_bits(size) ^ (U64(word) << U64(63)))


@inline
def normal_pair(
    exponent: np.float64, high: np.uint32, low: np.uint32
) -> tuple[np.float64, np.float64]:
    """Two normal draws of radius `√(2 exponent)`, at an angle from 62 bits and a quarter turn."""
    r = np.sqrt(exponent + exponent)
    # The angle lies in [−π/4, π/4); the two lowest bits choose a sign and a swap.
    k = _fma(_whole(U64(high)), F64(1073741824.0), _whole(U64(low >> U32(2))))
    x = _fma(k, F64(math.pi / 2 * 2.0**-62), F64(-math.pi / 4))
    z = x * x
    s = F64(-7.6471637318198164759e-13)
    s = _fma(s, z, F64(1.6059043836821614599e-10))
    s = _fma(s, z, F64(-2.5052108385441718775e-08))
    s = _fma(s, z, F64(2.7557319223985890653e-06))
    s = _fma(s, z, F64(-1.9841269841269841253e-04))
    s = _fma(s, z, F64(8.3333333333333332177e-03))
    s = _fma(s, z, F64(-1.6666666666666665741e-01))
    sine = r * _fma(s * z, x, x)
    c = F64(4.7794773323873852974e-14)
    c = _fma(c, z, F64(-1.1470745597729724714e-11))
    c = _fma(c, z, F64(2.0876756987868098979e-09))
    c = _fma(c, z, F64(-2.7557319223985892511e-07))
    c = _fma(c, z, F64(2.4801587301587301566e-05))
    c = _fma(c, z, F64(-1.3888888888888889419e-03))
    c = _fma(c, z, F64(4.1666666666666664354e-02))
    c = _fma(c, z, F64(-0.5))
    cosine = signed(r * _fma(c, z, F64(1)), low)
    swap = (low & U32(2)) != U32(0)
    return (cosine if swap else sine), (sine if swap else cosine)


@exact_kernel
def _words(high: Words, low: Words, first: int, step: int, trial: int, key: Words) -> None:
    trial_low, trial_high = U32(trial), U32(U64(trial) >> U64(32))
    for i in range(len(high) // 2):
        a, b, c, d = _philox(U64(first // 2 + i), step, trial_low, trial_high, key)
        high[2 * i], high[2 * i + 1], low[2 * i], low[2 * i + 1] = a, b, c, d


@exact_kernel
def exponentials(out: Reals, high: Words, low: Words) -> bool:
    """Fill `out` with the draws of these words; return whether any needs `far_exponential`."""
    least = U32(0xFFFFFFFF)
    for i in range(len(out)):
        out[i] = _exponential(high[i], low[i])
    for i in range(len(out)):
        least = min(least, high[i])
    return bool(least < RARE)


@exact_kernel
def _exponentials(
    out: Reals, high: Words, low: Words, first: int, step: int, trial: int, key: Words
) -> None:
    """Fill `out` with the standard exponential draws of coordinates `first…` from their words."""
    if exponentials(out, high, low):
        trial_low, trial_high = U32(trial), U32(U64(trial) >> U64(32))
        for i in range(len(out)):
            if high[i] < RARE:
                out[i] = far_exponential(
                    high[i], low[i], first + i, step, trial_low, trial_high, key
                )


@exact_kernel
def laplace_row(
    out: Reals, words: NDArray[np.uint32], first: int, step: int, trial: int, key: Words
) -> None:
    """Fill `out` (float64, at most TILE) with the standard Laplace draws of coordinates `first…`.

    `first` is a multiple of 2 and `words` is scratch `(2, TILE)`.
    """
    count = (len(out) + 1) // 2 * 2
    high, low = words[0, :count], words[1, :count]
    _words(high, low, first, step, trial, key)
    _exponentials(out, high, low, first, step, trial, key)
    for i in range(len(out)):
        out[i] = signed(out[i], low[i])


@exact_kernel
def normal_row(
    out: Reals, words: NDArray[np.uint32], first: int, step: int, trial: int, key: Words
) -> None:
    """Fill `out` (float64, TILE) with the standard normal draws of coordinates `first…`.

    `first` is a multiple of TILE and `words` is scratch `(2, TILE)`. Within a tile, coordinates `c`
    and `c + TILE/2` share one Box-Muller pair.
    """
    high, low = words[0], words[1]
    half = TILE // 2
    _words(high, low, first, step, trial, key)
    left, right = out[:half], out[half:]
    _exponentials(left, high[:half], low[:half], first, step, trial, key)
    turned, turned_low = high[half:], low[half:]
    for i in range(half):
        left[i], right[i] = normal_pair(left[i], turned[i], turned_low[i])


@exact_kernel
def release(shown: Draws, exact: Draws | Reals, noise: Reals, scale: float, grid: float) -> None:
    """Fill `shown` `(n,)` with `exact + scale · noise` on a grid, or with `exact` if scale is 0."""
    if scale > 0:
        for i in range(len(exact)):
            shown[i] = F32(np.rint((exact[i] + scale * noise[i]) / grid) * grid)
    else:
        for i in range(len(exact)):
            shown[i] = F32(exact[i])


@exact_kernel
def uniform(out: Reals, trials: Trials, step: int, key: Words) -> None:
    """Fill `out`, float64 `(W, C)`, with draws of `(k + ½)/2^52` in (0, 1) of `trials` `(W,)`.

    They decide who participates in a step: a sampling rate is met to within 2^-53.
    """
    words = np.empty((2, TILE), np.uint32)
    for w in range(out.shape[0]):
        for start in range(0, out.shape[1], TILE):
            part = out[w, start : min(start + TILE, out.shape[1])]
            count = (len(part) + 1) // 2 * 2
            high, low = words[0, :count], words[1, :count]
            _words(high, low, start, step, trials[w], key)
            for i in range(len(part)):
                k = F64(high[i]) * 1048576.0 + F64(low[i] >> U32(12))
                part[i] = (k + 0.5) * 2.0**-52


@exact_kernel
def laplace(out: Reals, trials: Trials, step: int, key: Words) -> None:
    """Fill `out`, float64 `(W, C)`, with standard Laplace draws of `trials` `(W,)`."""
    words = np.empty((2, TILE), np.uint32)
    for w in range(out.shape[0]):
        for start in range(0, out.shape[1], TILE):
            part = out[w, start : min(start + TILE, out.shape[1])]
            laplace_row(part, words, start, step, trials[w], key)


@exact_kernel
def laplace_at(
    out: Reals, coordinates: NDArray[np.int32], trials: Trials, step: int, key: Words
) -> None:
    """Fill `out`, float64 `(W, k)`, with draw `coordinates[w, i]` of trial `trials[w]`."""
    words = np.empty((2, 2), np.uint32)
    pair = np.empty(2, np.float64)
    for w in range(out.shape[0]):
        for i in range(out.shape[1]):
            c = coordinates[w, i]
            laplace_row(pair, words, c // 2 * 2, step, trials[w], key)
            out[w, i] = pair[c % 2]


@exact_kernel
def normal(out: Reals, trials: Trials, step: int, key: Words) -> None:
    """Fill `out`, float64 `(W, C)`, with standard normal draws of `trials` `(W,)`."""
    words = np.empty((2, TILE), np.uint32)
    tile = np.empty(TILE, np.float64)
    n = out.shape[1]
    for w in range(out.shape[0]):
        for start in range(0, n, TILE):
            stop = min(start + TILE, n)
            normal_row(tile, words, start, step, trials[w], key)
            out[w, start:stop] = tile[: stop - start]


@exact_kernel
def log_laplace_cdf(z: float) -> float:
    """`ln F(z)` of the standard Laplace law."""
    if z < 0.0:
        return z - math.log(2.0)
    return math.log1p(-0.5 * math.exp(-z))


@exact_kernel
def top_list_log_likelihood(
    items: NDArray[np.int32],
    values: NDArray[np.float64],
    exact: NDArray[np.float64],
    shown: NDArray[np.bool_],
    scale: float,
    out: NDArray[np.float64],
) -> None:
    """Log-density of a top-k list with its noised values, for each candidate of the hidden rating.

    The listed items have density `Π exp(−|A_j − f_j|/b)`. Every other item that could have been
    shown lies below the last listed value: `Π F((A_last − f_j)/b)`.

    Args:
        items: the list `(k,)`.
        values: its noised values, decreasing `(k,)`.
        exact: `f_j(v)`, `(M, C)`.
        shown: whether an item could have been shown under a candidate, `(M, C)`; a candidate under
            which a listed item could not be shown gets −inf.
        scale: the Laplace scale `b > 0`.
        out: result `(C,)`, up to a constant.
    """
    last = values[-1]
    listed = np.zeros(len(shown), np.bool_)
    for j in items:
        listed[j] = True
    for c in range(len(out)):
        total = 0.0
        for i in range(len(items)):
            j = items[i]
            total -= abs(values[i] - exact[j, c]) / scale if shown[j, c] else np.inf
        for j in range(len(shown)):
            if shown[j, c] and not listed[j]:
                z = (last - exact[j, c]) / scale
                # Beyond this, |ln F(z)| is below 1e-13.
                if z < 30.0:
                    total += log_laplace_cdf(z)
        out[c] = total


@exact_kernel
def minus_logs(x: NDArray[np.float64], out: NDArray[np.float64]) -> None:
    """Fill `out` `(n,)` with `−ln x` for `1e-300 <= x <= 1`, bit-identical on any machine."""
    for i in range(len(x)):
        out[i] = _minus_log(x[i] * 2.0**63)
