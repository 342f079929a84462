"""Sixteen lanes of single precision against numpy's single precision, bit for bit."""

from __future__ import annotations

import numba
import numpy as np
import pytest
from numpy.typing import NDArray

from dpaudit.kernels import lanes
from dpaudit.kernels.lanes import LANES, dot, every, fma, load, store, total

F32 = np.float32
Floats = NDArray[np.float32]
NAN, INF = F32(np.nan), F32(np.inf)
SPECIAL = np.array([0.0, -0.0, 1.5, -1.5, INF, -INF, NAN, 1e-45], np.float32)


@numba.njit  # type: ignore[untyped-decorator]
def applied(out: Floats, a: Floats, b: Floats, c: Floats) -> None:
    """Row by row: each operation on all vectors of a, b and c."""
    n = len(a)
    for i in range(0, n, LANES):
        x, y, z = load(a, i), load(b, i), load(c, i)
        store(out, i, x + y)
        store(out, n + i, x - y)
        store(out, 2 * n + i, x * y)
        store(out, 3 * n + i, x / y)
        store(out, 4 * n + i, fma(x, y, z))
        store(out, 5 * n + i, lanes.least(x, y))
        store(out, 6 * n + i, lanes.greatest(x, y))
        store(out, 7 * n + i, lanes.root(x))
        store(out, 8 * n + i, lanes.magnitude(x))
        store(out, 9 * n + i, lanes.with_sign(x, y))
        store(out, 10 * n + i, lanes.where_within(z, x, every(F32(-1)), every(F32(1.25))))
        store(out, 11 * n + i, every(a[i]))
        store(out, 12 * n + i, lanes.select(z, x, y))


OPERATIONS = ["add", "sub", "mul", "div", "fma", "least", "greatest", "root"]
OPERATIONS += ["magnitude", "with_sign", "where_within", "every", "chosen"]


def all_of(a: Floats, b: Floats, c: Floats) -> dict[str, Floats]:
    out = np.empty(len(OPERATIONS) * len(a), np.float32)
    applied(out, a, b, c)
    return dict(zip(OPERATIONS, out.reshape(len(OPERATIONS), -1), strict=True))


@numba.njit  # type: ignore[untyped-decorator]
def moved(out: Floats, to: int, a: Floats, source: int) -> None:
    store(out, to, load(a, source))


@numba.njit  # type: ignore[untyped-decorator]
def summed(out: Floats, a: Floats) -> None:
    for i in range(len(out)):
        out[i] = total(load(a, i * LANES))


@numba.njit  # type: ignore[untyped-decorator]
def products(out: Floats, a: Floats, p: int, b: Floats, q: int, count: int) -> None:
    # Twice: the sums of the second must begin at 0 again.
    for place in (0, LANES):
        store(out, place, dot(a, p, b, q, count))


def same_bits(got: Floats, expected: Floats) -> None:
    """Check equality, including signs of zero; all NaN are equal."""
    assert expected.dtype == np.float32
    np.testing.assert_array_equal(got, expected)
    number = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(got)[number], np.signbit(expected)[number])


def one_to_two(rng: np.random.Generator, *shape: int) -> Floats:
    """Numbers of either sign with magnitude in [1, 2), where all 24 bits are used."""
    size = (1 + rng.integers(0, 2**23, shape) * 2.0**-23).astype(np.float32)
    signed: Floats = size * rng.choice(np.array([-1, 1], np.float32), shape)
    return signed


@pytest.fixture(scope="module")
def inputs() -> tuple[Floats, Floats, Floats]:
    """Random numbers of all sizes, then every pair of special ones."""
    rng = np.random.default_rng(1)
    a, b, c = rng.standard_normal((3, 4096)) * 10.0 ** rng.integers(-20, 19, (3, 4096))
    one, other = (values.ravel() for values in np.meshgrid(SPECIAL, SPECIAL))
    a, b = np.concatenate([a, one]), np.concatenate([b, other])
    c = np.concatenate([c, rng.standard_normal(len(one))])
    return a.astype(np.float32), b.astype(np.float32), c.astype(np.float32)


