"""Rare leaks are found beside a score of all outputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dpaudit.attacks.black_box.learned import LearnedScore

Floats = NDArray[np.float64]
N = 5_000

# What takes the place of the noise in one output of 171, on data set 0 or 1.
LEAKS: dict[str, Callable[[int, np.random.Generator], Any]] = {
    "two values": lambda data, rng: 77.0 + data,
    "tails": lambda data, rng: (2 * data - 1) * (50 + rng.random(N)),
    "ranges side by side": lambda data, rng: 77 + data + rng.random(N) / 2,
}


def outputs(leak: str, data: int, rng: np.random.Generator) -> Floats:
    noise = np.round(rng.laplace(size=N), 6)
    values: Floats = np.where(rng.random(N) < 1 / 171, LEAKS[leak](data, rng), noise)
    return values


@pytest.mark.long
@pytest.mark.parametrize("leak", LEAKS)
def test_a_rare_leak_is_found(leak: str) -> None:
    """In each of 4 repetitions. About 29 outputs of each data set leak."""
    for seed in range(4):
        rng = np.random.default_rng(seed)
        score = LearnedScore.fit(outputs(leak, 0, rng), outputs(leak, 1, rng), seed)
        right = wrong = 0
        for data, guess in ((0, -1), (1, 1)):
            guesses = score.guesses(outputs(leak, data, rng))
            assert guesses is not None
            right += int((guesses == guess).sum())
            wrong += int((guesses == -guess).sum())
        assert right > max(20, 3 * wrong)


def test_without_a_rare_leak_nothing_is_guessed() -> None:
    rng = np.random.default_rng(0)
    score = LearnedScore.fit(rng.integers(9, size=300), rng.integers(9, size=300), 0)
    assert score.rare is None
    assert score.guesses([1, 2]) is None
