"""Counter-based noise source: uniform and normal draws from Philox4x32-10.

Draw `(seed key, trial, step, coordinate)` is a pure function of these four numbers: word
`coordinate % 4` of the Philox block with the counter

    (block low, step, trial low, trial high | block high · 2^15),    block = coordinate // 4,

so blocks are distinct for up to 2^47 coordinates, 2^32 steps and 2^47 trials. A draw does not
depend on the number of threads, on other trials or on how many coordinates are drawn.

Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3. SC 2011,
doi:10.1145/2063384.2063405.

A uniform draw is one of 2^23 values; a normal draw uses 60 bits and is at most 6.6 standard
deviations in size. No privacy claim depends on these draws: they initialise models, choose batches
and drive Langevin dynamics. `exact_noise` draws the noise that privacy claims depend on.

Every multiply-add is explicitly fused and nothing is reassociated, so a draw has the same bits in a
vector lane, in a scalar tail and on another type of machine. Random bits and their transformation
are separate loops, because each alone keeps all its values in vector registers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from dpaudit.kernels.jit import exact_kernel, inline

I32, U32, U64, F32 = np.int32, np.uint32, np.uint64, np.float32

Words = NDArray[np.uint32]
Draws = NDArray[np.float32]
Trials = NDArray[np.int64]

TILE = 2048  # coordinates drawn at a time: bits and draws fit in the first-level cache

_LOW = U64(0xFFFFFFFF)
_MULTIPLIERS = (U64(0xD2511F53), U64(0xCD9E8D57))
_WEYL = (U64(0x9E3779B9), U64(0xBB67AE85))
_ROUNDS = 10
# The low bits of a counter's last word that belong to the trial; the bits above are the block's.
_TRIAL_BITS = U64(15)


def _fused(real: Any) -> Any:
    """Return an intrinsic for `a·b + c`, rounded once, in this type."""

    @intrinsic  # type: ignore[untyped-decorator]
    def fma(typing_context: Any, a: Any, b: Any, c: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.fma(*arguments)

        return real(real, real, real), generate

    return fma


def _reinterpret(source: Any, target: Any) -> Any:
    @intrinsic  # type: ignore[untyped-decorator]
    def cast(typing_context: Any, x: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.bitcast(arguments[0], context.get_value_type(target))

        return target(source), generate

    return cast


_fma = _fused(types.float32)
_bits = _reinterpret(types.float32, types.int32)
_float = _reinterpret(types.int32, types.float32)


@inline
def _philox(
    block: np.uint64, step: int, trial_low: np.uint32, trial_high: np.uint32, key: Words
) -> tuple[np.uint32, np.uint32, np.uint32, np.uint32]:
    # Words are kept in 64-bit lanes, so the wide products need no conversion between rounds.
    x0, x1, x2 = U64(block) & _LOW, U64(step), U64(trial_low)
    x3 = U64(trial_high) | ((U64(block) >> U64(32)) << _TRIAL_BITS)
    k0, k1 = U64(key[0]), U64(key[1])
    for _ in range(_ROUNDS):
        p0 = (x0 & _LOW) * _MULTIPLIERS[0]
        p1 = (x2 & _LOW) * _MULTIPLIERS[1]
        x0, x1, x2, x3 = (p1 >> U64(32)) ^ x1 ^ k0, p1, (p0 >> U64(32)) ^ x3 ^ k1, p0
        k0, k1 = k0 + _WEYL[0], k1 + _WEYL[1]
    return U32(x0), U32(x1), U32(x2), U32(x3)


@exact_kernel
def philox_words(words: Words, first_block: int, step: int, trial: int, key: Words) -> None:
    """Fill `words` (uint32, a multiple of 4) with the blocks from `first_block` on."""
    low, high = U32(trial), U32(U64(trial) >> U64(32))
    for i in range(len(words) // 4):
        a, b, c, d = _philox(U64(first_block + i), step, low, high, key)
        words[4 * i], words[4 * i + 1], words[4 * i + 2], words[4 * i + 3] = a, b, c, d


_SQRT_HALF = I32(0x3F3504F3)  # bits of 2^-1/2 in single precision
_SQRT_HALF_31 = I32(0x3F3504F3 + (31 << 23))  # bits of 2^31 · 2^-1/2
_LN2 = F32(0.6931471805599453)


@inline
def _exponential(word: np.uint32) -> np.float32:
    # E = −ln(k / 2^31), k the word's upper 31 bits made odd; k/2^31 = m·2^e with m in
    # [2^-1/2, 2^1/2), ln m = f·Q(f), f = m − 1, Q fitted to a relative error of 1.7e-7.
    k = F32(I32((word >> U32(1)) | U32(1)))
    i = I32(_bits(k) - _SQRT_HALF_31)
    e = F32(I32(i >> I32(23)))
    f = F32(_float(I32(I32(i & I32(0x7FFFFF)) + _SQRT_HALF)) - F32(1))
    q = F32(0.10106894983121341)
    q = _fma(q, f, F32(-0.16222585302714504))
    q = _fma(q, f, F32(0.1725083177416734))
    q = _fma(q, f, F32(-0.1990016503235317))
    q = _fma(q, f, F32(0.24969908878251093))
    q = _fma(q, f, F32(-0.333350589543831))
    q = _fma(q, f, F32(0.5000036512660506))
    q = _fma(q, f, F32(-0.9999999453092664))
    return _fma(e, -_LN2, F32(q * f))


@inline
def _uniform(word: np.uint32) -> np.float32:
    # (k + 1/2) / 2^23: in the open interval (0, 1), every value exact in single precision.
    return _fma(F32(I32(word >> U32(9))), F32(2.0**-23), F32(2.0**-24))


@inline
def _normal_pair(word_r: np.uint32, word_a: np.uint32) -> tuple[np.float32, np.float32]:
    # Box-Muller: radius (2E)^1/2; the angle lies in [−π/4, π/4) (30 bits), then the two lowest bits
    # choose one of four quarter turns: the sign of the cosine, and a swap.
    r = F32(np.sqrt(F32(F32(2) * _exponential(word_r))))
    x = F32(F32(I32(I32(word_a) >> I32(2))) * F32(np.pi / 2 * 2.0**-30))
    z = F32(x * x)
    s = _fma(_fma(F32(-1.9515295891e-4), z, F32(8.3321608736e-3)), z, F32(-1.6666654611e-1))
    s = F32(r * _fma(s, F32(z * x), x))
    c = _fma(_fma(F32(2.4433157118e-5), z, F32(-1.3887316255e-3)), z, F32(4.1666645683e-2))
    c = F32(r * _fma(c, F32(z * z), _fma(F32(-0.5), z, F32(1))))
    c = _float(I32(_bits(c) ^ I32(word_a << U32(31))))
    swap = (word_a & U32(2)) != U32(0)
    return (c if swap else s), (s if swap else c)


@exact_kernel
def uniform(out: Draws, trials: Trials, step: int, key: Words) -> None:
    """Fill `out`, float32 `(W, C)`, with uniform draws in (0, 1) of `trials` `(W,)`."""
    words = np.empty(TILE, np.uint32)
    n = out.shape[1]
    for w in range(out.shape[0]):
        for start in range(0, n, TILE):
            philox_words(words, start // 4, step, trials[w], key)
            part = out[w, start : min(start + TILE, n)]
            for i in range(len(part)):
                part[i] = _uniform(words[i])


@exact_kernel
def normal_row(out: Draws, words: Words, first: int, step: int, trial: int, key: Words) -> None:
    """Fill `out` (float32, TILE) with the standard normal draws of coordinates `first…`.

    `first` is a multiple of TILE and `words` is scratch of TILE words. Within a tile, coordinates
    `c` and `c + TILE/2` share one Box-Muller pair.
    """
    philox_words(words, first // 4, step, trial, key)
    half = TILE // 2
    left, right, radius, angle = out[:half], out[half:], words[:half], words[half:]
    for i in range(half):
        left[i], right[i] = _normal_pair(radius[i], angle[i])


@exact_kernel
def normal(out: Draws, trials: Trials, step: int, key: Words) -> None:
    """Fill `out`, float32 `(W, C)`, with standard normal draws of `trials` `(W,)`."""
    words = np.empty(TILE, np.uint32)
    tail = np.empty(TILE, np.float32)
    n = out.shape[1]
    for w in range(out.shape[0]):
        for start in range(0, n, TILE):
            if start + TILE <= n:
                part = out[w, start : start + TILE]
                normal_row(part, words, start, step, trials[w], key)
            else:
                normal_row(tail, words, start, step, trials[w], key)
                out[w, start:] = tail[: n - start]
