"""Similarity builds on the ML-1M shape, one thread each: ours against well-kept peers.

    python -m pytest bench -n 0 --benchmark-group-by=group

The column in brackets is the ratio to the fastest. `bench/speed.py` times each pair
in turn within one run.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from bench_peers import implicit_cosine, matrix, purchases, scipy_cosine, surprise_slope_one

from dpaudit.data.ratings import Ratings
from dpaudit.defenses.item_item.cosine import Cosine
from dpaudit.defenses.item_item.slope_one import SlopeOne


@pytest.mark.benchmark(group="Slope One, ML-1M")
def test_slope_one_dpaudit(benchmark: Any, ml_1m: Ratings) -> None:
    benchmark.pedantic(SlopeOne(epsilon=1).prepare, (ml_1m,), rounds=5, warmup_rounds=1)


@pytest.mark.benchmark(group="Slope One, ML-1M")
def test_slope_one_surprise(benchmark: Any, ml_1m: Ratings) -> None:
    model, trainset = surprise_slope_one(ml_1m)
    benchmark.pedantic(model.fit, (trainset,), rounds=1)


@pytest.mark.benchmark(group="cosine, ML-1M")
def test_cosine_dpaudit(benchmark: Any, ml_1m: Ratings) -> None:
    data = purchases(ml_1m)
    benchmark.pedantic(Cosine(epsilon=1).prepare, (data,), rounds=5, warmup_rounds=1)


@pytest.mark.benchmark(group="cosine, ML-1M")
def test_cosine_scipy(benchmark: Any, ml_1m: Ratings) -> None:
    benchmark.pedantic(scipy_cosine, (matrix(purchases(ml_1m)),), rounds=3, warmup_rounds=1)


@pytest.mark.benchmark(group="cosine, ML-1M")
def test_cosine_implicit(benchmark: Any, ml_1m: Ratings) -> None:
    benchmark.pedantic(implicit_cosine, (matrix(purchases(ml_1m)),), rounds=3, warmup_rounds=1)


def test_slope_one_agrees_with_surprise(ml_1m: Ratings) -> None:
    """The same deviations: eq. (3) without a threshold, where any user rated both."""
    few = ml_1m.user < 300
    data = Ratings.build(
        ml_1m.user[few],
        ml_1m.item[few],
        ml_1m.value[few],
        300,
        ml_1m.n_items,
        ml_1m.scale,
    )
    model, trainset = surprise_slope_one(data)
    model.fit(trainset)
    # φ = 1 shrunk divides by max(m, 1): eq. (3).
    ours = SlopeOne(epsilon=1, variant="corrected", similarity="shrunk", min_co_ratings=1)
    prepared = ours.prepare(data)
    inner = np.array([trainset.to_inner_iid(item) for item in np.unique(data.item)])
    items = np.unique(data.item)
    for item in items[:: len(items) // 50]:
        theirs = model.dev[:, trainset.to_inner_iid(item)]
        np.testing.assert_allclose(prepared.row(int(item))[items], theirs[inner], atol=1e-5)
