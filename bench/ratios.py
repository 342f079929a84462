"""Prints how many times faster the similarity builds are than their peers, and the peak memory.

    python bench/ratios.py

Each pair is timed in turn, ours and theirs, so that a drifting machine moves both; the median ratio
counts. All run on one thread. Each gets its own input ready-made: ours the ratings with their views
by user and by item, scipy and implicit a sparse matrix, Surprise its training set.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
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
    print(f"{name:33} {our:6.3f} s against {their:7.3f} s: {ratio:5.1f} times faster")


def peak(call: Callable[[], Any]) -> float:
    """MiB by which a call's peak resident memory exceeds what was resident before (Linux)."""

    def resident(field: str) -> int:
        status = Path("/proc/self/status").read_text(encoding="ascii")
        return int(status.split(f"{field}:")[1].split()[0])

    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # forget the earlier peak
    before = resident("VmRSS")
    call()
    return (resident("VmHWM") - before) / 1024


def main() -> None:
    """Read the data, compare, print."""
    from bench_peers import (
        implicit_cosine,
        matrix,
        ml_1m_ratings,
        purchases,
        scipy_cosine,
        surprise_slope_one,
    )

    from dpaudit.defenses.item_item.cosine import Cosine
    from dpaudit.defenses.item_item.slope_one import SlopeOne

    ratings = ml_1m_ratings()
    bought = purchases(ratings)
    table = matrix(bought)
    model, trainset = surprise_slope_one(ratings)

    def slope_one() -> object:
        return SlopeOne(epsilon=1.0).prepare(ratings)

    def cosine() -> object:
        return Cosine(epsilon=1.0).prepare(bought)

    compare("Slope One against Surprise", slope_one, lambda: model.fit(trainset), 3)
    compare("cosine against scipy", cosine, lambda: scipy_cosine(table), 9)
    compare("cosine against implicit, top 20", cosine, lambda: implicit_cosine(table), 9)
    print(f"peak memory: Slope One {peak(slope_one):.0f} MiB, cosine {peak(cosine):.0f} MiB")


if __name__ == "__main__":
    main()
