"""How good the networks of `torch` are with their default settings, beside published figures.

    python -m pip install '.[torch]' && DPAUDIT_DATA=… python bench/published.py [MODEL …]

On MovieLens-100K, means over all users who have what is tested; lists of ten leave out what was
trained on.

- *random*: a quarter of each user's ratings is tested. The published figures are those of the
  comparison in the README of recommenders-team/recommenders (75/25, k = 10, 15 epochs).
- *last*: the last interaction of each user is tested, against all items; once with their order in
  time, and once with the times of each user's other interactions in a random order.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

# One thread for every library, before any of them is imported.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

import numpy as np

from dpaudit.data.interactions import Interactions
from dpaudit.data.ratings import Ratings
from dpaudit.data.readers.load import load
from dpaudit.data.source import DataSource
from dpaudit.data.source_parts import FeatureSource
from dpaudit.recommenders.base import top_lists
from dpaudit.recommenders.networks.settings import DEFAULTS, Name, Settings
from dpaudit.recommenders.networks.training import trained_model

# nDCG and recall of ten items.
PUBLISHED = {"lightgcn": "0.420 0.144", "ncf": "0.396 0.181"}
K = 10


def quality(lists: np.ndarray, tested: list[np.ndarray]) -> str:
    """nDCG and recall of lists, means over users."""
    discounts = 1 / np.log2(np.arange(2, K + 2))
    gains, shares = [], []
    for items, wanted in zip(lists, tested, strict=True):
        right = np.isin(items, wanted)
        gains.append(discounts[right].sum() / discounts[: len(wanted)].sum())
        shares.append(right.sum() / len(wanted))
    return f"{np.mean(gains):.3f} {np.mean(shares):.3f}"


def judged(
    label: str,
    ratings: Ratings,
    tested: np.ndarray,
    model: Name | None = None,
    settings: Settings | None = None,
    published: str = "",
) -> None:
    """Train a model, or the most popular items, on what is not tested, and print its quality."""
    data = Interactions.of(ratings, ~tested)
    users = np.unique(ratings.user[tested]).astype(np.int32)
    wanted = [ratings.item[tested & (ratings.user == user)] for user in users]
    start = time.perf_counter()
    if model is None or settings is None:
        counts = np.bincount(data.table.item, minlength=data.shape[1]).astype(np.float32)
        lists = top_lists(np.tile(counts, (len(users), 1)), data.matrix[users], K)
    else:
        device = os.environ.get("DPAUDIT_DEVICE", "cpu")
        lists = trained_model(model, settings, data, 1, device).recommend(users, K)
    seconds = time.perf_counter() - start
    assert not data.matrix[users[:, None], lists].sum()
    print(f"{label:<28}{quality(lists, wanted):<15}{published:<15}{seconds:.0f}", flush=True)


def shuffled(ratings: Ratings, tested: np.ndarray, rng: np.random.Generator) -> Ratings:
    """The same ratings, with the times of each user's that are not tested in a random order."""
    if ratings.time is None:
        raise ValueError("the ratings have no times")
    times = ratings.time.copy()
    for user in range(ratings.n_users):
        rows = np.flatnonzero((ratings.user == user) & ~tested)
        times[rows] = rng.permutation(times[rows])
    return replace(ratings, time=times)


def movielens() -> Ratings:
    """MovieLens-100K with times and what is known of users."""
    files = Path(os.environ["DPAUDIT_DATA"]) / "ml-100k"
    users = FeatureSource(
        format="delimited",
        path=str(files / "u.user"),
        delimiter="|",
        id=0,
        columns={"age": 1, "gender": 2, "occupation": 3},
    )
    path = str(files / "u.data")
    return load(DataSource(format="movielens-100k", path=path, timed=True, users=users))


def main(models: Mapping[Name, Settings], ratings: Ratings) -> None:
    """Print the quality of every model."""
    rng = np.random.default_rng(1)
    place = rng.random(len(ratings))
    order = np.lexsort((place, ratings.user))
    starts = np.searchsorted(ratings.user[order], np.arange(ratings.n_users + 1))
    ranks = np.empty(len(ratings), np.int64)
    ranks[order] = np.arange(len(ratings)) - starts[ratings.user[order]]
    random = ranks < np.round(np.diff(starts) / 4)[ratings.user]
    by_time = np.lexsort((ratings.item, ratings.time, ratings.user))
    last = np.zeros(len(ratings), np.bool_)
    last[by_time[starts[1:] - 1]] = True
    print(f"{'random':<28}{'nDCG recall':<15}{'published':<15}seconds")
    judged("most popular", ratings, random)
    for model, settings in models.items():
        if settings.length is None:
            judged(model, ratings, random, model, settings, PUBLISHED.get(model, ""))
    print(f"{'last':<28}{'nDCG hits':<15}{'':<15}seconds")
    judged("most popular", ratings, last)
    for model, settings in models.items():
        judged(model, ratings, last, model, settings)
        if settings.length is not None:
            mixed = shuffled(ratings, last, rng)
            judged(f"{model}, times shuffled", mixed, last, model, settings)


if __name__ == "__main__":
    asked = sys.argv[1:] or DEFAULTS
    main({name: DEFAULTS[name] for name in DEFAULTS if name in asked}, movielens())
