"""Bits are planted at places of every kind, and can be read there."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from dpaudit.attacks.black_box import leaves
from dpaudit.attacks.black_box.encoding import as_batch
from dpaudit.attacks.black_box.leaves import read
from dpaudit.audits.mechanism.plants import OutputPool, OutputSplit, splits, writings


def pool(outputs: Any) -> OutputPool:
    return OutputPool.of(outputs, given_score=False)


def test_two_outputs_that_occur_nowhere_else() -> None:
    assert pool(np.arange(50)).informative() == (50, 51)
    assert pool(np.full(50, 254, np.uint8)).informative() is None
    assert pool(["a"] * 50).informative() is None
    values = np.r_[np.zeros(50), 1.5, 2.5]
    assert pool(values).informative() == (1.5, 2.5)


def test_leaves_of_arrays_and_of_readings_are_alike() -> None:
    array = np.random.default_rng(0).normal(size=(20, 3))
    one, other = pool(array), pool([*array, "word"])
    assert one.width == 3
    assert other.width == 1
    assert [one.leaf(i, 2) for i in range(20)] == [other.leaf(i, 2) for i in range(20)]
    assert other.leaf(20, 2) == (leaves.PADDING, 0)
    assert one.entry(1) is not None
    assert other.entry(1) is None


def test_only_finite_numbers_are_compared() -> None:
    assert pool([1.0, float("nan")]).entry(0) is None
    assert pool([1.0, "a"]).kind(0) is None
    assert pool([1, 2.5]).entry(0) == [1, 2.5]


Rng = np.random.Generator


@dataclasses.dataclass
class Release:
    name: str
    value: float


MAKERS: dict[str, tuple[Callable[[Rng], Any], set[str]]] = {
    "float": (lambda rng: rng.laplace(), {"bit"}),
    "float32": (lambda rng: np.float32(rng.laplace()), {"bit"}),
    "array": (lambda rng: rng.normal(size=7), {"bit"}),
    "list": (lambda rng: [rng.normal(), 1.0, "a"], {"bit"}),
    "large integer": (lambda rng: 2**60 + int(rng.integers(50)), {"bit"}),
    "text": (lambda rng: f"about {rng.laplace():.3f} km, {rng.laplace():.1e} s", {"the last"}),
    "integer": (lambda rng: int(rng.integers(9)), {"bit", "the types"}),
    "zeros": (lambda rng: [0.0, 0.5, 1.0][rng.integers(3)], {"bit", "the signs", "the types"}),
    "sparse": (lambda rng: sparse.csr_array(np.diag(rng.normal(size=3))), {"bit"}),
    "frame": (lambda rng: pd.DataFrame({"a": rng.normal(size=2)}), {"bit"}),
    "dataclass": (lambda rng: Release("x 1", rng.laplace()), {"bit", "the last"}),
}


def pool_of(make: Callable[[Rng], Any], count: int = 300) -> OutputPool:
    rng = np.random.default_rng(1)
    return OutputPool.of(as_batch([make(rng) for _ in range(count)]), given_score=False)


def same(one: Any, other: Any) -> list[bool]:
    def content(output: Any) -> Any:
        reading = read(output)
        return reading.form, [(kind, str(value)) for kind, value in reading.leaves]

    return [content(a) == content(b) for a, b in zip(one, other, strict=True)]


@pytest.mark.cases("name", MAKERS)
def test_a_written_bit_can_be_read_where_it_was_written(name: str) -> None:
    """Writing again overwrites: so the outputs with bit 0 and with bit 1 never coincide."""
    make, kinds = MAKERS[name]
    pool = pool_of(make)
    zeros, ones = np.zeros(len(pool), np.bool_), np.ones(len(pool), np.bool_)
    written = list(writings(pool, np.random.default_rng(3)))
    assert kinds <= {
        " ".join(plant.name.split()[: len(kind.split())]) for plant in written for kind in kinds
    }
    for plant in written:
        low, high = plant.put(pool, zeros), plant.put(pool, ones)
        there = np.array([not equal for equal in same(low, high)])
        assert there.mean() == pytest.approx(plant.share, abs=1e-9), plant.name
        again = plant.put(OutputPool.of(as_batch(high), given_score=False), zeros)
        assert np.all(np.array(same(again, low)) | ~there), plant.name


def names(make: Callable[[Rng], Any], seed: int) -> set[str]:
    pool = pool_of(make)
    rng = np.random.default_rng(seed)
    return {plant.name for plant in (*splits(pool, None, rng), *writings(pool, rng))}


def test_the_seed_draws_the_places() -> None:
    """Of every kind of number, of numbers and characters of texts, and of bits."""
    wide = [names(lambda rng: rng.normal(size=450), seed) for seed in range(8)]
    assert len(set.union(*wide)) > 12
    assert all(len(places) == 2 for places in wide)
    mixed = names(lambda rng: [bool(rng.integers(2)), int(rng.integers(99)), rng.normal()], 0)
    assert {"the values of entry 0", "the values of entry 1", "the values of entry 2"} <= mixed
    texts = [
        names(lambda rng: " ".join(f"{x:.2f}" for x in rng.normal(size=40)), seed)
        for seed in range(8)
    ]
    numbers = {name for places in texts for name in places if name.startswith("number")}
    assert len(numbers) > 4
    assert all(any(name.startswith("character") for name in places) for places in texts)


def test_a_split_is_the_same_in_any_pool() -> None:
    make = MAKERS["dataclass"][0]
    pool, more = pool_of(make), pool_of(make, 400)
    for split in splits(pool, None, np.random.default_rng(0)):
        assert isinstance(split, OutputSplit)
        assert (split.inside(more)[:300] == split.inside(pool)).all()
        assert 0.2 <= split.inside(pool).mean() <= 0.8
