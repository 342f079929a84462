"""Deletion: a model is trained with what is to be forgotten, forgets it, and then shows itself."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from dpaudit.core.membership import Unlearning
from dpaudit.core.streams import generator
from dpaudit.data.interactions import Interactions
from dpaudit.data.ratings import Ratings
from dpaudit.recommenders.base import Answer, Deletion, Indices, Query, Wrapper


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


@runtime_checkable
class ForgetsUsers(Protocol):
    """A trained model that can forget whole users."""

    def forget_users(self, users: Indices, seed: int) -> Any:
        """Return the model without some users.

        Args:
            users: the users whose whole histories are forgotten, increasing `(n,)`.
            seed: decides everything that is random.
        """
        ...


@dataclass(frozen=True, eq=False)
class Forgetting(Wrapper):
    """Train on all that is given, let the model forget the targets among it, and ask it then.

    If the deletion is exact, what it shows has the law of a training without the targets, whatever
    targets were there: so no attacker tells which were.

    Attributes:
        method: how it forgets.
        targets: users × items, nonzero where an interaction is to be forgotten `(N, M)`.
        requests: the number of requests, among which these are divided at random, one after the
            other. A user of whom nothing stays is in one of them as a whole, so there are at most
            as many requests as such users and other interactions.
    """

    method: Unlearning
    targets: csr_array
    requests: int = 1

    def answer(self, interactions: Interactions, seed: int, query: Query) -> Answer:
        """Train, forget, and show what is asked; see `Trainable.answer`.

        Raises:
            ConfigError: the model cannot forget by this method, or as `answer` of what is trained.
            RunError: the training fails, or what the model shows cannot be used.
        """
        rows = interactions.ratings
        gone = self.gone(rows)
        if gone.any() and self.method != "retrain":
            requests = self._divided(rows, seed)
            return self.trainable.answer_without(interactions, requests, seed, query)
        after = replace(query, before=False)
        answer = self.trainable.answer(Interactions.of(rows, ~gone), seed, after)
        if not query.before:
            return answer
        before = answer.scores
        if gone.any():
            before = self.trainable.scored(interactions, seed, query)
        return answer._replace(before=before)

    def gone(self, rows: Ratings) -> NDArray[np.bool_]:
        """Mark the interactions that are forgotten `(R,)`."""
        gone: NDArray[np.bool_] = np.asarray(self.targets[rows.user, rows.item]).reshape(-1) != 0
        return gone

    def turns(self, rows: Ratings, seed: int) -> NDArray[np.int64]:
        """Return the request, from 0, that has each interaction of a training, or -1 `(R,)`."""
        gone = self.gone(rows)
        stays = np.bincount(rows.user[~gone], minlength=rows.n_users) > 0
        row = np.flatnonzero(gone)
        user = rows.user[row]
        # A user of whom nothing stays asks once, and for other interactions one by one.
        _, part = np.unique(np.where(stays[user], rows.n_users + row, user), return_inverse=True)
        count = int(part.max(initial=-1)) + 1
        order = np.arange(count) * min(self.requests, count) // max(count, 1)
        turns = np.full(len(rows), -1)
        turns[row] = generator(seed, "deletion requests").permutation(order)[part]
        return turns

    def _divided(self, rows: Ratings, seed: int) -> list[Deletion]:
        turns = self.turns(rows, seed)
        requests, left = [], np.ones(len(rows), np.bool_)
        for turn in range(int(turns.max()) + 1):
            here = turns == turn
            left[here] = False
            pairs = np.stack((rows.user[here], rows.item[here]), axis=1)
            requests.append(Deletion(self.method, Interactions.of(rows, left.copy()), pairs))
        return requests
