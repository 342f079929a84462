"""What a mechanism keeps from when it was made, and whether it may be its noise."""

from __future__ import annotations

import functools
import random
from decimal import localcontext
from typing import Any

import numpy as np
import pytest
import sharing_mechanisms as sharing  # type: ignore[import-not-found]
from scipy import sparse

from dpaudit.audits.mechanism.kept import Snapshot, may_be_noise

Rng = np.random.Generator


class Stateless:
    """A class without noise."""

    def __call__(self, data: Any, rng: Rng) -> Any:
        return sum(data)


class Scaled(Stateless):
    """A class that holds a number."""

    def __init__(self) -> None:
        self.scale = 2.0


class Holding(Stateless):
    """A class that holds a part."""

    def __init__(self, part: Any) -> None:
        self.part = part


class Hidden(Stateless):
    """A class that draws from an argument that it does not keep."""

    def __init__(self, share: float) -> None:
        self.noise = random.random() * share  # noqa: S311


class Fitted(Holding):
    """A class that changes after it was made."""

    def fit(self) -> Fitted:
        self.learned = random.random()  # noqa: S311
        return self


def exact(data: Any, rng: Rng) -> Any:
    """Return the sum, by functions of a module."""
    return np.sum(data)


def calling(part: Any) -> Any:
    """A function of another function, which no other process can import."""

    def mechanism(data: Any, rng: Rng) -> Any:
        return part(data, rng)

    return mechanism


def scaled(scale: float) -> Any:
    """A function with a number as a default."""

    def mechanism(data: Any, rng: Rng, scale: float = scale) -> Any:
        return scale * np.sum(data)

    return mechanism


def kept(mechanism: Any, *, constant: bool) -> list[str]:
    return may_be_noise(Snapshot.of(mechanism).work, None, constant=constant)


NOISE = 0.7310246158
PARTS = [NOISE, -1 / NOISE, np.float32(NOISE), [(NOISE,)], {1: NOISE}, {NOISE}, b"salt"]
PARTS += [
    2**40 + 12345,
    10**40 - 1,
    NOISE * 1j,
    np.array([1, NOISE]),
    np.array([[None, NOISE]], object),
]
PARTS += [sparse.csr_array([[NOISE]]), functools.partial(exact, NOISE), Holding(NOISE)]
WRITTEN = [0.1, 1e-5, 1 / 3, 20, -0.25, np.float32(0.1), [(1,)], {"a": 1.5}, {1}, "word", True]
WRITTEN += [10**9, 2j, np.arange(5), np.eye(2, dtype=np.float32), np.nan, np.array(["a", None])]
WRITTEN += [sparse.csr_array([[2.0]]), functools.partial(exact, 0.5), Holding(0.5)]


@pytest.mark.cases("part", PARTS)
def test_values_with_many_digits_may_be_noise(part: Any) -> None:
    assert kept(calling(part), constant=False)
    assert kept(Holding(part), constant=False)


def test_the_precision_that_a_mechanism_sets_hides_no_noise() -> None:
    with localcontext(prec=2):
        assert kept(calling(NOISE), constant=False)


@pytest.mark.cases("part", WRITTEN)
def test_words_and_few_digits_may_be_noise_where_outputs_are_constant(part: Any) -> None:
    work = Snapshot.of(calling(part)).work
    assert may_be_noise(work, None, constant=True)
    assert not may_be_noise(work, None, constant=False)
    assert not kept(Holding(part), constant=False)


@pytest.mark.cases(
    "mechanism",
    [
        exact,
        sharing.cached,
        sharing.ONCE,
        sharing.ONCE.__call__,
        sharing.ONCE_AND_FRESH,
        Stateless(),
        Scaled(),
        Holding(exact),
        Holding({}),
        Holding(Scaled()),
        calling(exact),
        calling(Scaled()),
        calling(sharing.ONCE),
        calling(np.random.default_rng(1)),
        functools.partial(exact),
    ],
)
def test_what_a_fresh_process_makes_again_is_no_noise(mechanism: Any) -> None:
    assert not kept(mechanism, constant=True)


@pytest.mark.cases("make", sharing.KEEPING.values(), ids=sharing.KEEPING)
def test_kept_noise_is_seen(make: Any) -> None:
    assert kept(make(), constant=False)


@pytest.mark.cases("make", sharing.SETTINGS.values(), ids=sharing.SETTINGS)
def test_settings_are_told_from_noise(make: Any) -> None:
    assert not kept(make(), constant=False)


@pytest.mark.cases(
    ("mechanism", "names"),
    [
        (Holding([1]), ["part"]),
        (Holding({1: 2}), ["part"]),
        (scaled(2.0), ["scale"]),
        (sharing.Once(), ["noise"]),
        (sharing.OnceAndFresh(0.5), ["noise", "scale"]),
        (Hidden(0.5), ["noise"]),
        (Fitted(0.5).fit(), ["part", "learned"]),
    ],
)
def test_values_are_named(mechanism: Any, names: list[str]) -> None:
    assert kept(mechanism, constant=True) == names


def test_functions_in_functions_keep_globals() -> None:
    scope: dict[str, Any] = {"NOISE": NOISE}
    exec("def mechanism(data, rng): return (lambda: sum(data) + NOISE)()", scope)  # noqa: S102
    assert kept(scope["mechanism"], constant=False) == ["NOISE"]
