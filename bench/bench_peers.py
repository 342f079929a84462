"""The data and the peers that similarity builds are compared on, and how calls are measured."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from dpaudit.data.ratings import Ratings, Scale
from dpaudit.data.readers.load import load
from dpaudit.data.source import DataSource
from dpaudit.data.source_parts import SyntheticParams
from dpaudit.data.synthetic import generate


def seconds(call: Callable[[], Any]) -> float:
    """Wall-clock seconds of one call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def peak(call: Callable[[], Any]) -> float:
    """MiB by which a call's peak resident memory exceeds what was resident before (Linux)."""

    def resident(field: str) -> int:
        status = Path("/proc/self/status").read_text(encoding="ascii")
        return int(status.split(f"{field}:")[1].split()[0])

    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # forget the earlier peak
    before = resident("VmRSS")
    call()
    return (resident("VmHWM") - before) / 1024


def ml_1m_ratings() -> Ratings:
    """MovieLens-1M where DPAUDIT_DATA has it, else synthetic ratings of its shape."""
    folder = os.environ.get("DPAUDIT_DATA")
    path = Path(folder or "") / "ml-1m" / "ratings_no_timestamp.tsv.gz"
    if not folder or not path.exists():
        return generate(SyntheticParams(n_users=6040, n_items=3706, mean_per_user=165, seed=1))
    source = {
        "format": "delimited",
        "path": str(path),
        "delimiter": "\t",
        "columns": {"user": 0, "item": 1, "rating": 2},
        "scale": {},
    }
    return load(DataSource.model_validate(source))


def purchases(ratings: Ratings) -> Ratings:
    """Every rating as a purchase."""
    ones = np.ones(len(ratings), np.float32)
    return Ratings.build(
        ratings.user, ratings.item, ones, ratings.n_users, ratings.n_items, Scale(1, 1, 1)
    )


def surprise_slope_one(ratings: Ratings) -> tuple[Any, Any]:
    """Surprise's Slope One and its training set; `fit` is what is timed."""
    from surprise import SlopeOne

    return SlopeOne(), surprise_trainset(ratings)


def surprise_trainset(ratings: Ratings) -> Any:
    """The ratings as Surprise learns from them."""
    from surprise import Dataset
    from surprise.reader import Reader

    rows = zip(ratings.user, ratings.item, ratings.value, strict=True)
    data = Dataset(Reader(rating_scale=(ratings.scale.minimum, ratings.scale.maximum)))
    return data.construct_trainset([(int(u), int(i), float(r), None) for u, i, r in rows])


def matrix(ratings: Ratings) -> sparse.csr_matrix:
    """Users by items."""
    return sparse.csr_matrix(
        (ratings.value, (ratings.user, ratings.item)), (ratings.n_users, ratings.n_items)
    )


def scipy_cosine(table: sparse.csr_matrix) -> sparse.csr_matrix:
    """The full cosine matrix by sparse products."""
    degree = np.maximum(np.asarray(table.sum(0)).ravel(), 1)
    unit = table @ sparse.diags(1 / np.sqrt(degree)).astype(np.float32)
    return (unit.T @ unit).tocsr()


def implicit_cosine(table: sparse.csr_matrix) -> Any:
    """implicit's cosine recommender: the 20 nearest neighbours of each item."""
    from implicit.nearest_neighbours import CosineRecommender

    model = CosineRecommender(K=20, num_threads=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(table, show_progress=False)
    return model.similarity