def test_arithmetic_is_numpys(inputs: tuple[Floats, Floats, Floats]) -> None:
    a, b, c = inputs
    got = all_of(a, b, c)
    with np.errstate(all="ignore"):
        same_bits(got["add"], a + b)
        same_bits(got["sub"], a - b)
        same_bits(got["mul"], a * b)
        same_bits(got["div"], a / b)
        same_bits(got["root"], np.sqrt(a))
    same_bits(got["magnitude"], np.abs(a))
    same_bits(got["with_sign"], np.copysign(a, b))
    same_bits(got["every"], np.repeat(a[::LANES], LANES))


def test_the_multiply_add_rounds_once() -> None:
    rng = np.random.default_rng(2)
    a, b, c = one_to_two(rng, 3, 1 << 14)
    c = c * F32(2) ** rng.integers(-4, 4, len(c)).astype(np.float32)
    # In double precision this is exact: a multiple of 2^-46 below 2^5.
    expected = (a.astype(np.float64) * b + c).astype(np.float32)
    same_bits(all_of(a, b, c)["fma"], expected)
    assert (a * b + c != expected).mean() > 0.05  # rounding twice would be detected


def test_multiply_add_keeps_nan_and_infinity(inputs: tuple[Floats, Floats, Floats]) -> None:
    a, b, c = (values[-64:] for values in inputs)
    with np.errstate(all="ignore"):
        same_bits(all_of(a, b, c)["fma"], (a.astype(np.float64) * b + c).astype(np.float32))


def test_least_and_greatest_keep_nan_of_the_first(inputs: tuple[Floats, Floats, Floats]) -> None:
    a, b, c = inputs
    got = all_of(a, b, c)
    fine = ~np.isnan(b)  # the second holds none
    with np.errstate(invalid="ignore"):
        # np.where takes `a` at every tie and wherever `a` is NaN, as the kernel does.
        same_bits(got["least"][fine], np.where(b < a, b, a)[fine])
        same_bits(got["greatest"][fine], np.where(b > a, b, a)[fine])
    lost = np.isnan(a) & fine
    assert lost.sum() == 7
    assert np.isnan(got["least"][lost]).all()
    assert np.isnan(got["greatest"][lost]).all()
    np.testing.assert_array_equal(got["least"][fine], np.minimum(a, b)[fine])
    np.testing.assert_array_equal(got["greatest"][fine], np.maximum(a, b)[fine])


def test_where_within_is_zero_outside_alone() -> None:
    edge = np.nextafter(F32(1.25), F32(2))
    x = np.array([-INF, -1.5, np.nextafter(F32(-1), F32(-2)), -1, -0.5, 0, 1.25, edge], np.float32)
    x = np.concatenate([x, np.array([2, INF, NAN, NAN, -1, 1.25, 0.1, -0.1], np.float32)])
    value = np.arange(1, 17).astype(np.float32)
    value[11] = NAN
    kept = np.array([0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 1, 1, 1, 1, 1, 1], bool)
    same_bits(all_of(x, x, value)["where_within"], np.where(kept, value, F32(0)))
    # A NaN value outside is 0 too: the place decides, not the value.
    beyond = np.full(LANES, 9, np.float32)
    same_bits(
        all_of(beyond, beyond, np.full(LANES, NAN))["where_within"], np.zeros(LANES, np.float32)
    )


def test_chosen_takes_whole_numbers_from_one_side() -> None:
    a, b = np.tile(SPECIAL, 2), np.full(LANES, F32(3))
    which = np.repeat(np.array([1, 0, 1, 0], np.float32), 4)
    same_bits(all_of(a, b, which)["chosen"], np.where(which == 1, a, b))
    same_bits(all_of(b, a, which)["chosen"], np.where(which == 1, b, a))


