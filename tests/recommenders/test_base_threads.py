"""Libraries with process-wide random state give the same models on threads as one at a time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from dpaudit.core import registry
from dpaudit.data.interactions import Interactions
from dpaudit.data.ratings import Ratings, Scale
from dpaudit.recommenders.base import taken_by

SEEDS = range(8)


def data() -> Ratings:
    rng = np.random.default_rng(5)
    user, item = np.nonzero(rng.random((200, 80)) < 0.3)
    value = rng.integers(1, 6, len(user)).astype(np.float32)
    return Ratings.build(user, item, value, 200, 80, Scale(1, 5, 1))


@pytest.mark.long
@pytest.mark.parametrize(
    ("library", "parameters"),
    [
        ("cornac", {"model": "PMF"}),
        ("cornac", {"model": "NMF"}),
        ("lenskit", {"model": "FunkSVDScorer"}),
        ("torch", {"epochs": 1, "sampling_rate": 0.05}),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_threads_change_no_model(library: str, parameters: dict[str, Any]) -> None:
    pytest.importorskip(library)
    recommender, ratings = registry.create("recommenders", library, "x", parameters), data()
    users, items = (index.reshape(-1).astype(np.int32) for index in np.indices((200, 80)))

    def scores(seed: int) -> Any:
        given = taken_by(recommender.fit, Interactions.of(ratings))
        return recommender.fit(given, seed).scores(users, items)

    alone = [scores(seed) for seed in SEEDS]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(scores, SEEDS))
    for one, other in zip(alone, together, strict=True):
        np.testing.assert_array_equal(one, other)
