"""The steps of `dpsgd-pnbm`, replayed by numpy: they release the kernels' rows, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import replays  # type: ignore[import-not-found]

from dpaudit.core.streams import Streams
from dpaudit.defenses import precision
from dpaudit.defenses.neighborhood.sgd import SgdSimilarity
from dpaudit.defenses.neighborhood.similarity import SimilarityData
from dpaudit.kernels.lane_noise import exact_laplace_lanes

F32, fma = np.float32, replays.fma
N, M = 30, 20
# Little noise has a fine grid, which shows small differences of the sums.
SHARED: dict[str, Any] = {"steps": 4, "more_than": 1, "sampling_rate": 0.5, "start": 0.1}
PUBLISHED = SgdSimilarity(1e4, **SHARED)
CORRECTED = SgdSimilarity(150.0, "corrected", clip_norm=0.6, **SHARED)


def slope(
    model: SgdSimilarity, data: SimilarityData, item: int, row: Any, t: int, taken: Any
) -> Any:
    """Return the sum of the gradients of the item's raters who take part, each clipped if so."""
    corrected = model.variant == "corrected"
    total = np.zeros(M, np.float64 if corrected else np.float32)
    bound = np.inf if corrected else model.largest_error(t, data.scale)
    for place, entry in enumerate(range(*data.entries(item).indices(len(data.targets)))):
        user = data.raters.column[entry]
        own = range(data.profiles.start[user], data.profiles.start[user + 1])
        others = [q for q in own if data.profiles.column[q] != item]
        top, weight = F32(0), F32(0)
        for q in others:
            s = row[data.profiles.column[q]]
            top, weight = fma(s, data.centred[q], top), weight + abs(s)
        inverse = F32(1) / max(weight, F32(1e-30))
        y = top * inverse
        scaled = np.clip(y - data.targets[entry], -F32(bound), F32(bound)) * inverse
        columns = data.profiles.column[others]
        changes = data.centred[others] - np.copysign(y, row[columns] * y)
        if corrected:
            norm = F32(0)
            for change in changes:
                norm += abs(change)
            norm *= abs(scaled)
            most = F32(model.clip_norm * (1 - precision.hair(len(own))) / len(own))
            scaled = scaled * most / max(norm, most)
        scaled *= taken[place, 0]
        moved = scaled * changes if corrected else fma(scaled, changes, total[columns])
        total[columns] = total[columns] + moved if corrected else moved
    return total


def replayed(model: SgdSimilarity, data: SimilarityData, item: int, streams: Streams) -> Any:
    """Yield the row of an item before the first step and after each."""
    row = np.full(M, model.rescale * model.start, np.float32)
    batches = model.batches(data, streams)
    yield row
    for t in range(1, model.steps + 1):
        entries = data.entries(item)
        units = data.raters.column[entries] if model.variant == "corrected" else entries
        assert batches is not None
        total = slope(model, data, item, row, t, batches.taken(t, units))
        scale = model.noise_scale(t, data.scale, M)
        step = precision.grid(scale)
        noise = replays.noise(exact_laplace_lanes, M, streams, 2 * t, item * data.row_space)
        noised = total + scale * noise
        shown = (np.rint(noised / step) * step).astype(np.float32)
        pull, gain = (F32(model.learning_rate * by) for by in (model.decay, model.rescale))
        row = row + fma(-gain, shown, row * -pull)
        yield row


@pytest.mark.parametrize("model", [PUBLISHED, CORRECTED], ids=["published", "corrected"])
def test_the_rows_are_replayed_bit_for_bit(model: SgdSimilarity) -> None:
    data, streams = model.prepare(replays.ratings(N, M)), Streams.first(3, "replay", 1)
    for item in (0, 7, M - 1):
        kernel = (row[:, 0].copy() for row in model.iterates(data, item, streams))
        for ours, theirs in zip(replayed(model, data, item, streams), kernel, strict=True):
            np.testing.assert_array_equal(ours, theirs)
