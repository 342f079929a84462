"""Records of the audited data, models and attacks."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.plugin import Plugin
from dpaudit.data.ratings import Ratings, Scale
from dpaudit.defenses.base import Defense
from dpaudit.record.result import ClaimRecord, DataRecord, ModelRecord, PointRecord

# The fewest users whose quantiles are recorded.
_FEWEST = 20


def data_record(ratings: Ratings, train: Ratings, *, attacked: int) -> DataRecord:
    """Record the sizes of the data and of its two groups of users: trained on, and attacked."""
    scale = ratings.scale
    counts = np.diff(train.by_user.start)
    counts = counts[counts > 0]
    return DataRecord(
        digest=ratings.digest,
        users=ratings.n_users,
        items=ratings.n_items,
        ratings=len(ratings),
        scale=(scale.minimum, scale.maximum, scale.step),
        trained=len(counts),
        attacked=attacked,
        links=None if ratings.friends is None else len(ratings.friends),
        sensitive=None if ratings.sensitive is None else int(ratings.sensitive.sum()),
        repairs={repair.what: repair.count for repair in ratings.repairs},
        per_user=_quantiles(counts),
    )


def _quantiles(counts: NDArray[np.int64]) -> tuple[int, int] | None:
    """Return the median and the 90 % quantile of users' numbers of ratings."""
    if len(counts) < _FEWEST:
        return None
    median, high = np.quantile(counts, (0.5, 0.9), method="inverted_cdf")
    return int(median), int(high)


def model_record(label: str, defense: Defense) -> ModelRecord:
    """Record a recommender with its hyper-parameters, without its ε."""
    return ModelRecord(
        label=label,
        defense=defense.name,
        title=defense.title,
        variant=defense.variant,
        source=defense.source,
        params={key: value for key, value in _parameters(defense).items() if key != "epsilon"},
        top_k=defense.list_length(),
    )


def point_record(label: str, defense: Defense, scale: Scale) -> PointRecord:
    """Record a recommender at its ε; sensitivity and scale are None without prediction noise."""
    claim, noise = defense.claim(), defense.noise_of_predictions(scale)
    return PointRecord(
        model=label,
        epsilon=defense.epsilon,
        sensitivity=noise.sensitivity if noise else None,
        noise_scale=noise.scale if noise else None,
        claim=claim and ClaimRecord(**asdict(claim)),
    )


def attack_record(attack: Plugin) -> dict[str, Any]:
    """Record an attack with its parameters."""
    return {
        "name": attack.name,
        "title": attack.title,
        "source": attack.source,
        **_parameters(attack),
    }


def _parameters(plugin: Any) -> dict[str, Any]:
    return asdict(plugin)
