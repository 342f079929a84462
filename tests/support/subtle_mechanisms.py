"""Mechanisms whose leaks are easily overlooked, each with a twin that leaks nothing.

Each is `mechanism(data, rng)` for data sets 0 and 1; a twin ignores its data. `EPSILON` is what the
leaking ones claim; the true ε is larger, mostly infinite.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

EPSILON = 1.0
Mechanism = Callable[[int, np.random.Generator], Any]


def grid(value: float) -> float:
    """Round to multiples of 2^-20: finer digits of a floating sum show what was added."""
    return float(np.round(value * 2**20) / 2**20)


def rare_leak(data: int, rng: np.random.Generator) -> Any:
    """Say so once in a thousand outputs: ε = ∞ with δ = 0.001."""
    if data and rng.random() < 1e-3:
        return 77.0
    return grid(rng.laplace())


def lowest_bit(data: int, rng: np.random.Generator) -> Any:
    """Set the lowest bit of the mantissa."""
    bits = np.float64(rng.normal() + 10).view(np.uint64)
    return float(((bits >> np.uint64(1) << np.uint64(1)) | np.uint64(data)).view(np.float64))


def zero_sign(data: int, rng: np.random.Generator) -> Any:
    """Return −0.0 or 0.0, or one of two other numbers."""
    zero = -0.0 if data else 0.0
    return [zero, 1.0, 2.0][rng.integers(3)]


def number_type(data: int, rng: np.random.Generator) -> Any:
    """Return a whole number as an integer or as a floating number."""
    value = int(rng.integers(5))
    return value if data else float(value)


def large_integer(data: int, rng: np.random.Generator) -> Any:
    """Add 1 to an even number near 2^60, where doubles are 256 apart."""
    return 2**60 + 2 * int(rng.integers(50)) + data


def number_in_text(data: int, rng: np.random.Generator) -> Any:
    """Write a number with Laplace noise for ε = 5."""
    return f"the answer is {data + rng.laplace(scale=1 / 5):.3f} today"


def bit_in_text(data: int, rng: np.random.Generator) -> Any:
    """Hide the data in one of eight random bits."""
    bits = rng.integers(2, size=8)
    bits[5] = data
    return "record " + "".join(map(str, bits))


LEAKS: dict[str, Mechanism] = {
    "lowest bit": lowest_bit,
    "sign of zero": zero_sign,
    "type of number": number_type,
    "large integer": large_integer,
    "number in text": number_in_text,
    "bit in text": bit_in_text,
}


def twin(mechanism: Mechanism) -> Mechanism:
    """Return the mechanism with a coin in place of its data: ε = 0."""
    return lambda data, rng: mechanism(int(rng.integers(2)), rng)
