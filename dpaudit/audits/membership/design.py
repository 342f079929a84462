"""What a membership game decides before any training: held-out data, targets, coins, questions.

Targets are drawn at random, or are canaries that a model is likely to remember. Groups of them say
who is hit hardest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from dpaudit.attacks.base import Covariates
from dpaudit.attacks.membership.features import Known, Pairs, Users
from dpaudit.attacks.membership.low_rank import Questions
from dpaudit.audits.membership import histories
from dpaudit.audits.membership.config import FEWEST_HELD_OUT, Membership
from dpaudit.core.errors import ConfigError, DataError
from dpaudit.core.membership import Unit
from dpaudit.core.releases import Profile
from dpaudit.core.streams import generator
from dpaudit.data.interactions import Interactions, interactions_of
from dpaudit.data.ratings import Ratings
from dpaudit.data.readers.cells import in_unit_of
from dpaudit.recommenders.base import Query, Trainable
from dpaudit.recommenders.forgetting import Forgetting
from dpaudit.recommenders.histories import Histories

Mask = NDArray[np.bool_]
Rows = NDArray[np.int64]

# The number of surrogate models, that of their factors, and the index of the first: none of the
# audit's own trainings has its coins.
_SURROGATES, _SURROGATE, _FURTHER = 4, 16, 10**9
# Folds of the held-out interactions, by which utility has an interval, and which searches share.
FOLDS = 20
# The most values of a column whose users are groups.
_VALUES = 10


def held_out(ratings: Ratings, table: Membership, draw: Rows) -> Rows:
    """Return the rows that no training has, in any order.

    Args:
        ratings: the data.
        table: says which, and how many.
        draw: all rows in random order.

    Raises:
        DataError: the data have no times, or nothing happened since then, or too few users have
            two interactions.
    """
    if table.held_out_from is None and table.hold == "random":
        return draw[: table.held_out]
    key = "hold = 'last'" if table.held_out_from is None else "held_out_from"
    if ratings.time is None:
        raise DataError(
            f"membership.{key} needs to know when interactions happened, and the data have no "
            "times: name them in data.columns.time, or remove it"
        )
    if table.held_out_from is not None:
        start = in_unit_of(ratings.time, table.held_out_from)
        late = np.flatnonzero(ratings.time >= start)
        first, last = ratings.time.min(), ratings.time.max()
        if np.isnan(start):
            raise DataError(
                f"membership.held_out_from = {table.held_out_from:.17g} is a date or a time since "
                f"1970, and the times of the data, {first:.17g} to {last:.17g}, are none: give a "
                "number between these"
            )
        if len(late) < FEWEST_HELD_OUT:
            raise DataError(
                f"{len(late)} interactions happened since membership.held_out_from = "
                f"{start:.17g}, too few to measure utility, as times go from "
                f"{first:.17g} to {last:.17g}: set an earlier one"
            )
        return late
    place = np.empty(len(draw), np.int64)
    place[draw] = np.arange(len(draw))
    # Of each user's rows the last in time, and of those at one time a random one.
    order = np.lexsort((place, ratings.time, ratings.user))
    ends = np.cumsum(np.bincount(ratings.user, minlength=ratings.n_users))
    sizes = np.diff(ends, prepend=0)
    last = order[ends[sizes > 1] - 1]
    if len(last) < table.held_out:
        raise DataError(
            f"{len(last)} users have two interactions or more, too few for membership.held_out = "
            f"{table.held_out} with hold = 'last': lower it"
        )
    return last[np.argsort(place[last])][: table.held_out]


def chosen_rows(ratings: Ratings, able: Rows, draw: str, count: int) -> Rows:
    """Return which rows are targets, increasing `(count,)`.

    Canaries are taken in rounds, none of which has a user or an item twice: two targets of one item
    hide each other, since what a model shows of the item depends on both coins.

    The data and the seed decide the choice, no coin and no training.

    Args:
        ratings: the data.
        able: the rows that may be targets, at least `count`, in random order.
        draw: `random`; `rare-items`, those of the items with the fewest interactions first; or
            `out-of-profile`, those least like the rest of their user's history first.
        count: the number of targets, at least 1.
    """
    if draw == "random":
        return np.sort(able[:count])
    if draw == "rare-items":
        counts = np.bincount(ratings.item, minlength=ratings.n_items)
        order = np.argsort(counts[ratings.item[able]], kind="stable")
    else:
        order = np.argsort(likeness(ratings)[able], kind="stable")
    return np.sort(_in_rounds(ratings, able[order], count))


def _in_rounds(ratings: Ratings, rows: Rows, count: int) -> Rows:
    """Return the first rows whose users and items are new, then the first of the others, and so on.

    Args:
        ratings: the data.
        rows: the rows, those to prefer first.
        count: how many to return, at most as many as there are.
    """
    chosen: list[int] = []
    while True:
        users: set[int] = set()
        items: set[int] = set()
        others: list[int] = []
        for row, user, item in zip(rows, ratings.user[rows], ratings.item[rows], strict=True):
            if user in users or item in items:
                others.append(row)
                continue
            chosen.append(row)
            if len(chosen) == count:
                return np.array(chosen)
            users.add(user)
            items.add(item)
        rows = np.array(others)


def likeness(ratings: Ratings) -> NDArray[np.float64]:
    """Return each rating's mean cosine with the other items of its user `(R,)`; 0 without others.

    Cosines of items are by who has them. Σ_j cos(i, j) = x_i · Σ_j x_j for unit columns x, so the
    sum over a history is one product of its user's sum with the item's column.
    """
    history = interactions_of(ratings)
    history.data[:] = 1
    sizes = np.bincount(history.indices, minlength=ratings.n_items)
    columns = history.multiply(1 / np.sqrt(np.maximum(sizes, 1))).tocsr()
    cosines = np.empty(len(ratings))
    start = ratings.by_user.start
    by_item = columns.T.tocsr()
    for user in range(ratings.n_users):
        rows = slice(int(start[user]), int(start[user + 1]))
        items = by_item[ratings.item[rows]]
        total = np.asarray(items.sum(0)).reshape(-1)
        others = max(1, items.shape[0] - 1)
        # An item's cosine with itself is 1.
        cosines[rows] = (items @ total - 1) / others
    return cosines


def fake_users(ratings: Ratings, count: int, seed: int) -> Ratings:
    """Append fake users, whose histories have as few items in common as possible.

    Items are dealt at random like cards: no item comes twice before there are too few for another
    history. Each history has as many items as make all of them disjoint, but at least 5 and at most
    those of the median user; all have the largest rating. The real data stay as they are.

    Args:
        ratings: the data.
        count: number of fake users.
        seed: of the draws.
    """
    active = np.diff(ratings.by_user.start)
    median = max(5, int(np.median(active[active > 0])))
    size = min(ratings.n_items, max(5, min(median, ratings.n_items // count)))
    hands = ratings.n_items // size
    deals = [
        generator(seed, "membership fake users", child=deal)
        .permutation(ratings.n_items)[: hands * size]
        .reshape(hands, size)
        for deal in range(-(-count // hands))
    ]
    values = np.full(size, ratings.scale.maximum, np.float32)
    items = np.sort(np.concatenate(deals)[:count], axis=1).astype(np.int32)
    return ratings.with_users([Profile(hand, values) for hand in items])


def users_by(ratings: Ratings, columns: Sequence[str]) -> Mapping[str, Mask]:
    """Return the users with each value of some columns of their features.

    Args:
        ratings: the data.
        columns: the columns' names.

    Returns:
        Masks of the users `(N,)` by name of the group, such as `gender = F`. Users without a value
        are in no group.

    Raises:
        ConfigError: users have no features, or not this column, or it has too many values.
    """
    groups: dict[str, Mask] = {}
    for column in columns:
        table = ratings.user_features
        if table is None:
            raise ConfigError(
                f"membership.groups names {column!r}, and users have no features: name their "
                "table in [data.users]"
            )
        if column not in table.columns:
            raise ConfigError(
                f"membership.groups names {column!r}, which [data.users] does not read: it has "
                f"{', '.join(map(str, table.columns))}"
            )
        values = table[column].dropna().unique().tolist()
        if len(values) > _VALUES:
            raise ConfigError(
                f"membership.groups names {column!r}, which has {len(values)} values: name a "
                f"column with {_VALUES} at most"
            )
        groups |= {f"{column} = {value}": (table[column] == value).to_numpy() for value in values}
    return dict(sorted(groups.items()))


Indices = NDArray[np.int32]

# The largest share of the ratings, or of the users, that may be targets or held out. Of the users
# who are no targets, as many may be observed.
_SHARE = 0.5
# Items of a target user's history, and as many others, whose scores are asked.
_ASKED = 20
# The most scores that whoever asks for rows asks, and the most known members among their pairs.
_MOST_SCORES, _MOST_MEMBERS = 4_000_000, 4000


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
        thrown: the seed of the coins and of the trainings' own seeds; None for the run's.
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
    thrown: int | None = None

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
        drawn = (held, rows, users, observed, k, passed_over, groups)
        return cls(ratings, seed, *drawn, table.coins)

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
        stream = generator(self._thrown, "membership coins", child=training)
        return stream.integers(0, 2, len(self.rows) + len(self.users)).astype(np.bool_)

    def present(self, trainings: int, unit: Unit) -> Mask:
        """Return whether each target of a unit is in the data of each training `(T, m)`."""
        tossed = np.stack([self.coins(t) for t in range(trainings)])
        cut = len(self.rows)
        return tossed[:, :cut] if unit == "interaction" else tossed[:, cut:]

    def training_seed(self, training: int) -> int:
        """Return the seed that a training's recommender gets, 0 to 2^31 - 1."""
        return int(generator(self._thrown, "membership seed", child=training).integers(2**31))

    @property
    def _thrown(self) -> int:
        return self.seed if self.thrown is None else self.thrown

    @cached_property
    def folds(self) -> Indices:
        """In which fold each held-out interaction is `(p,)`, 0 to 19; a user's are in one."""
        order = generator(self.seed, "membership held-out folds").permutation(self.ratings.n_users)
        return (order % FOLDS)[self.ratings.user[self.held]].astype(np.int32)

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
        kept[self.held] = kept[self.rows] = False
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

    def covariates(self, unit: Unit, *, surrogates: bool = False) -> Covariates:
        """Return log popularity of items and log activity of users, in what the attacker knows.

        Of target users it is the mean log popularity of their items; they have no population.

        Args:
            unit: what a target is.
            surrogates: whether interactions have the score of surrogate models beside these.
        """
        history = self.knowledge.history
        popular = np.log1p(np.bincount(history.indices, minlength=history.shape[1]))
        active = np.log1p(np.diff(history.indptr))
        if unit == "user":
            sizes = np.maximum(np.diff(history.indptr)[self.users], 1)
            had = (history[self.users] @ popular) / sizes
            return Covariates(np.stack((had, active[self.users]), axis=1), np.empty((0, 2)))
        of = self.tested
        both = np.stack((popular[of.items], active[of.users]), axis=1)
        if surrogates:
            both = np.column_stack((both, self.surrogate))
        targets, population = np.split(both, [len(self.rows)])
        return Covariates(targets, population, int(surrogates))

    @cached_property
    def surrogate(self) -> NDArray[np.float64]:
        """The mean score of each tested pair by truncated singular value decompositions `(n,)`.

        They are trained with coins of their own, and the mean is over those without the pair. It is
        what a cheap model, trained on data like these, says of a target that it does not know.
        """
        from scipy.sparse.linalg import svds

        users, items, _ = self.tested
        scores, without = np.zeros((2, len(users)))
        start = np.ones(min(self.ratings.n_users, self.ratings.n_items))
        factors = min(_SURROGATE, len(start) - 1)
        for training in range(_SURROGATES):
            kept = self.kept(_FURTHER + training)
            vectors, weights, others = svds(
                interactions_of(self.ratings, kept).astype(np.float64), k=factors, v0=start
            )
            absent = np.ones(len(users), np.bool_)
            absent[: len(self.rows)] = ~kept[self.rows]
            score = np.einsum("nd,dn->n", (vectors * weights)[users], others[:, items])
            scores += np.where(absent, score, 0)
            without += absent
        never = without == 0
        means: NDArray[np.float64] = scores / np.maximum(without, 1)
        means[never] = means[~never].mean()
        return means

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
    def histories(self) -> Histories:
        """What is sent to every trained model of sequences: of the tested, then of their users."""
        return histories.asked(self.ratings, self.known, self.tested, self.tested_users, self.seed)

    @cached_property
    def questions(self) -> Questions:
        """What is asked of a trained model by whoever asks for rows; see `low_rank`.

        The scores of all items for all users, if these are few enough; else of all users and items
        whose pairs are tested for some users and some items, drawn at random.
        """
        data, tested, of_users = self.ratings, self.tested, self.tested_users
        stream = generator(self.seed, "membership rows asked")
        stays = np.flatnonzero(self.known & ~np.isin(data.user, self.users))
        row = np.sort(stream.permutation(stays)[:_MOST_MEMBERS])
        members = Pairs(data.user[row], data.item[row], data.value[row])
        owners, items = np.repeat(self.users, _ASKED), of_users.held.reshape(-1)
        # Rows are ordered by user, then item.
        keys, asked = (
            users.astype(np.int64) * data.n_items + of
            for users, of in ((data.user, data.item), (owners, items))
        )
        histories = Pairs(owners, items, data.value[np.searchsorted(keys, asked)])
        outside = np.arange(len(self.rows), len(tested.users))
        outside = outside[~np.isin(tested.users[outside], self.users)]
        every = members, tested, histories
        users = np.unique(np.concatenate([pairs.users for pairs in every]))
        active = np.union1d(users, data.user[self.known])
        columns = np.arange(data.n_items, dtype=np.int32)
        if len(active) * len(columns) <= _MOST_SCORES:
            rows = users = active
            landmarks = np.arange(len(columns))
        else:
            columns = np.unique(np.concatenate([pairs.items for pairs in every]))
            able = np.setdiff1d(active, self.users)
            half = _MOST_SCORES // 2
            rows = np.sort(stream.permutation(able)[: max(1, half // len(columns))])
            drawn = stream.permutation(len(columns))[: max(1, half // len(users))]
            landmarks = np.sort(drawn)
        return Questions(
            self.knowledge,
            tested,
            histories,
            outside,
            members,
            rows,
            columns,
            users,
            landmarks,
            _ASKED,
        )

    @cached_property
    def query(self) -> Query:
        """What is asked of every trained model."""
        of = self.tested_users
        repeated = np.repeat(self.users, _ASKED)
        users = np.concatenate((self.tested.users, repeated, repeated))
        items = np.concatenate((self.tested.items, of.held.reshape(-1), of.others.reshape(-1)))
        return Query(users, items, self.listed, self.k)


# The number of parts of the requests, of which the first and the last are compared.
_BATCHES = 10


def groups_of(design: Design, unit: Unit) -> Mapping[str, Mask]:
    """Return the thirds of targets with the most and the fewest interactions, and named groups.

    Users and items are counted in what the attacker knows, the same in every training.

    Returns:
        Masks of the targets `(m,)` by name of the group. Targets with the same count are in the
        same group, so a group may be larger or smaller than a third; an empty one is left out.
    """
    history, data, rows = design.knowledge.history, design.ratings, design.rows
    users = design.users if unit == "user" else data.user[rows]
    active = np.diff(history.indptr)
    masks = _thirds(active[users], "users with few interactions", "active users")
    if unit == "interaction":
        popular = np.bincount(history.indices, minlength=history.shape[1])
        masks |= _thirds(popular[data.item[rows]], "rare items", "popular items")
    masks |= {name: among[users] for name, among in design.groups.items()}
    return {name: among for name, among in masks.items() if among.any()}


def batches(
    design: Design, trainable: Trainable, unit: Unit, trainings: Sequence[int]
) -> Mapping[str, Mask]:
    """Return who is deleted first and last, to say whether the errors of a method add up.

    Args:
        design: the targets.
        trainable: what is trained.
        unit: what a target is.
        trainings: the trainings `(J,)`.

    Returns:
        Masks `(J, m)` of the targets in the first and the last tenth of the requests, each with all
        targets that are absent, by name of the group; none with fewer than ten requests.
    """
    if not isinstance(trainable, Forgetting) or trainable.requests < _BATCHES:
        return {}
    turns = np.stack([_turns(design, trainable, unit, training) for training in trainings])
    count = turns.max(1, keepdims=True) + 1
    first, last = turns < count / _BATCHES, turns >= count - count / _BATCHES
    masks = {"first tenth deleted": first, "last tenth deleted": last | (turns < 0)}
    return {name: among for name, among in masks.items() if (among & (turns >= 0)).any(1).all()}


def _turns(design: Design, trainable: Forgetting, unit: Unit, training: int) -> NDArray[np.int64]:
    """Return the request that deletes each target, -1 for one that is absent `(m,)`."""
    kept, data = design.kept(training), design.ratings
    turns = np.full(len(data), -1)
    turns[kept] = trainable.turns(data.only(kept), design.training_seed(training))
    if unit == "interaction":
        return turns[design.rows]
    of_user = np.full(data.n_users, -1)
    np.maximum.at(of_user, data.user, turns)
    return of_user[design.users]


def _thirds(counts: NDArray[np.integer], few: str, many: str) -> dict[str, Mask]:
    low, high = np.quantile(counts, (1 / 3, 2 / 3), method="inverted_cdf")
    return {few: counts <= low, many: counts > high}
