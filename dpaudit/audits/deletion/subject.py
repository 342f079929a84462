"""Models that forget, as audits of trained models train, record and compare them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scipy.sparse import csr_array

from dpaudit.audits.deletion.config import Deletions
from dpaudit.recommenders.base import Trainable
from dpaudit.recommenders.forgetting import Forgetting, Sharded


def forgetting(trainable: Trainable, table: Deletions, targets: csr_array | None) -> Trainable:
    """Return what is trained and then forgets, as its table says.

    Args:
        trainable: what is trained.
        table: its table of the config.
        targets: users × items, nonzero for what is forgotten; None if nothing is.
    """
    if not table.forget or targets is None:
        return trainable
    return Forgetting(trainable, table.forget, targets, table.requests)


def traits_of(trainable: Trainable) -> dict[str, str]:
    """Return the traits of a model: `forget`, with its method, if it forgets all targets."""
    return {"forget": trainable.method} if isinstance(trainable, Forgetting) else {}


def recorded(trainable: Trainable) -> tuple[dict[str, str | int], Trainable]:
    """Return how a model forgets, as its parameters are recorded, and what is trained inside."""
    params: dict[str, str | int] = {}
    if isinstance(trainable, Forgetting):
        params, trainable = {"forget": trainable.method}, trainable.trainable
    if isinstance(trainable, Sharded):
        params, trainable = {**params, "shards": trainable.shards}, trainable.trainable
    return params, trainable


def compared(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return what two runs must agree on in a recorded table of a recommender."""
    return {"forget": table.get("forget") is not None, "requests": table.get("requests")}
