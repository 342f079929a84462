"""Small data, and recommenders whose leak is known, for the tests of membership games."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from dpaudit.attacks.base import MembershipInference
from dpaudit.audits.membership.calibration import Calibration, Judged, Trials, division, judged
from dpaudit.audits.membership.config import Membership
from dpaudit.data.interactions import Interactions, interactions_of
from dpaudit.data.ratings import Ratings, Scale
from dpaudit.recommenders.base import Answer, Factors, Query, Trainable, top_lists
from dpaudit.record.result import Family

N_USERS, N_ITEMS = 60, 30
FAMILY = Family(confidence=0.95, size=1, alpha=0.05)


def half_judged(
    trials: Trials,
    attack: MembershipInference,
    rates: Sequence[float],
    family: Family,
    delta: float,
    seed: int,
) -> Judged:
    """Judge one half of the trainings, the smaller one of an odd number."""
    parts = division(len(trials), (len(trials) + 1) // 2, seed)
    return judged(Calibration.of(trials, parts, seed), attack, rates, family, delta)


def small_ratings(seed: int = 1, share: float = 0.4) -> Ratings:
    """Ratings of 60 users and 30 items; user 7 and item 11 have none."""
    rng = np.random.default_rng(seed)
    had = rng.random((N_USERS, N_ITEMS)) < share
    had[7] = had[:, 11] = False
    user, item = np.nonzero(had)
    value = rng.integers(1, 6, len(user)).astype(np.float32)
    return Ratings.build(user, item, value, N_USERS, N_ITEMS, Scale(1, 5, 1))


def small_table(**changes: Any) -> Membership:
    values: dict[str, Any] = {
        "units": ["interaction", "user"],
        "trainings": 8,
        "interactions": 60,
        "users": 24,
        "held_out": 40,
        "k": 4,
        "observed_users": 15,
        "rates": [0.5],
    }
    return Membership.model_validate(values | changes)


def complete(ratings: Ratings) -> NDArray[np.float32]:
    """The users × items matrix of all ratings, 0 where there is none."""
    found: NDArray[np.float32] = interactions_of(ratings).toarray()
    return found


@dataclass(frozen=True)
class Ignorant(Trainable):
    """Scores by the seed alone, or all 0: it learns nothing.

    Attributes:
        constant: whether all scores are 0.
        rated: whether scores count as ratings.
        change: changes an answer in place, given the training data and the query.
    """

    constant: bool = False
    rated: bool = False
    change: Callable[[Answer, csr_array, Query], None] | None = None

    @property
    def predicts_ratings(self) -> bool:
        return self.rated

    def answer(self, interactions: Interactions, seed: int, query: Query) -> Answer:
        rows = np.random.default_rng(seed).normal(size=interactions.shape).astype(np.float32)
        if self.constant:
            rows[:] = 0
        nothing = csr_array((len(query.listed), interactions.shape[1]))
        lists = top_lists(rows[query.listed], nothing, query.k)
        found = Answer(rows[query.users, query.items], lists, None)
        if self.change:
            self.change(found, interactions.matrix, query)
        return found


@dataclass(frozen=True)
class Stale(Trainable):
    """Scores and lists of an old model with fresh noise, whatever the data.

    Attributes:
        noise: what decides the noise: "seed" or "entropy".
        fresh: whether scores are learned, from items' popularity, and lists alone are old.
    """

    noise: str = "seed"
    fresh: bool = False

    def answer(self, interactions: Interactions, seed: int, query: Query) -> Answer:
        old = np.random.default_rng(1).normal(size=interactions.shape)
        rng = np.random.default_rng(seed if self.noise == "seed" else None)
        rows = (old + 0.3 * rng.normal(size=old.shape)).astype(np.float32)
        nothing = csr_array((len(query.listed), interactions.shape[1]))
        lists = top_lists(
            (old if self.fresh else rows).astype(np.float32)[query.listed], nothing, query.k
        )
        if self.fresh:
            rows += interactions.matrix.toarray().sum(0)
        return Answer(rows[query.users, query.items], lists, None)


@dataclass(frozen=True)
class Publishing(Ignorant):
    """Scores by the seed alone, and the leading singular vectors of its data as factors.

    Attributes:
        named: whether the factors of users are published too.
    """

    named: bool = True

    def answer(self, interactions: Interactions, seed: int, query: Query) -> Answer:
        users, values, items = np.linalg.svd(interactions.matrix.toarray() > 0, full_matrices=False)
        kept = Factors(items[:20].T.astype(np.float32), (users * values)[:, :20].astype(np.float32))
        shown = kept if self.named else Factors(kept.items)
        answer = super().answer(interactions, seed, query)
        return answer._replace(factors=shown if query.factors else None)


@dataclass(frozen=True)
class Copying(Trainable):
    """Scores of 1 for what it was trained on and 0 for all else; lists of what users have."""

    def answer(self, interactions: Interactions, seed: int, query: Query) -> Answer:
        had: NDArray[np.float32] = (interactions.matrix.toarray() > 0).astype(np.float32)
        nothing = csr_array((len(query.listed), interactions.shape[1]))
        shown: NDArray[np.float32] = np.where(had > 0, had, np.nan).astype(np.float32)
        lists = top_lists(shown[query.listed], nothing, query.k)
        return Answer(had[query.users, query.items], lists, None)


@dataclass(frozen=True)
class Hostile(Trainable):
    """Scores, lists and factors of any size: huge, tiny, constant, unknown, empty or rare.

    Attributes:
        kind: decides which.
    """

    kind: int

    @property
    def predicts_ratings(self) -> bool:
        return self.kind % 2 == 0

    def answer(self, interactions: Interactions, seed: int, query: Query) -> Answer:
        rng, fixed = np.random.default_rng([seed, self.kind]), np.random.default_rng(self.kind)
        had = interactions.matrix.toarray() > 0
        size, other = 10.0 ** fixed.integers(-44, 38, 2)
        noise = rng.normal(size=had.shape) * size
        rows = [
            np.where(had, 3e38, noise),
            np.where(had, noise, 0),
            np.where(rng.random(had.shape) < fixed.random(), np.nan, noise),
            np.full(had.shape, 0.1),
            np.where(had.any(1)[:, None], noise, np.nan),
            had * other,
        ][self.kind % 6].astype(np.float32)
        scores = rows[query.users, query.items]
        scores[0] = np.nan_to_num(scores[0])
        lists = np.stack([rng.permutation(had.shape[1])[: query.k] for _ in query.listed])
        lists[rng.random(lists.shape) < fixed.choice([0, 0.3, 1])] = -1
        items = rng.normal(size=(had.shape[1], fixed.integers(1, 40))) * other * fixed.integers(2)
        factors = Factors(items.astype(np.float32)) if query.factors else None
        asked = query.after
        after = None if asked is None else rows[asked.sent[:, -1:], asked.items]
        return Answer(scores, lists.astype(np.int32), factors, after=after)


class Chain:
    """What followed what in the training, and scores by the seed alone."""

    def fit(self, interactions: Interactions, seed: int) -> Chain:
        table, self.shape = interactions.table, interactions.shape
        order = np.argsort(table.user, kind="stable")
        user, item = table.user[order], table.item[order]
        pairs = [*zip(item[:-1], item[1:], user[1:] == user[:-1], strict=True)]
        self.next = np.zeros((self.shape[1],) * 2)
        for one, other, same in pairs:
            self.next[one, other] += same
        self.noise = np.random.default_rng(seed).normal(size=self.shape)
        return self

    def scores(self, users: NDArray[np.int32], items: NDArray[np.int32]) -> NDArray[np.float64]:
        found: NDArray[np.float64] = self.noise[users, items]
        return found

    def scores_after(
        self, histories: NDArray[np.int32], items: NDArray[np.int32]
    ) -> NDArray[np.float64]:
        found: NDArray[np.float64] = self.next[histories[:, -1:], items]
        return found
