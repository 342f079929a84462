"""Mechanisms that break the claim ε = 1 on the data sets 0 and 1 by far, each in another place."""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

Rng = np.random.Generator


@dataclasses.dataclass
class Release:
    """An output with fields."""

    value: float
    note: Any = None


class Slotted:
    """An output with slots."""

    __slots__ = ("hidden", "shown")

    def __init__(self, hidden: Any, shown: Any) -> None:
        self.hidden, self.shown = hidden, shown


class Labelled(list[float]):
    """A list with an attribute."""

    label: int


def grid(values: Any) -> Any:
    """Values of one bit depth, as finer bits would reveal the data."""
    return np.round(np.asarray(values) * 2**20) / 2**20


def noise(rng: Rng, size: Any = None) -> Any:
    """Laplace noise on a grid."""
    found = grid(rng.laplace(size=size))
    return float(found) if size is None else found


def entry(data: int, rng: Rng, *, width: int, at: int) -> Any:
    """An array of noise with one entry released without noise."""
    found = noise(rng, width)
    found[at] = data
    return found


def bit(data: int, rng: Rng, *, place: int, kind: Any = np.float64) -> Any:
    """A number of noise with one bit released without noise."""
    value = np.asarray(rng.normal() + 10, kind)
    whole = value.view(f"u{value.dtype.itemsize}")
    mask = whole.dtype.type(1 << place)
    return (whole & ~mask | mask * whole.dtype.type(data)).view(kind)[()]


def numbers(data: int, rng: Rng, *, count: int, at: int) -> str:
    """A text of numbers with noise, and one without."""
    found = rng.laplace(size=count)
    found[at] = data
    return " ".join(f"{x:.3f}" for x in found)


def letters(data: int, rng: Rng, *, count: int, at: int) -> str:
    """A text of random letters, and one that is not random."""
    found = [chr(97 + i) for i in rng.integers(26, size=count)]
    found[at] = "xy"[data]
    return "".join(found)


def labelled(data: int, rng: Rng) -> Any:
    """A list whose attribute is not private."""
    found = Labelled([noise(rng)])
    found.label = data
    return found


def masked(data: int, rng: Rng) -> Any:
    """An array whose mask is not private."""
    return np.ma.array(noise(rng, 3), mask=[False, bool(data), False])


def frame(data: int, rng: Rng, **changes: Any) -> pd.DataFrame:
    """A frame of noise."""
    return pd.DataFrame({"a": noise(rng, 3), "b": noise(rng, 3)}, **changes)


def structured(data: int, rng: Rng) -> Any:
    """A structured array with a field that is not private."""
    return np.array([(noise(rng), data)], dtype=[("x", "f8"), ("y", "i4")])


def seeded(data: int, rng: Rng) -> float:
    """Noise whose seed is a function of the data."""
    return data + float(np.random.default_rng(data).laplace())


def shared(data: int, rng: Rng) -> Any:
    """Two coordinates with the same noise."""
    same = noise(rng)
    return np.array([same, same + data])


def parity(data: int, rng: Rng) -> Any:
    """Four fair bits whose parity is the data."""
    found = rng.integers(0, 2, 4)
    found[3] = (found[:3].sum() + data) % 2
    return found


def rare(data: int, rng: Rng, n: int) -> Any:
    """A leak of one output in 1000."""
    return np.where(rng.random(n) < 1e-3, 77.0 + data, noise(rng, n))


def rare_range(data: int, rng: Rng, n: int) -> Any:
    """A leak of one output in 500, by values that never repeat."""
    leaks = rng.random(n) < 2e-3
    return np.where(leaks, 77 + data + grid(rng.random(n) / 2), noise(rng, n))


def rare_exact(data: int, rng: Rng, n: int) -> Any:
    """One output in 500 has no noise."""
    return np.where(rng.random(n) < 2e-3, float(data), grid(data + rng.laplace(size=n)))


Mechanism = Callable[..., Any]
MANY: dict[str, Any] = {"trials": 200_000, "batched": True}
FEW: dict[str, Any] = {"trials": 300}

