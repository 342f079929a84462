"""What trainings show of assumptions that a published claim rests on and that nothing enforces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dpaudit.auditor.result import Measurement
from dpaudit.bounds.estimate import Estimate
from dpaudit.data.ratings import Ratings
from dpaudit.defenses.sgd_similarity import SgdSimilarity
from dpaudit.defenses.similarity_checks import shortfalls
from dpaudit.releases import Streams

# Rows of similarities that are looked at, evenly spread, and trainings of each.
_ROWS, _WORLDS = 200, 4


def assumptions(
    label: str, defenses: Sequence[Any], ratings: Ratings, seed: int
) -> list[Measurement]:
    """How often `|S_i| I_u < C` in the first and the last step of Algorithm 1 as published.

    Args:
        label: of the model.
        defenses: the model at each ε.
        ratings: what is learned from.
        seed: decides the streams.

    Raises:
        RunError: a training diverged.
    """
    found = []
    streams = Streams.first(seed, "assumptions", _WORLDS)
    for defense in defenses:
        if not isinstance(defense, SgdSimilarity) or defense.variant != "published":
            continue
        prepared = defense.prepare(ratings)
        items = np.unique(np.linspace(0, prepared.n_items - 1, _ROWS).astype(np.int32))
        first, last = shortfalls(defense, prepared, streams, items)
        for counted in (first, last) if defense.steps > 1 else (first,):
            words = f"counted among {counted.of} predictions in {_WORLDS} trainings"
            found.append(
                Measurement(
                    metric="assumption.denominator",
                    model=label,
                    epsilon=defense.epsilon,
                    estimate=Estimate.exact(counted.share, words),
                    step=counted.step,
                )
            )
    return found
