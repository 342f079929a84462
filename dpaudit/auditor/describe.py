"""What was audited, as it stands in the record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from dpaudit.auditor.result import ClaimRecord, DataRecord, ModelRecord, PointRecord
from dpaudit.data.ratings import Profile, Ratings, Scale
from dpaudit.defenses.item_item import ItemItem
from dpaudit.parts import Part


def data_record(ratings: Ratings, train: Ratings, attacked: Sequence[Profile]) -> DataRecord:
    """The data in numbers, with the two groups of users."""
    scale = ratings.scale
    return DataRecord(
        digest=ratings.digest,
        users=ratings.n_users,
        items=ratings.n_items,
        ratings=len(ratings),
        scale=(scale.minimum, scale.maximum, scale.step),
        trained=int((np.diff(train.by_user.start) > 0).sum()),
        attacked=len(attacked),
    )


def model_record(label: str, defense: ItemItem) -> ModelRecord:
    """A recommender with its hyper-parameters, whatever its ε."""
    return ModelRecord(
        label=label,
        defense=defense.name,
        title=defense.title,
        variant=defense.variant,
        source=defense.source,
        params={key: value for key, value in asdict(defense).items() if key != "epsilon"},
        top_k=defense.top_k,
    )


def point_record(label: str, defense: ItemItem, scale: Scale) -> PointRecord:
    """A recommender at its ε."""
    claim = defense.claim()
    return PointRecord(
        model=label,
        epsilon=defense.epsilon,
        sensitivity=defense.sensitivity(scale),
        noise_scale=defense.noise_scale(scale),
        claim=claim and ClaimRecord(**asdict(claim)),
    )


def attack_record(attack: Part) -> dict[str, Any]:
    """An attack with its parameters."""
    parameters: dict[str, Any] = asdict(attack)  # type: ignore[call-overload]
    return {
        "name": attack.name,
        "title": attack.title,
        "source": attack.source,
        **parameters,
    }
