"""Count the outcomes of a gate on correct mechanisms, and how often rare leaks are found.

docs/methods/statistics.md states the results. Run it with `python docs/scripts/gate_flips.py`;
`--runs 5` gives a quick look.
"""

from __future__ import annotations

import argparse
import math
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np
import pandas as pd

from dpaudit.audits.mechanism.audit import audit

CLAIM, FACTOR, TRIALS = 1.0, 2.0, 6000
Rng = np.random.Generator


def grid(values: Any) -> Any:
    """Values of one bit depth, as finer bits would reveal the data."""
    return np.round(np.asarray(values) * 2**20) / 2**20


def response(data: int, rng: Rng, n: int) -> Any:
    """Randomised response with odds of e to 1."""
    return np.where(rng.random(n) < math.e / (1 + math.e), data, 1 - data)


def integers(data: int, rng: Rng, n: int) -> Any:
    """A count with two-sided geometric noise."""
    p = 1 - math.exp(-1)
    return data + rng.geometric(p, n) - rng.geometric(p, n)


def words(data: int, rng: Rng, n: int) -> Any:
    """Texts with two numbers, one of which has Laplace noise."""
    values = zip(data + rng.laplace(size=n), rng.integers(99, size=n), strict=True)
    return [f"about {x:.3f} of {k}" for x, k in values]


def frames(data: int, rng: Rng, n: int) -> Any:
    """Frames of four values with Laplace noise."""
    values = grid(rng.laplace(size=(n, 4)) + data * np.array([0, 1, 0, 0]))
    return [pd.DataFrame({"a": row[:2], "b": row[2:]}) for row in values]


CORRECT: dict[str, Callable[[int, Rng, int], Any]] = {
    "a number": lambda data, rng, n: grid(data + rng.laplace(size=n)),
    "randomised response": response,
    "a count": integers,
    "a text": words,
    "a vector": lambda data, rng, n: grid(data * np.eye(6)[1] + rng.laplace(size=(n, 6))),
    "a frame": frames,
}


def leaking(values: Callable[[int, Rng, int], Any], share: float) -> Callable[..., Any]:
    """Noise that is replaced by telltale values in a share of the outputs."""
    return lambda data, rng, n: np.where(
        rng.random(n) < share, values(data, rng, n), grid(rng.laplace(size=n))
    )


LEAKS: dict[str, Callable[[int, Rng, int], Any]] = {
    "two values": lambda data, rng, n: 77.0 + data,
    "exact answers": lambda data, rng, n: float(data),
    "both tails": lambda data, rng, n: (2 * data - 1) * (50 + rng.random(n)),
    "ranges side by side": lambda data, rng, n: 77 + data + rng.random(n) / 2,
}


def outcome(name: str, seed: int) -> str:
    """Return how a gate on the claim judges a correct mechanism, and what it misses."""
    found = audit(
        CORRECT[name], 0, 1, trials=TRIALS, claim=CLAIM, detectable=FACTOR, batched=True, seed=seed
    )
    if found.epsilon.lower > CLAIM:
        return "fail"
    there = found.control is not None and found.control.found
    return "pass" if there else f"inconclusive: {found.control and found.control.mutant}"


def is_found(name: str, share: float, trials: int, seed: int) -> bool:
    """Return whether a leak of ε = ∞ in a share of the outputs is certified."""
    mechanism = leaking(LEAKS[name], share)
    return audit(mechanism, 0, 1, trials=trials, batched=True, seed=seed).epsilon.lower > CLAIM


def main() -> None:
    """Print the counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    seeds = range(arguments.runs)
    with ProcessPoolExecutor(arguments.workers) as pool:
        for name in CORRECT:
            counts = Counter(pool.map(outcome, [name] * len(seeds), seeds))
            print(f"{name}: {dict(counts)}", flush=True)
        for trials, share in ((20_000, 1 / 171), (200_000, 1 / 1000)):
            for name in LEAKS:
                found = [pool.submit(is_found, name, share, trials, seed) for seed in seeds]
                count = sum(each.result() for each in found)
                print(f"{name}, 1 of {1 / share:.0f}, {trials} trials: {count}", flush=True)


if __name__ == "__main__":
    main()
