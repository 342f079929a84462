"""What trainings of `torch` cost, one by one and side by side.

    python -m pip install '.[torch]' && DPAUDIT_DATA=… python bench/networks.py [MODEL …]

For every model the processor's seconds of one training on MovieLens-100K, on one
thread, if 1, 8 or 64 are trained side by side, in turn with one alone; then how many times less
that is. Each training has one epoch, and 99 % of the interactions, others in each. The machine's
load stands first: other work slows both, not always alike.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

# One thread for every library, before any of them is imported.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

import numpy as np

from dpaudit.data.interactions import Interactions
from dpaudit.data.ratings import Ratings
from dpaudit.data.readers.load import load
from dpaudit.data.source import DataSource
from dpaudit.recommenders.base import RowModel
from dpaudit.recommenders.networks.settings import DEFAULTS, Name
from dpaudit.recommenders.networks.training import trained_models


def seconds(call: Callable[[], list[RowModel]]) -> tuple[float, float, list[RowModel]]:
    """Seconds of the processor and of the clock of one call, and its models."""
    cpu, wall = time.process_time(), time.perf_counter()
    models = call()
    return time.process_time() - cpu, time.perf_counter() - wall, models


def movielens() -> Ratings:
    """MovieLens-100K with times."""
    path = Path(os.environ["DPAUDIT_DATA"]) / "ml-100k" / "u.data"
    return load(DataSource(format="movielens-100k", path=str(path), timed=True))


def main(
    models: Sequence[Name], ratings: Ratings, device: str, widths: Sequence[int] = (1, 8, 64)
) -> None:
    """Print the seconds of one training of one epoch; each model is the one trained alone."""
    rng = np.random.default_rng(1)
    kept = rng.random((max(widths), len(ratings))) < 0.99
    users = np.arange(ratings.n_users, dtype=np.int32)
    data = [Interactions.of(ratings, rows) for rows in kept]
    load_average = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    print(f"{len(ratings):,} ratings, {device}; load {load_average}", flush=True)
    print("model      side by side  seconds of a training  wall   one by one is slower by")
    for model in models:
        settings = replace(DEFAULTS[model], epochs=1)
        alone = partial(trained_models, model, settings, data[:1], range(1), device)
        [first] = alone()
        for width in widths:
            stacked = partial(trained_models, model, settings, data[:width], range(width), device)
            before, together, after = seconds(alone), seconds(stacked), seconds(alone)
            beside = together[2][0].rows(users)
            np.testing.assert_allclose(beside, first.rows(users), rtol=1e-3, atol=1e-3)
            cpu, wall = (part / width for part in together[:2])
            ratio = min(before[0], after[0]) / cpu
            print(f"{model:<11}{width:<14}{cpu:<23.3f}{wall:<7.3f}{ratio:.2f}", flush=True)


if __name__ == "__main__":
    main(
        [name for name in DEFAULTS if name in sys.argv[1:] or len(sys.argv) == 1],
        movielens(),
        os.environ.get("DPAUDIT_DEVICE", "cpu"),
    )
