"""Shards: one model for the users of each shard, so that a deletion trains few of them anew."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.errors import ConfigError
from dpaudit.core.streams import generator
from dpaudit.data.interactions import Interactions
from dpaudit.recommenders.base import Answer, Deletion, Query, Wrapper


@dataclass(frozen=True, eq=False)
class Sharded(Wrapper):
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
