"""Scores of trained models: errors of ratings, or hits of lists."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit.auditor.top_lists import most_popular, ndcg, precision_and_recall
from dpaudit.audits.trained.errors import (
    KINDS,
    Numbers,
    Probe,
    errors,
    guessed,
    largest_errors,
    recoverable,
    recovered,
)
from dpaudit.data.folds import Fold
from dpaudit.data.ratings import Ratings
from dpaudit.defenses.base import TrainedDefense


@dataclass(frozen=True)
class Scores:
    """The scores of models of one kind.

    Attributes:
        kinds: names of two scores, on test ratings and of recovered ratings or items.
        more: names of further scores on test ratings.
        recovery_kinds: names of further scores of recovered ratings.
        sign: 1 if less is better (errors), −1 if more is better (hits).
        tested: makes the probe of a fold's test ratings, whose numbers are `kinds` and `more`.
        most: computes the largest possible value of each of these numbers.
        recovered: makes the probe of an attack on parts (masks `(R,)`) of the sensitive ratings,
            whose numbers of each part are `kinds` and `recovery_kinds`.
        recoverable: computes the largest possible value of each of these numbers of a part.
        guessed: computes the scores of guessing sensitive ratings without a model.
    """

    kinds: tuple[str, str]
    more: tuple[str, ...]
    recovery_kinds: tuple[str, ...]
    sign: float
    tested: Callable[[Fold], Probe]
    most: Callable[[Fold], Numbers]
    recovered: Callable[[Any, Ratings, Sequence[NDArray[np.bool_]]], Probe]
    recoverable: Callable[[Ratings, NDArray[np.bool_]], Numbers]
    guessed: Callable[[Ratings], Numbers]


def scores_of(defense: TrainedDefense[Any], k: int) -> Scores:
    """Return the scores of a defense: errors, or hits of lists of length k if it ranks."""
    if not defense.ranks:
        probes = errors, largest_errors, recovered, recoverable, guessed
        return Scores(KINDS, (), ("accuracy",), 1.0, *probes)

    def tested(fold: Fold) -> Probe:
        users = np.unique(fold.users)

        def probe(models: Any) -> Numbers:
            lists = models.top(users, k, fold.train.by_user)
            hits = _hits(lists, users, fold.users, fold.items)
            return np.column_stack([hits, ndcg(lists, users, fold.users, fold.items)])

        return probe

    def listed(attack: Any, ratings: Ratings, parts: Sequence[NDArray[np.bool_]]) -> Probe:
        shared, users, _ = _kept(ratings, np.logical_or.reduce(parts))
        kept = [ratings.only(part) for part in parts]

        def probe(models: Any) -> Numbers:
            release = models.public(np.arange(ratings.n_items, dtype=np.int32))
            lists = attack.lists(release, shared, users, k, held=ratings)
            hits = [_hits(lists, users, part.user, part.item) for part in kept]
            return np.concatenate(hits, axis=1)

        return probe

    def popular(ratings: Ratings) -> Numbers:
        shared, users, kept = _kept(ratings, ratings.kept_private)
        lists = most_popular(shared, users, k)[None]
        return _hits(lists, users, kept.user, kept.item)[0]

    def most(_: Fold) -> Numbers:
        return np.ones(3)

    def at_most(_: Ratings, __: NDArray[np.bool_]) -> Numbers:
        return np.ones(2)

    hits = ("precision", "recall")
    return Scores(hits, ("ndcg",), (), -1.0, tested, most, listed, at_most, popular)


def _kept(
    ratings: Ratings, wanted: NDArray[np.bool_]
) -> tuple[Ratings, NDArray[np.int32], Ratings]:
    """Return the shared ratings, the users with wanted ratings, and the wanted ratings."""
    kept = ratings.only(wanted)
    return ratings.shared, np.unique(kept.user), kept


def _hits(
    lists: NDArray[np.int32],
    users: NDArray[np.int32],
    liked_by: NDArray[np.int32],
    liked: NDArray[np.int32],
) -> Numbers:
    return np.stack(precision_and_recall(lists, users, liked_by, liked), axis=1)