@numba.njit  # type: ignore[untyped-decorator]
def any_greater(a: Floats, b: Floats) -> bool:
    return bool(lanes.exceeds(load(a, 0), load(b, 0)))


def test_exceeds_finds_one_greater_lane() -> None:
    b = np.arange(LANES, dtype=np.float32)
    assert not any_greater(b.copy(), b)
    for w in range(LANES):
        a = b.copy()
        a[w] = np.nextafter(a[w], INF)
        assert any_greater(a, b)
        a[w] = NAN
        assert not any_greater(a, b)
    assert any_greater(b, np.full(LANES, -INF))


@pytest.mark.cases(("to", "source"), [(0, 0), (1, 5), (17, 3), (31, 32)])
def test_load_and_store_take_sixteen_entries_from_any_place(to: int, source: int) -> None:
    a = np.arange(48, dtype=np.float32)
    out = np.full(48, -1, np.float32)
    moved(out, to, a, source)
    expected = np.full(48, -1, np.float32)
    expected[to : to + LANES] = a[source : source + LANES]
    np.testing.assert_array_equal(out, expected)
    part = np.full(60, -1, np.float32)
    moved(part[7:], to, a[0:], source)  # a view begins where it begins
    np.testing.assert_array_equal(part[7:55], expected)


def test_the_total_is_folded_in_halves() -> None:
    rng = np.random.default_rng(3)
    a = (rng.standard_normal((500, LANES)) * 10.0 ** rng.integers(-3, 4, (500, LANES))).astype(
        np.float32
    )
    a[0, 3] = NAN
    got = np.empty(len(a), np.float32)
    summed(got, a.ravel())
    folded = a
    while folded.shape[1] > 1:
        half = folded.shape[1] // 2
        folded = folded[:, :half] + folded[:, half:]
    same_bits(got, folded[:, 0])
    in_turn = np.add.accumulate(a, axis=1)[:, -1]
    assert (got != in_turn).mean() > 0.2  # another order would be noticed


@pytest.mark.cases("count", [0, 1, 2, 3, 16])
def test_dot_has_a_sum_of_even_and_one_of_odd_terms(count: int) -> None:
    rng = np.random.default_rng(count)
    p, q = 5, 19
    a, b = one_to_two(rng, 2, 19 + 17 * LANES)
    a[:p], b[:q] = NAN, NAN
    a[p + count * LANES :], b[q + count * LANES :] = NAN, NAN  # nothing beyond is read
    out = np.empty(2 * LANES, np.float32)
    products(out, a, p, b, q, count)

    x = a[p : p + count * LANES].reshape(count, LANES).astype(np.float64)
    y = b[q : q + count * LANES].reshape(count, LANES)
    sums = np.zeros((2, LANES), np.float32)
    for c in range(count):
        # Exact in double precision: a multiple of 2^-46 below 2^6.
        sums[c % 2] = (x[c] * y[c] + sums[c % 2]).astype(np.float32)
    same_bits(out, np.tile(sums[0] + sums[1], 2))
    np.testing.assert_allclose(out[:LANES], (x * y).sum(axis=0), atol=1e-5)
    if count == 16:  # one sum for all terms would be noticed
        single = np.zeros(LANES, np.float32)
        for c in range(count):
            single = (x[c] * y[c] + single).astype(np.float32)
        assert (single != out[:LANES]).any()


@pytest.mark.cases("shape", [(1,), (16,), (3, 5, 16), (0, 16), (1000, 7)])
def test_aligned_arrays_begin_a_line_of_the_cache(shape: tuple[int, ...]) -> None:
    many = [lanes.aligned(*shape) for _ in range(20)]
    for array in many:
        assert array.shape == shape
        assert array.dtype == np.float32
        assert array.flags.c_contiguous
        assert array.flags.writeable
        assert not array.any()
        assert array.ctypes.data % 64 == 0 or array.size == 0
    for k, array in enumerate(many):
        array[...] = k
    for k, array in enumerate(many):
        assert (array == k).all()  # no two share memory
