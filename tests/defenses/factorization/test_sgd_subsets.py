"""Factorisations on subsets, trained together: each is the one that is trained alone."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from dpaudit.core.errors import ConfigError
from dpaudit.core.streams import Streams, stream_key
from dpaudit.data import Ratings, Scale
from dpaudit.data.interactions import interactions_of
from dpaudit.defenses.factorization.sampled import SampledFactors
from dpaudit.defenses.factorization.sgd import SgdFactors, SubsetModels
from dpaudit.kernels.lanes import LANES
from dpaudit.recommenders.base import top_lists

N, M = 60, 40
MODELS = {
    "plain": SgdFactors(math.inf, "nonprivate", dimensions=3, epochs=4),
    "published": SgdFactors(5.0, dimensions=4, epochs=4),
    "corrected": SgdFactors(5.0, "corrected", dimensions=3, epochs=4),
    "sampled users": SgdFactors(5.0, "corrected", dimensions=3, epochs=4, sampling_rate=0.5),
    "replaced users": SgdFactors(
        5.0, "corrected", dimensions=1, epochs=3, adjacency="user-replace"
    ),
}
TRIALS = np.array([2**31 - 1, 2**32 + 7, 2**40, *range(5, 18)], np.int64)


def ratings() -> Ratings:
    """Ratings on a scale that binary fractions do not hold, so that sums depend on the order."""
    source = np.random.default_rng(0)
    user, item = np.nonzero(source.random((N, M)) < 0.5)
    value = source.choice(np.array([1.1, 1.7, 2.3, 4.9], np.float32), len(user))
    return Ratings.build(user, item, value, N, M, Scale(1.0, 5.0, 0.1))


def coins(data: Ratings, count: int) -> NDArray[np.bool_]:
    """Subsets that differ in single rows and in whole users; some rows and users nobody has."""
    source = np.random.default_rng(1)
    kept = np.ones((LANES, len(data)), np.bool_)
    rows = source.choice(len(data), 150, replace=False)
    kept[:, rows] = source.random((LANES, len(rows))) < 0.5
    kept[:, rows[:20]] = False
    kept[:, data.user == 3] = False
    kept[::2, data.user == 4] = False
    kept[5] = True
    return kept[:count]


def trained(model: SgdFactors, count: int) -> tuple[Ratings, NDArray[np.bool_], SubsetModels]:
    data = ratings()
    kept = coins(data, count)
    streams = Streams(stream_key(1, "test"), TRIALS[:count])
    return data, kept, model.train_subsets(data, kept, streams)


@pytest.mark.long
@pytest.mark.parametrize("count", [LANES, 5, 1])
@pytest.mark.parametrize("name", MODELS)
def test_each_model_has_the_bits_of_the_one_trained_alone(name: str, count: int) -> None:
    model = MODELS[name]
    data, kept, models = trained(model, count)
    users, items = (side.reshape(-1).astype(np.int32) for side in np.indices((N, M)))
    shown = models.predict(users, items)
    assert shown.shape == (count, N * M)
    for w in range(count):
        stream = Streams(stream_key(1, "test"), TRIALS[w : w + 1])
        alone = model.train(model.prepare(data.only(kept[w])), stream)
        np.testing.assert_array_equal(models.block.users[:, :, w], alone.users[0][:, :, 0])
        np.testing.assert_array_equal(models.block.items[:, :, w], alone.items[0][:, :, 0])
        np.testing.assert_array_equal(shown[w], alone.predict(users, items)[0])


def test_coins_change_the_models() -> None:
    data, kept, models = trained(MODELS["plain"], 2)
    assert (kept[0] != kept[1]).any()
    same = replace(MODELS["plain"]).train_subsets(
        data, kept[[0, 0]], Streams(stream_key(1, "test"), TRIALS[[0, 0]])
    )
    np.testing.assert_array_equal(same.block.items[:, :, 0], same.block.items[:, :, 1])
    assert (models.block.items[:, :, 0] != models.block.items[:, :, 1]).mean() > 0.9


@pytest.mark.cases("k", [1, 7, M + 3])
def test_lists_are_the_best_predictions_of_what_the_subset_lacks(k: int) -> None:
    data, kept, models = trained(MODELS["published"], LANES)
    users = np.array([7, 3, 4, 59, 0], np.int32)
    pairs = np.repeat(users, M), np.tile(np.arange(M, dtype=np.int32), len(users))
    shown = models.predict(*pairs).reshape(LANES, len(users), M)
    lists = models.recommend(users, k)
    assert lists.dtype == np.int32
    assert lists.shape == (LANES, len(users), k)
    for w in range(LANES):
        seen = interactions_of(data, kept[w])[users]
        expected = top_lists(shown[w], seen, k)
        # Predictions differ in rounding, so neighbours on a list may swap.
        np.testing.assert_array_equal(lists[w] < 0, expected < 0)
        place = np.maximum(lists[w], 0), np.maximum(expected, 0)
        for scores, row, best in zip(shown[w], *place, strict=True):
            np.testing.assert_allclose(scores[row], scores[best], atol=1e-5)
        had = np.take_along_axis(seen.toarray(), place[0], axis=1) > 0
        assert not (had & (lists[w] >= 0)).any()


def test_only_models_that_train_together_train_on_subsets() -> None:
    large, other = replace(MODELS["plain"], dimensions=128), SampledFactors(1.0)
    data = ratings()
    streams = Streams(stream_key(1, "test"), TRIALS[:1])
    whole = np.ones((1, len(data)), np.bool_)
    assert MODELS["plain"].trains_subsets()
    assert not large.trains_subsets()
    with pytest.raises(ConfigError, match="trainings on subsets allow"):
        large.train_subsets(data, whole, streams)
    assert not other.trains_subsets()
    with pytest.raises(NotImplementedError, match="one data set at a time"):
        other.train_subsets(data, whole, streams)
    with pytest.raises(ConfigError, match="no ratings to learn from"):
        MODELS["plain"].train_subsets(data, ~whole, streams)
