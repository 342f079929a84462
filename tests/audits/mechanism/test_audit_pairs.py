"""Candidate pairs: each within the adjacency, none twice, and the known patterns among them."""

from __future__ import annotations

import numpy as np
import pytest

from dpaudit.audits.mechanism.audit import Neighbours, input_pairs
from dpaudit.core.errors import InputError


def texts(neighbours: Neighbours, length: int, base: float = 1.0, step: float = 1.0) -> list[str]:
    """Each pair as e.g. `111 011`."""
    pairs = input_pairs(neighbours, length, base=base, step=step)
    return [" ".join("".join(f"{x:g}" for x in data) for data in pair) for pair in pairs]


def test_patterns_of_statdp() -> None:
    """The table of Ding et al. 2018 for five answers, from either side of the constant."""
    pairs = {frozenset(pair.split()) for pair in texts("all-differ", 5)}
    published = {
        *("11111 21111", "11111 01111", "11111 20000", "11111 02222"),
        *("11111 22000", "11111 22222", "11111 00000", "00111 11000"),
    }
    mirrored = {"11111 11112", "11111 00002", "11111 00022"}
    assert {frozenset(pair.split()) for pair in published | mirrored} <= pairs


def test_one_differs_by_hand() -> None:
    assert sorted(texts("one-differs", 2)) == ["11 01", "11 10", "11 12", "11 21"]
    assert sorted(texts("one-differs", 1)) == ["1 0", "1 2"]
    assert sorted(texts("any-value", 3)) == ["1 2", "1 3", "2 3"]


@pytest.mark.cases("length", [1, 2, 3, 4, 5, 10])
@pytest.mark.cases("neighbours", ["all-differ", "one-differs"])
def test_pairs_are_neighbours_and_none_comes_twice(neighbours: Neighbours, length: int) -> None:
    pairs = input_pairs(neighbours, length, base=3.0, step=0.5)
    keys = [frozenset((a.tobytes(), b.tobytes())) for a, b in pairs]
    assert len(set(keys)) == len(keys)
    for a, b in pairs:
        assert a.shape == b.shape == (length,)
        moved = np.abs(a - b)
        assert set(moved.tolist()) <= {0.0, 0.5}
        assert moved.sum() == 0.5 if neighbours == "one-differs" else moved.any()


@pytest.mark.cases(
    ("arguments", "problem"),
    [
        (("some", 3, 1.0, 1.0), "neighbours = 'some' is not known"),
        (("all-differ", 0, 1.0, 1.0), "length = 0"),
        (("any-value", 1, 1.0, 1.0), "from 2 on"),
        (("all-differ", 2.5, 1.0, 1.0), "length = 2.5"),
        (("all-differ", True, 1.0, 1.0), "length = True"),
        (("all-differ", 3, np.nan, 1.0), "base = nan"),
        (("all-differ", 3, 1.0, 0.0), "step = 0.0"),
        (("all-differ", 3, 1.0, np.inf), "step = inf"),
    ],
)
def test_bad_arguments_are_refused(
    arguments: tuple[Neighbours, int, float, float], problem: str
) -> None:
    neighbours, length, base, step = arguments
    with pytest.raises(InputError, match=problem):
        input_pairs(neighbours, length, base=base, step=step)
