"""Deletion: a model is trained with what is to be forgotten, forgets it, and then shows itself."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from scipy.sparse import csr_array

from dpaudit.core.streams import generator
from dpaudit.data.interactions import Interactions
from dpaudit.recommenders.base import Answer, Deletion, Indices, Query, Trainable


@runtime_checkable
class Forgets(Protocol):
    """A trained model that can forget."""

    def forget(self, interactions: Indices, seed: int) -> Any:
        """Return the model without some interactions.

        Args:
            interactions: the pairs (user, item) to forget `(n, 2)`.
            seed: decides everything that is random.
        """
        ...


@dataclass(frozen=True, eq=False)
class Forgetting(Trainable):
    """Train on all that is given, let the model forget the targets among it, and ask it then.

    If the deletion is exact, what it shows has the law of a training without the targets, whatever
    targets were there: so no attacker tells which were.

    Attributes:
        trainable: what is trained.
        method: how it forgets.
        targets: users × items, nonzero where an interaction is to be forgotten `(N, M)`.
        requests: the number of requests, at most that of the interactions, among which these are
            divided at random; they are forgotten one after the other.
    """

    trainable: Trainable
    method: str
    targets: csr_array
    requests: int = 1

    @property
    def predicts_ratings(self) -> bool:
        """Whether scores are predicted ratings."""
        return self.trainable.predicts_ratings

    @property
    def leaves_out(self) -> Collection[str]:
        """What it cannot show."""
        return self.trainable.leaves_out

    def answer(self, interactions: Interactions, seed: int, query: Query) -> Answer:
        """Train, forget, and show what is asked; see `Trainable.answer`.

        Raises:
            ConfigError: the model cannot forget by this method, or as `answer` of what is trained.
            RunError: the training fails, or what the model shows cannot be used.
        """
        rows = interactions.ratings
        gone = np.asarray(self.targets[rows.user, rows.item]).reshape(-1) != 0
        if self.method == "retrain":
            return self.trainable.answer(Interactions.of(rows, ~gone), seed, query)
        if not gone.any():
            return self.trainable.answer(interactions, seed, query)
        order = generator(seed, "deletion requests").permutation(np.flatnonzero(gone))
        requests, left = [], np.ones(len(rows), np.bool_)
        for part in np.array_split(order, min(self.requests, len(order))):
            left[part] = False
            pairs = np.stack((rows.user[part], rows.item[part]), axis=1)
            stays = Interactions.of(rows, left.copy())
            requests.append(Deletion(self.method, stays, pairs))
        return self.trainable.answer_without(interactions, requests, seed, query)
