"""Observers of a trained model: of its published part and of what another user is shown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.errors import ConfigError
from dpaudit.core.releases import ItemList, Observer, Predictions, PreparedPair, TargetUser, View
from dpaudit.core.streams import Streams
from dpaudit.defenses.base import TrainedDefense
from dpaudit.kernels.lanes import LANES

P = TypeVar("P")


def release_observers(defense: TrainedDefense[P], published: type | None) -> dict[str, Observer[P]]:
    """Build the observers of the final model.

    `public` sees the published part of the model. `values` and `list` see the predictions and the
    list that another user is shown.

    Args:
        defense: the defense that is trained.
        published: the type that `public` of its models returns; None if no model is published.
    """

    def observer(kind: type, words: str, release: Any) -> Observer[P]:
        def views(pair: PreparedPair[P], trained: P, streams: Streams) -> Iterator[View]:
            yield View(release(defense.train(trained, streams), pair), pair.target)

        return Observer((kind, TargetUser), views, words, purpose="release", block=LANES)

    observers = {
        "values": observer(Predictions, "predictions shown to another user", _values),
        "list": observer(ItemList, "the list shown to another user", _ranked),
    }
    if published is None:
        return observers
    return {"public": observer(published, "the published model", _public), **observers}


def _public(models: Any, pair: PreparedPair[Any]) -> Any:
    return models.public(pair.items)


def _values(models: Any, pair: PreparedPair[Any]) -> Predictions:
    shown = _predicted(models, pair, pair.items)
    return Predictions(np.broadcast_to(pair.items, shown.shape), shown)


def _ranked(models: Any, pair: PreparedPair[Any]) -> ItemList:
    if len(pair.unrated) < 2:
        raise ConfigError(
            "observe = 'list' needs two items that the observing user has not rated, and there "
            f"are only {len(pair.unrated)}: use observe = 'values'"
        )
    # Ties are broken by the lower item index.
    order = np.argsort(-_predicted(models, pair, pair.unrated), axis=1, kind="stable")
    return ItemList(pair.unrated[order[:, : pair.top_k]])


def _predicted(
    models: Any, pair: PreparedPair[Any], items: NDArray[np.int32]
) -> NDArray[np.float32]:
    if pair.target is None:
        raise TypeError("pair.target is None: it names the observing user")
    observer = np.full(len(items), pair.target.observer, np.int32)
    shown: NDArray[np.float32] = models.predict(observer, items)
    return shown
