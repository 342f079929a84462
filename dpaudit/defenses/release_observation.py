"""Observers of a trained model: of what is published of it, and of what a user is shown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.errors import ConfigError
from dpaudit.core.observation import Observer, PreparedPair, View
from dpaudit.core.releases import ItemList, Predictions, TargetUser
from dpaudit.core.streams import Streams
from dpaudit.defenses.base import TrainedDefense
from dpaudit.kernels.lanes import LANES

P = TypeVar("P")


def release_observers(defense: TrainedDefense[P], published: type | None) -> dict[str, Observer[P]]:
    """Who sees the final model, `public`, or what it shows another user, `values` and `list`.

    Args:
        defense: what is trained.
        published: the type of what its models' `public` returns; None where no model is published.
    """

    def observer(kind: type, words: str, release: Any) -> Observer[P]:
        def views(pair: PreparedPair[P], trained: P, streams: Streams) -> Iterator[View]:
            yield View(release(defense.train(trained, streams), pair), pair.target)

        return Observer((kind, TargetUser), views, words, purpose="release", block=LANES)

    found = {
        "values": observer(Predictions, "predictions shown to another user", _values),
        "list": observer(ItemList, "the list shown to another user", _ranked),
    }
    if published is None:
        return found
    return {"public": observer(published, "the published model", _public), **found}


def _public(models: Any, pair: PreparedPair[Any]) -> Any:
    return models.public(pair.items)


def _values(models: Any, pair: PreparedPair[Any]) -> Predictions:
    shown = _predicted(models, pair, pair.items)
    return Predictions(np.broadcast_to(pair.items, shown.shape), shown)


def _ranked(models: Any, pair: PreparedPair[Any]) -> ItemList:
    if len(pair.unrated) < 2:
        raise ConfigError(
            "observe = 'list' needs two items that the watching user has not rated, and there "
            f"are {len(pair.unrated)}: use observe = 'values'"
        )
    # Of equal predictions the item of the lower index comes first.
    order = np.argsort(-_predicted(models, pair, pair.unrated), axis=1, kind="stable")
    return ItemList(pair.unrated[order[:, : pair.top_k]])


def _predicted(
    models: Any, pair: PreparedPair[Any], items: NDArray[np.int32]
) -> NDArray[np.float32]:
    if pair.target is None:
        raise TypeError("what is shown to a user needs a target user, who names the other one")
    watcher = np.full(len(items), pair.target.watcher, np.int32)
    shown: NDArray[np.float32] = models.predict(watcher, items)
    return shown
