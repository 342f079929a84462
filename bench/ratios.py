"""Prints how many times faster the similarity builds are than their peers.

    python bench/ratios.py

Each pair is timed in turn, ours and theirs, so that a drifting machine moves both; the median ratio
counts. Peak memory is that of a fresh process that builds once, less one that only reads the data.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

# One thread for every peer, before any of them is imported.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"


def seconds(call: Callable[[], Any]) -> float:
    """Wall-clock seconds of one call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def compare(name: str, ours: Callable[[], Any], theirs: Callable[[], Any], rounds: int) -> None:
    """Print the median of both and of the ratio pair by pair."""
    ours()
    pairs = [(seconds(ours), seconds(theirs)) for _ in range(rounds)]
    ratio = statistics.median(their / our for our, their in pairs)
    our, their = (statistics.median(column) for column in zip(*pairs, strict=True))
    print(f"{name:36} {our:7.3f} s  against {their:7.3f} s: {ratio:6.1f} times faster")


def memory(what: str) -> float:
    """Peak resident MiB of a fresh process that runs `what`."""
    done = subprocess.run(
        [sys.executable, __file__, what], capture_output=True, text=True, check=True
    )
    return float(done.stdout)


def main() -> None:
    """Read the data, compare, print."""
    from bench_peers import (
        implicit_cosine,
        ml_1m_ratings,
        purchases,
        scipy_cosine,
        surprise_slope_one,
    )

    from dpaudit.defenses.cosine import Cosine
    from dpaudit.defenses.slope_one import SlopeOne

    ratings = ml_1m_ratings()
    bought = purchases(ratings)
    slope_one, cosine = SlopeOne(epsilon=1), Cosine(epsilon=1)
    if len(sys.argv) > 1:
        if sys.argv[1] == "slope-one":
            slope_one.prepare(ratings)
        if sys.argv[1] == "cosine":
            cosine.prepare(bought)
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
        return
    model, trainset = surprise_slope_one(ratings)
    compare(
        "Slope One against Surprise",
        lambda: slope_one.prepare(ratings),
        lambda: model.fit(trainset),
        rounds=3,
    )
    compare(
        "cosine against scipy",
        lambda: cosine.prepare(bought),
        lambda: scipy_cosine(bought),
        rounds=7,
    )
    compare(
        "cosine against implicit (top 20)",
        lambda: cosine.prepare(bought),
        lambda: implicit_cosine(bought),
        rounds=7,
    )
    base = memory("nothing")
    for what in ("slope-one", "cosine"):
        print(f"peak memory of {what}: {memory(what) - base:.0f} MiB above reading the data")


if __name__ == "__main__":
    main()
