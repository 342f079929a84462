"""Writes docs/results/speed.md: similarities, bounds and noise beside their peers, timed in turn.

    python -m pip install '.[bench]'
    DPAUDIT_DATA=… python bench/speed.py docs/results/speed.md

So a drifting machine moves both of a pair; the median of the ratios counts. All run on one thread.
Each gets its own input ready-made: ours the ratings with their views by user and by item, scipy and
implicit a sparse matrix, Surprise its training set.
"""

from __future__ import annotations

import os
import statistics
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

# One thread for every peer, before any of them is imported.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

import bench_peers
import numpy as np

from dpaudit.core.files import write_text
from dpaudit.core.streams import stream_key
from dpaudit.data.ratings import Ratings
from dpaudit.defenses.item_item.similarities import Cosine, SlopeOne
from dpaudit.kernels import exact_noise, noise
from dpaudit.reports.render.markdown import table_text
from dpaudit.reports.table import NONE, Table

CANARIES, DELTA, ALPHA = 20_000, 1e-5, 0.05
DRAWS = (256, 4096)
REPEATS = 7  # of what has no peer
PAGE = """\
# Speed

Written by `python bench/speed.py docs/results/speed.md`, which needs
`python3 -m pip install '.[bench]'`.

Each row was timed in one run, in turn with its peer, on one thread: medians, and the median ratio.
Peers that take over ten seconds are called once.

## Statistics of a data set

Item-item statistics of MovieLens-1M. Their peak memory: Slope One {slope_one:.0f} MiB, cosine \
{cosine:.0f} MiB.

{statistics}

What a run takes on 20 million ratings, and how what does not fit the memory is refused:
[big data](../guides/big-data.md).

## Bounds

Bounds on ε. The one-run figure of jax-privacy includes its search over thresholds.

{bounds}

## Noise

2²⁰ numbers. Noise that a claim rests on is drawn exactly; the bits of numpy's reveal what it was
added to. Other noise is drawn faster.

{noise}
"""


class Case(NamedTuple):
    """What is timed: its name, our call, the peer's, its name, and how often each is called."""

    name: str
    ours: Callable[[], Any]
    theirs: Callable[[], Any] | None = None
    peer: str = NONE
    repeats: int = REPEATS

    def row(self, most: int) -> list[str]:
        """Time both in turn, `most` times at most, after one call of ours that compiles."""
        turns = range(min(self.repeats, most))
        bench_peers.seconds(self.ours)
        if self.theirs is None:
            mine = [bench_peers.seconds(self.ours) for _ in turns]
            return [self.name, NONE, f"{statistics.median(mine):.4f}", NONE, NONE]
        pairs = [(bench_peers.seconds(self.ours), bench_peers.seconds(self.theirs)) for _ in turns]
        our, their = (statistics.median(column) for column in zip(*pairs, strict=True))
        ratio = statistics.median(their / our for our, their in pairs)
        return [self.name, self.peer, f"{our:.4f}", f"{their:.4f}", f"{ratio:.1f}"]


def main(place: Path, ratings: Ratings, scores: int = 2_000_000, most: int = 30) -> None:
    """Time all, each call `most` times at most, and write the page."""
    bought = bench_peers.purchases(ratings)
    memory = {
        "slope_one": bench_peers.peak(lambda: SlopeOne(epsilon=1.0).prepare(ratings)),
        "cosine": bench_peers.peak(lambda: Cosine(epsilon=1.0).prepare(bought)),
    }
    parts = {
        "statistics": similarities(ratings, bought),
        "bounds": bounds(scores),
        "noise": draws(),
    }
    tables = {part: markdown(cases, most) for part, cases in parts.items()}
    write_text(place, PAGE.format(**memory, **tables))


def markdown(cases: Iterator[Case], most: int) -> str:
    """Return the table of some cases."""
    header = ["", "peer", "dpaudit, s", "peer, s", "times faster"]
    return table_text(Table(caption="", header=header, cells=[case.row(most) for case in cases]))


def similarities(ratings: Ratings, bought: Ratings) -> Iterator[Case]:
    """Yield Slope One and the cosine of items beside Surprise, scipy and implicit."""
    table = bench_peers.matrix(bought)
    model, trainset = bench_peers.surprise_slope_one(ratings)

    def cosine() -> object:
        return Cosine(epsilon=1.0).prepare(bought)

    yield Case(
        "Slope One",
        lambda: SlopeOne(epsilon=1.0).prepare(ratings),
        lambda: model.fit(trainset),
        "Surprise",
        1,
    )
    yield Case("cosine", cosine, lambda: bench_peers.scipy_cosine(table), "scipy", 9)
    yield Case(
        "cosine, 20 neighbours", cosine, lambda: bench_peers.implicit_cosine(table), "implicit", 9
    )


def bounds(scores: int) -> Iterator[Case]:
    """Yield bounds on ε beside jax-privacy."""
    from dpaudit.bounds.frequentist.labels import label_epsilon
    from dpaudit.bounds.frequentist.likelihood import two_sample_epsilon
    from dpaudit.bounds.frequentist.one_run import one_run_epsilon
    from dpaudit.bounds.gdp import one_run_gdp_epsilon

    rng = np.random.default_rng(1)
    absent = rng.normal(size=scores // 2)
    present = rng.normal(size=scores // 2) + 1
    included = rng.normal(size=CANARIES // 2) + 1
    left_out = rng.normal(size=CANARIES // 2)
    correct = int((included > 0.5).sum() + (left_out <= 0.5).sum())
    tested = {"delta": DELTA, "alpha": ALPHA}

    def their_one_run() -> object:
        from jax_privacy.auditing import CanaryScoreAuditor

        return CanaryScoreAuditor(included, left_out).epsilon_one_run_fdp(ALPHA, DELTA)

    yield Case(
        "one-run f-DP, m = 20 000",
        lambda: one_run_gdp_epsilon(CANARIES, CANARIES, correct, **tested),
        their_one_run,
        "jax-privacy",
        3,
    )
    yield Case("label test, 2e6 scores", lambda: label_epsilon(absent, present, delta=DELTA))
    yield Case(
        "two-sample form, 2e5 runs", lambda: two_sample_epsilon(present[:100_000], absent[:100_000])
    )
    yield Case(
        "one run, m = 20 000", lambda: one_run_epsilon(CANARIES, CANARIES, correct, delta=DELTA)
    )


def draws() -> Iterator[Case]:
    """Yield noise beside numpy's."""
    key, trials = stream_key(1, "bench"), np.arange(DRAWS[0], dtype=np.int64)
    rng = np.random.default_rng(1)
    exact, fast = np.empty(DRAWS), np.empty(DRAWS, np.float32)
    for name, law, out, theirs in (
        ("exact Laplace", exact_noise.laplace, exact, rng.laplace),
        ("exact normal", exact_noise.normal, exact, rng.standard_normal),
        ("other normal", noise.normal, fast, rng.standard_normal),
    ):
        yield Case(
            name,
            lambda law=law, out=out: law(out, trials, 0, key),
            lambda theirs=theirs: theirs(size=DRAWS),
            "numpy",
            30,
        )


if __name__ == "__main__":
    main(Path(sys.argv[1]), bench_peers.ml_1m_ratings())
