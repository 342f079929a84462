"""Deletion: a model is trained with what is to be forgotten, forgets it, and then shows itself.

With one model for the users of each shard, few models are trained anew.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from dpaudit.core.errors import ConfigError
from dpaudit.core.membership import Unlearning
from dpaudit.core.streams import generator
from dpaudit.data.interactions import Interactions
from dpaudit.data.ratings import Ratings
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
class _Wrapper(Trainable):
    """What trains something else, and shows what that does.

    Attributes:
        trainable: what is trained.
    """

    trainable: Trainable

    @property
    def predicts_ratings(self) -> bool:
        """Whether scores are predicted ratings."""
        return self.trainable.predicts_ratings

    @property
    def leaves_out(self) -> Collection[str]:
        """What it cannot show."""
        return self.trainable.leaves_out


@dataclass(frozen=True, eq=False)
class Forgetting(_Wrapper):
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


@dataclass(frozen=True, eq=False)
class Sharded(_Wrapper):
    """Train a model on the users of each shard, and let a user's own one answer.

    Users are divided at random, by their index alone: neither the data nor the seed of a training
    decide a user's shard, and it is public. The division is that of SISA (Bourtoule et al. 2021,
    arXiv:1912.03817), by users; RecEraser (Chen et al. 2022, arXiv:2201.06820) puts like users
    together. Both aggregate all models; a factorisation has no factors of a user whom it was not
    trained on, so here no model but the user's own answers.

    To forget by `own`, the models of the shards concerned are trained anew on what stays, with
    their seed. Since a training is a function of its data and seed, this is bit by bit the training
    without what is forgotten, and is computed as such.

    Attributes:
        shards: the number of shards.
    """

    shards: int

    @property
    def leaves_out(self) -> Collection[str]:
        """What a model cannot show, and factors, which several do not have in common."""
        return {*self.trainable.leaves_out, "factors"}

    def of_users(self, count: int) -> NDArray[np.int64]:
        """Return the shard of each user `(N,)`; that of an index does not depend on their number.

        Args:
            count: the number of users.
        """
        return generator(0, "shards of users").integers(self.shards, size=count)

    def answer(self, interactions: Interactions, seed: int, query: Query) -> Answer:
        """Train a model a shard, and show what is asked; see `Trainable.answer`.

        Raises:
            ConfigError: factors are asked, a shard has no interactions, or as in `answer` of what
                is trained.
            RunError: as in `answer` of what is trained.
        """
        if query.factors:
            raise ConfigError(
                f"{self.shards} shards publish no common factors: remove the observers 'factors' "
                "and 'nearest-items', or recommender.shards"
            )
        scores = np.empty(len(query.users), np.float32)
        lists = np.empty((len(query.listed), query.k), np.int32)
        for own, pairs, listed in self._parts(interactions, query):
            part = replace(
                query,
                users=query.users[pairs],
                items=query.items[pairs],
                listed=query.listed[listed],
            )
            answer = self.trainable.answer(own, seed, part)
            scores[pairs], lists[listed] = answer.scores, answer.lists
        return Answer(scores, lists, None)

    def _parts(
        self, interactions: Interactions, query: Query
    ) -> Iterator[tuple[Interactions, NDArray[np.bool_], NDArray[np.bool_]]]:
        """Yield the interactions of each shard, and masks of its pairs and lists."""
        shard, rows = self.of_users(interactions.shape[0]), interactions.ratings
        for index in range(self.shards):
            among = shard == index
            kept = among[rows.user]
            if not kept.any():
                known = len(np.unique(rows.user))
                raise ConfigError(
                    f"recommender.shards = {self.shards}: one of them has no interactions, as "
                    f"{known} users have some: give fewer, such as {max(2, known // 10)}"
                )
            yield Interactions.of(rows, kept), among[query.users], among[query.listed]

    def answer_without(
        self, interactions: Interactions, requests: Sequence[Deletion], seed: int, query: Query
    ) -> Answer:
        """Train, forget, and show what is asked; see `Trainable.answer_without`.

        Raises:
            ConfigError: the method is not `own`, or as in `answer`.
            RunError: as in `answer`.
        """
        if requests[0].method != "own":
            return super().answer_without(interactions, requests, seed, query)
        answer = self.answer(requests[-1].kept, seed, query)
        if not query.before:
            return answer
        return answer._replace(before=self.scored(interactions, seed, query))