# The mechanism, and the arguments of `audit`.
FOUND: dict[str, tuple[Mechanism, dict[str, Any]]] = {
    "data of a sparse matrix": (
        lambda data, rng: sparse.csr_array(np.diag([noise(rng), 1.0 + data])), {}),
    "indices of a sparse matrix": (
        lambda data, rng: sparse.csr_array(([noise(rng)], ([0], [data])), shape=(2, 2)), {}),
    "shape of a sparse matrix": (
        lambda data, rng: sparse.coo_array(([noise(rng)], ([0], [0])), shape=(2, 2 + data)), {}),
    "index of a frame": (lambda data, rng: frame(data, rng, index=[0, 1, 2 + data]), {}),
    "column names of a frame": (
        lambda data, rng: frame(data, rng).rename(columns={"a": f"a{data}"}), {}),
    "dtype of a frame": (
        lambda data, rng: frame(data, rng).astype("float32" if data else "float64"), {}),
    "attributes of a frame": (
        lambda data, rng: frame(data, rng).assign(c=pd.Series([data] * 3, dtype="category")), {}),
    "name of a series": (lambda data, rng: pd.Series(noise(rng, 2), name=f"s{data}"), {}),
    "categories": (
        lambda data, rng: pd.Categorical(["a"], categories=["a", "bc"[data]]), {}),
    "number 20 of 40 in a text": (
        lambda data, rng: numbers(data, rng, count=40, at=19), {}),
    "number 40 of 40 in a text": (
        lambda data, rng: numbers(data, rng, count=40, at=39), {}),
    "letter 70 of 120": (lambda data, rng: letters(data, rng, count=120, at=69), {}),
    "entry 420 of 450": (lambda data, rng: entry(data, rng, width=450, at=420), FEW),
    "entry 999 of 1200": (lambda data, rng: entry(data, rng, width=1200, at=999), FEW),
    "mantissa bit 0": (lambda data, rng: bit(data, rng, place=0), {}),
    "mantissa bit 11": (lambda data, rng: bit(data, rng, place=11), {}),
    "mantissa bit 33": (lambda data, rng: bit(data, rng, place=33), {}),
    "mantissa bit 9 of a single": (
        lambda data, rng: bit(data, rng, place=9, kind=np.float32), {}),
    "bit 9 of entry 50": (
        lambda data, rng: np.r_[rng.normal(size=50), bit(data, rng, place=9)], {}),
    "integers near 2^60": (lambda data, rng: 2**60 + 2 * int(rng.integers(50)) + data, {}),
    "sign of zero": (lambda data, rng: [-0.0 if data else 0.0, 1.0, 2.0][rng.integers(3)], {}),
    "sign of zero in an array": (
        lambda data, rng: np.r_[noise(rng, 3), -0.0 if data else 0.0], {}),
    "types of numbers": (lambda data, rng: (int if data else float)(rng.integers(5)), {}),
    "type of an array": (
        lambda data, rng: noise(rng, 3).astype(np.float32 if data else np.float64), {}),
    "place of NaN": (
        lambda data, rng: [noise(rng), np.nan][:: 1 - 2 * data], {}),
    "NaN or infinity": (lambda data, rng: [noise(rng), np.inf if data else np.nan], {}),
    "length": (lambda data, rng: noise(rng, 5 + data).tolist(), {}),
    "order of keys": (
        lambda data, rng: dict([("a", noise(rng)), ("b", noise(rng))][:: 1 - 2 * data]), {}),
    "order of a list": (
        lambda data, rng: sorted(noise(rng, 4).tolist(), reverse=bool(data)), {}),
    "duplicates": (
        lambda data, rng: rng.permutation(9)[:3].tolist() + ([9, 9] if data else [9, 10]), {}),
    "members of a set": (lambda data, rng: {int(rng.integers(9)), 10 + data}, {}),
    "bytes": (lambda data, rng: rng.bytes(20) + bytes([data]) + rng.bytes(20), {}),
    "a date": (
        lambda data, rng: pd.Timestamp("2024-01-01") + pd.Timedelta(int(rng.integers(9)), "D")
        + pd.Timedelta(data, "s"), {}),
    "dates of an array": (
        lambda data, rng: np.array(["2024-01-01"], "M8[s]") + np.array([data], "m8[s]"), {}),
    "a decimal": (lambda data, rng: Decimal(int(rng.integers(99))) + Decimal(data) / 1000, {}),
    "a fraction": (lambda data, rng: Fraction(int(rng.integers(1, 99)), 101 + 2 * data), {}),
    "an imaginary part": (lambda data, rng: complex(noise(rng), data), {}),
    "imaginary parts of an array": (
        lambda data, rng: noise(rng, 3) + 1j * np.array([0, data, 0]), {}),
    "a field of a dataclass": (lambda data, rng: Release(noise(rng), {"n": data}), {}),
    "a slot": (lambda data, rng: Slotted(data, noise(rng)), {}),
    "an attribute of a list": (labelled, {}),
    "a mask": (masked, {}),
    "a field of a structured array": (structured, {}),
    "maximal length of a queue": (
        lambda data, rng: deque([noise(rng)], maxlen=5 + data), {}),
    "an exception": (
        lambda data, rng: ValueError("singular", data) if data else noise(rng), {}),
    "a format of text": (
        lambda data, rng: f"{rng.laplace():.{3 + data}f}", {}),
    "too little noise": (lambda data, rng: round(data + rng.laplace(scale=0.2), 6), {}),
    "too little noise in a text": (
        lambda data, rng: f"it is {data + rng.laplace(scale=0.2):.6f}", {}),
    "wrong sensitivity": (lambda data, rng: round(10 * data + rng.laplace(), 6), {}),
    "uniform noise": (lambda data, rng: round(data + rng.uniform(-1, 1), 6), {}),
    "each of 50 coordinates spends the budget": (
        lambda data, rng: grid(data + rng.laplace(size=50)), {}),
    "a mixture": (
        lambda data, rng: noise(rng) if rng.random() < 0.5 else float(data) + noise(rng) / 16, {}),
    "noise shared by coordinates": (shared, {}),
    "parity of four bits": (parity, {}),
    "a seed made of the data": (seeded, {}),
    "a bit in a text": (
        lambda data, rng: "x" + "".join(map(str, [*rng.integers(2, size=7), data, 1])), {}),
    "a leak of one in 1000": (rare, MANY),
    "a leak of one in 500 by values that never repeat": (rare_range, MANY),
    "no noise in one of 500": (rare_exact, MANY),
    "an iterator": (lambda data, rng: [noise(rng), (x for x in [data])], {}),
}  # fmt: skip

# What an audit cannot find: nothing varies, or it is not read, or the score ignores it.
UNDECIDED: dict[str, tuple[Mechanism, dict[str, Any]]] = {
    "no noise, equal sums": (lambda data, rng: 7.0, {}),
    "a function": (lambda data, rng: [noise(rng), lambda: data], {}),
    "an object without a state": (lambda data, rng: [noise(rng), object()], {}),
    "no noise, a score that is constant": (lambda data, rng: data, {"score": np.zeros_like}),
    "noise, a score that is constant": (
        lambda data, rng: data + rng.laplace(scale=0.2),
        {"score": np.zeros_like},
    ),
}
