"""One training of an audit of attributes: train, ask about every user, and guess.

A training has all users, or all but one fold that is guessed. The users of a fold that it lacks
stay in the data as users without interactions or features, so it answers about them as about
someone new. The attacker learns from the answers about the users who are not guessed, whom all
trainings have.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dpaudit.attacks.attributes import Features, indicators, probabilities
from dpaudit.auditor.no_model import attempted
from dpaudit.audits.attributes.config import Seen
from dpaudit.audits.attributes.labels import FOLDS, Attribute, Folds, guessed
from dpaudit.core.errors import ConfigError
from dpaudit.core.streams import generator
from dpaudit.data.interactions import Interactions, interactions_of
from dpaudit.data.ratings import Ratings
from dpaudit.recommenders.base import Answer, Query, Trainable
from dpaudit.recommenders.checks import checked_answer

Guesses = NDArray[np.float64]

# The most items whose scores are asked: those with the most interactions.
_SCORED = 2000
# The fold of a training that lacks none.
WHOLE = -1


@dataclass(frozen=True, eq=False)
class Training:
    """The work of one training; a pure function of its index and of the fold that it lacks.

    Attributes:
        trainable: what is trained.
        ratings: the data.
        attributes: what is guessed.
        folds: the fold of each user `(N,)`.
        observers: what of the answers is seen.
        k: the length of lists.
        seed: the run's seed.
    """

    trainable: Trainable
    ratings: Ratings
    attributes: Sequence[Attribute]
    folds: Folds
    observers: Sequence[Seen]
    k: int
    seed: int

    def __call__(self, part: tuple[int, int]) -> Guesses:
        """Train, and return the probabilities of classes `(S, n, ΣC)`; NaN without a model.

        They are of the users of the lacking fold in their order, or of all who are guessed if none
        is lacking, for each of the S observers; the attributes' classes stand side by side.

        Args:
            part: the index of the training, and the fold that it lacks, or `WHOLE`.
        """
        return attempted(lambda: self._trained(*part), np.full((1, 1, 1), np.nan))

    def _trained(self, index: int, lacking: int) -> Guesses:
        child = index * (FOLDS + 1) + lacking + 1
        seed = int(generator(self.seed, "attributes seed", child=child).integers(2**31))
        query = self._query
        answer = self.trainable.answer(self._data(lacking), seed, query)
        checked = checked_answer(answer, query, (self.ratings.n_users, self.ratings.n_items))
        every = [self._features(observer, checked) for observer in self.observers]
        asked = asked_in(self.folds, lacking)
        return np.stack([guesses_of(seen, self.attributes, self.folds, asked) for seen in every])

    def _data(self, lacking: int) -> Interactions:
        absent = self.folds == lacking
        frame = self.ratings.user_features
        features = (
            None if frame is None else frame.mask(np.broadcast_to(absent[:, None], frame.shape))
        )
        rows = ~absent[self.ratings.user]
        return Interactions.of(replace(self.ratings.only(rows), user_features=features))

    @property
    def _query(self) -> Query:
        users = np.arange(self.ratings.n_users, dtype=np.int32)
        none = np.empty(0, np.int32)
        scored, listed = "scores" in self.observers, "own-list" in self.observers
        raters = np.bincount(self.ratings.item, minlength=self.ratings.n_items)
        items = np.argsort(-raters, kind="stable")[:_SCORED].astype(np.int32)
        return Query(
            np.repeat(users, len(items)) if scored else none,
            np.tile(items, len(users)) if scored else none,
            users if listed else none,
            min(self.k, self.ratings.n_items),
            "factors" in self.observers,
        )

    def _features(self, observer: Seen, answer: Answer) -> Features:
        if observer == "own-list":
            return indicators(answer.lists, self.ratings.n_items)
        if observer == "scores":
            return answer.scores.reshape(self.ratings.n_users, -1)
        if answer.factors is None or answer.factors.users is None:
            raise ConfigError(
                "attributes.observers has 'factors', and the model publishes none of users: remove "
                "it there"
            )
        return answer.factors.users


def asked_in(folds: Folds, lacking: int) -> NDArray[np.int64]:
    """Return the users whom a training's guesses are about `(n,)`."""
    return np.flatnonzero(guessed(folds) if lacking == WHOLE else folds == lacking)


def of_history(ratings: Ratings, attributes: Sequence[Attribute], folds: Folds) -> Guesses:
    """Return the same attacker's probabilities from users' interactions `(n, ΣC)`."""
    history = interactions_of(ratings)
    history.data[:] = 1
    return guesses_of(history, attributes, folds, asked_in(folds, WHOLE))


def guesses_of(
    seen: Features, attributes: Sequence[Attribute], folds: Folds, asked: NDArray[np.int64]
) -> Guesses:
    """Return the probabilities of classes of the asked users, by what the others show `(n, ΣC)`."""
    parts = []
    for attribute in attributes:
        known = np.flatnonzero(~guessed(folds) & attribute.known)
        count = len(attribute.counts)
        parts.append(probabilities(seen[known], attribute.classes[known], seen[asked], count))
    return np.concatenate(parts, axis=1)
