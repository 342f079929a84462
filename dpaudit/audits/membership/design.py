"""What a membership game decides before any training: held-out data, targets, coins, questions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from dpaudit.attacks.membership.interactions import Pairs
from dpaudit.attacks.membership.known import Known
from dpaudit.attacks.membership.users import Users
from dpaudit.audits.membership.config import Membership
from dpaudit.audits.membership.targets import chosen_rows, fake_users, held_out, users_by
from dpaudit.core.errors import DataError
from dpaudit.core.membership import Unit
from dpaudit.core.streams import generator
from dpaudit.data.interactions import Interactions, interactions_of
from dpaudit.data.ratings import Ratings
from dpaudit.recommenders.base import Query

Mask = NDArray[np.bool_]
Rows = NDArray[np.int64]
Indices = NDArray[np.int32]

# The largest share of the ratings, or of the users, that may be targets or held out. Of the users
# who are no targets, as many may be observed.
_SHARE = 0.5
# Items of a target user's history, and as many others, whose scores are asked.
_ASKED = 20


@dataclass(frozen=True, eq=False)
class Design:
    """The targets of a membership game, and what is asked of every trained model.

    Attributes:
        ratings: the data.
        seed: the run's seed.
        held: rows that no training has, increasing `(p,)`.
        rows: rows of the target interactions, increasing `(m,)`.
        users: the target users, increasing `(u,)`; none of their interactions is a target.
        observed: the users whose lists an observer of others' lists sees, increasing `(w,)`. None
            of their interactions is a target: such a list may use its own user's data without
            protection, so it would show such a coin to an observer from whom it is protected.
        k: the length of lists.
        passed_over: how many interactions, and how many users, the draw of targets passed over
            that could have been targets; 0 where targets are chosen and not drawn at random.
        groups: masks of the users `(N,)` by the name of their group.
    """

    ratings: Ratings
    seed: int
    held: Rows
    rows: Rows
    users: Indices
    observed: Indices
    k: int
    passed_over: tuple[int, int] = (0, 0)
    groups: Mapping[str, Mask] = field(default_factory=dict)

    @classmethod
    def of(cls, ratings: Ratings, table: Membership, seed: int) -> Self:
        """Draw the held-out interactions and the targets.

        Raises:
            DataError: there are too few ratings or users.
            ConfigError: `table.groups` names a column that cannot make groups.
        """
        groups = users_by(ratings, table.groups)
        real = ratings.n_users
        count = len(ratings)
        draw = generator(seed, "membership rows").permutation(count)
        held = np.sort(held_out(ratings, table, draw))
        wanted = len(held) + table.targets("interaction") * ("interaction" in table.units)
        if wanted > _SHARE * count:
            asked = f"membership.held_out = {table.held_out}"
            if table.held_out_from is not None:
                asked = f"the {len(held)} since membership.held_out_from"
            if "interaction" in table.units:
                asked += f" and membership.interactions = {table.targets('interaction')}"
            raise DataError(
                f"{count} ratings are too few for {asked}, together at most half of them: lower "
                "these"
            )
        able = draw[~np.isin(draw, held)]
        active = np.unique(ratings.user[able]).astype(np.int32)
        users = cls._users(active, table, seed) if "user" in table.units else active[:0]
        if table.draw == "fake-users":
            # They come last, so rows of real users keep their place.
            ratings = fake_users(ratings, table.users, seed)
            users = np.arange(real, ratings.n_users, dtype=np.int32)
        observed = cls._observed(np.setdiff1d(active, users), table, seed)
        able = able[~np.isin(ratings.user[able], np.concatenate((users, observed)))]
        rows = cls._rows(ratings, able, table) if "interaction" in table.units else able[:0]
        k = min(table.k, ratings.n_items)
        others = len(able) - len(rows), len(active) - len(users)
        passed_over = others if table.draw == "random" else (0, 0)
        # Fake users are in no group.
        added = 0, ratings.n_users - real
        groups = {name: np.pad(among, added) for name, among in groups.items()}
        return cls(ratings, seed, held, rows, users, observed, k, passed_over, groups)

    @staticmethod
    def _users(active: Indices, table: Membership, seed: int) -> Indices:
        if table.users > _SHARE * len(active):
            raise DataError(
                f"{len(active)} users have ratings, too few for membership.users = {table.users}, "
                "at most half of them: lower it"
            )
        return np.sort(generator(seed, "membership users").permutation(active)[: table.users])

    @staticmethod
    def _observed(others: Indices, table: Membership, seed: int) -> Indices:
        most = max(1, int(_SHARE * len(others))) if "interaction" in table.units else len(others)
        drawn = generator(seed, "membership watchers").permutation(others)
        return np.sort(drawn[: min(most, table.observed_users)])

    @staticmethod
    def _rows(ratings: Ratings, able: Rows, table: Membership) -> Rows:
        targets = table.targets("interaction")
        if len(able) < targets:
            raise DataError(
                f"users who are neither targets nor observed have {len(able)} ratings that may be "
                "targets: lower membership.interactions, membership.users or "
                "membership.observed_users"
            )
        return chosen_rows(ratings, able, table.draw, targets)

    def count(self, unit: Unit) -> int:
        """Return the number of targets of a unit."""
        return len(self.rows) if unit == "interaction" else len(self.users)

    def others(self, unit: Unit) -> int:
        """Return how many of a unit could have been targets and are in every training."""
        return self.passed_over[0] if unit == "interaction" else self.passed_over[1]

    def coins(self, training: int) -> Mask:
        """Return whether each target is in the data of a training: interactions, then users."""
        stream = generator(self.seed, "membership coins", child=training)
        return stream.integers(0, 2, len(self.rows) + len(self.users)).astype(np.bool_)

    def present(self, trainings: int, unit: Unit) -> Mask:
        """Return whether each target of a unit is in the data of each training `(T, m)`."""
        tossed = np.stack([self.coins(t) for t in range(trainings)])
        cut = len(self.rows)
        return tossed[:, :cut] if unit == "interaction" else tossed[:, cut:]

    def training_seed(self, training: int) -> int:
        """Return the seed that a training's recommender gets, 0 to 2^31 - 1."""
        return int(generator(self.seed, "membership seed", child=training).integers(2**31))

    def kept(self, training: int) -> Mask:
        """Return mask of the rows of a training: no targets, and targets whose coin says so."""
        tossed, cut = self.coins(training), len(self.rows)
        kept = self.known.copy()
        kept[self.rows[tossed[:cut]]] = True
        out = self.users[~tossed[cut:]]
        return kept & ~np.isin(self.ratings.user, out)

    def data(self, training: int) -> Interactions:
        """Return the data of a training."""
        return Interactions.of(self.ratings, self.kept(training))

    @cached_property
    def known(self) -> Mask:
        """Mask of the rows that are neither held out nor target interactions."""
        kept = np.ones(len(self.ratings), np.bool_)
        kept[self.held] = False
        kept[self.rows] = False
        return kept

    @cached_property
    def targets(self) -> csr_array:
        """Users × items, 1 for target interactions and all those of target users `(N, M)`."""
        data, among = self.ratings, np.isin(self.ratings.user, self.users)
        among[self.rows] = True
        places = data.user[among], data.item[among]
        shape = data.n_users, data.n_items
        return csr_array((np.ones(int(among.sum()), np.int8), places), shape=shape)

    @cached_property
    def knowledge(self) -> Known:
        """What the attacker knows."""
        history = interactions_of(self.ratings, self.known)
        history.data[:] = 1
        places = np.searchsorted(self.listed, self.observed).astype(np.int32)
        return Known(history, self.listed, places)

    @cached_property
    def listed(self) -> Indices:
        """The users whose lists are asked, increasing."""
        asked = (self.ratings.user[self.rows], self.ratings.user[self.held])
        return np.unique(np.concatenate((*asked, self.users, self.observed))).astype(np.int32)

    @cached_property
    def tested(self) -> Pairs:
        """The target interactions, then the held-out ones."""
        rows = np.concatenate((self.rows, self.held))
        return Pairs(self.ratings.user[rows], self.ratings.item[rows], self.ratings.value[rows])

    @cached_property
    def tested_users(self) -> Users:
        """The target users, with items that they have and as many that they have not."""
        history = self.knowledge.history
        items, others = (np.empty((len(self.users), _ASKED), np.int32) for _ in range(2))
        for row, user in enumerate(self.users):
            had = history.indices[history.indptr[user] : history.indptr[user + 1]]
            stream = generator(self.seed, "membership items", child=int(user))
            items[row] = stream.choice(had, _ASKED)
            lacking = np.setdiff1d(np.arange(history.shape[1]), had)
            others[row] = stream.choice(lacking if len(lacking) else had, _ASKED)
        return Users(self.users, items, others, len(self.tested.users))

    @cached_property
    def query(self) -> Query:
        """What is asked of every trained model."""
        of = self.tested_users
        repeated = np.repeat(self.users, _ASKED)
        return Query(
            users=np.concatenate((self.tested.users, repeated, repeated)),
            items=np.concatenate((self.tested.items, of.held.reshape(-1), of.others.reshape(-1))),
            listed=self.listed,
            k=self.k,
        )
