"""The training data of social recommenders, and the noise of what users submit."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.errors import ConfigError
from dpaudit.data.ratings import Friends, Ratings
from dpaudit.defenses.factors import Indices
from dpaudit.defenses.training_checks import UserRows, columns_of
from dpaudit.kernels.social.preferences import cosines

if TYPE_CHECKING:
    from scipy.sparse import csr_array


@dataclass(frozen=True, eq=False)
class SocialRows(UserRows):
    """The ratings and the friends.

    Attributes:
        sensitive: `F_ij`: whether the user keeps the rating private `(R,)`.
        similarity: `S_if` of user i and their friend f, `(N, N)`.
        friends: `|F_i|`, the number of each user's friends `(N,)`.
    """

    sensitive: NDArray[np.bool_]
    similarity: csr_array
    friends: NDArray[np.int64]

    columns: ClassVar[tuple[str, ...]] = (*UserRows.columns, "sensitive")

    @classmethod
    def of(cls, ratings: Ratings, public: Ratings, social: bool) -> SocialRows:
        """Build the rows of `ratings`, with similarities of the shared ratings of `public`.

        Args:
            ratings: the training data.
            public: the data whose friends, and similarities of friends, count as public.
            social: whether friends are used.

        Raises:
            ConfigError: `social` is set and the data have no friends.
        """
        from scipy.sparse import csr_array

        n_users, links = ratings.n_users, public.friends
        if social and links is None:
            raise ConfigError(
                "the data have no friends, which params.social > 0 needs: set data.trust, or "
                "params.social = 0"
            )
        if not social or links is None:
            links, weights = Friends.none(n_users), np.zeros(0)
        else:
            weights = friends_similarity(public.shared, links)
        return cls(
            **columns_of(ratings),
            sensitive=ratings.kept_private,
            similarity=csr_array(
                (weights.astype(np.float32), links.friend, links.start), shape=(n_users, n_users)
            ),
            friends=np.diff(links.start),
        )

    @cached_property
    def raters(self) -> NDArray[np.int64]:
        """The number of each item's ratings that are not sensitive, and that are, `(2, M)`."""
        return np.stack(
            [
                np.bincount(self.items[self.sensitive == kind], minlength=self.n_items)
                for kind in (False, True)
            ]
        )


@dataclass(frozen=True, eq=False)
class Noise:
    """The noise on submissions and on messages between friends.

    Attributes:
        submitted: the variance of each coordinate of a submission for each item: first for ratings
            that are not sensitive, then for sensitive ones, `(2, M)`.
        sent: the variance of each message to each user from one of their friends `(N,)`.
        shared: whether `submitted` and `sent` are multiplied by exponential draws, one for each
            coordinate and round, shared by all who submit for an item or send to a user (Meng et
            al. 2018, Lemma 1).
        broadcast: the variance of the message that a user broadcasts in a round, the same to all
            whose friend they are; 0 if users do not broadcast.
    """

    submitted: NDArray[np.float64]
    sent: NDArray[np.float64]
    shared: bool
    broadcast: float = 0.0

    def of_rows(self, rows: SocialRows) -> NDArray[np.float64]:
        """The variance of each rating's submission, before shared draws, `(R,)`."""
        return self.submitted[rows.sensitive.astype(np.int64), rows.items]


def friends_similarity(ratings: Ratings, friends: Friends) -> NDArray[np.float64]:
    """Cosine similarity of the two users of each link over the items that both rated `(L,)`.

        S_if = Σ_j r_ij r_fj / √(Σ_j r_ij² Σ_j r_fj²),    j over the items that both rated,

    0 if there is none (Ma, Zhou, Liu, Lyu, King 2011, doi:10.1145/1935826.1935877, eq. (12)).

    Args:
        ratings: the ratings to use, such as the non-sensitive ones.
        friends: the links.
    """
    similarities = np.empty(len(friends))
    start, items, values = ratings.by_user
    cosines(start, items, values, friends.users, friends.friend, similarities)
    return similarities


Starts = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class PreferenceSets:
    """The items that users hold, P_i, and that their friends offer them, F_i.

    Attributes:
        held_start: P_i is `held[held_start[i]:held_start[i + 1]]`, `(N + 1,)`.
        held: the items of all P_i, increasing for each user `(R,)`.
        near_start: P_i ∪ F_i is `near[near_start[i]:near_start[i + 1]]`, `(N + 1,)`.
        near: the items of all P_i ∪ F_i, increasing for each user.
        places: the index of each item of `held` in the user's part of `near`, from 0, `(R,)`.
    """

    held_start: Starts
    held: Indices
    near_start: Starts
    near: Indices
    places: Indices

    @classmethod
    def of(cls, ratings: Ratings, offers: csr_array | None) -> PreferenceSets:
        """Build the sets from `ratings` and what friends offer `(N, M)`; F_i is empty if None."""
        near = _held(ratings)
        if offers is not None:
            near = near + offers
            near.sort_indices()
        start, held, _ = ratings.by_user
        near_start, items = near.indptr.astype(np.int64), near.indices.astype(np.int32)
        places = _places(start, held, near_start, items, ratings.n_items)
        return cls(start, held, near_start, items, places)

    def __len__(self) -> int:
        return len(self.held_start) - 1

    @property
    def columns(self) -> tuple[Starts, Indices, Starts, Indices]:
        """The arrays that the kernels take."""
        return self.held_start, self.held, self.near_start, self.near

    def of_user(self, user: int) -> tuple[Indices, Indices]:
        """Return P_i and P_i ∪ F_i of one user."""
        held = slice(self.held_start[user], self.held_start[user + 1])
        near = slice(self.near_start[user], self.near_start[user + 1])
        return self.held[held], self.near[near]

    def of_users(self, users: Indices) -> PreferenceSets:
        """Return the sets of only these users, renumbered in this order."""
        held_start, rows = _taken(self.held_start, users)
        near_start, near_rows = _taken(self.near_start, users)
        return PreferenceSets(
            held_start, self.held[rows], near_start, self.near[near_rows], self.places[rows]
        )


@dataclass(frozen=True, eq=False)
class RankingRows:
    """The training data, and the items that users keep private.

    Attributes:
        sets: the items that users hold and that friends offer them.
        kept_users: the user of each private setting, increasing `(S,)`.
        kept_items: its item: the user keeps private whether they hold it `(S,)`.
        n_items: `M`.
    """

    sets: PreferenceSets
    kept_users: Indices
    kept_items: Indices
    n_items: int

    @classmethod
    def of(cls, ratings: Ratings, public: Ratings, social: bool) -> RankingRows:
        """Build the rows from the purchases of `ratings` and the settings and offers of `public`.

        Args:
            ratings: the purchases to train on.
            public: the data whose friends, settings and shared purchases count as public.
            social: whether to use what friends share.

        Raises:
            ConfigError: `social` is set and the data have no friends.
        """
        kept = public.kept_private
        return cls(
            sets=PreferenceSets.of(ratings, _offers(public) if social else None),
            kept_users=public.user[kept],
            kept_items=public.item[kept],
            n_items=ratings.n_items,
        )

    @property
    def n_users(self) -> int:
        """`N`."""
        return len(self.sets)

    @cached_property
    def keepers(self) -> NDArray[np.int64]:
        """The number of users to whom each item is not sensitive, and to whom it is, `(2, M)`."""
        kept = np.bincount(self.kept_items, minlength=self.n_items)
        return np.stack([self.n_users - kept, kept])

    def kept_by(self, user: int) -> NDArray[np.bool_]:
        """Return the mask of the items that a user keeps private `(M,)`."""
        first, last = np.searchsorted(self.kept_users, [user, user + 1])
        mask = np.zeros(self.n_items, np.bool_)
        mask[self.kept_items[first:last]] = True
        return mask


@dataclass(frozen=True, eq=False)
class RankingNoise:
    """The noise on what users submit about every item.

    Attributes:
        submitted: the variance of each coordinate of one user's submission: first for users to whom
            the item is not sensitive, then for users to whom it is, `(2, M)`.
        shared: whether `submitted` is multiplied by exponential draws, one for each item,
            coordinate and round, shared by all users (Meng et al. 2018, Lemma 1).
    """

    submitted: NDArray[np.float64]
    shared: bool

    def of_users(self, rows: RankingRows, users: Indices) -> NDArray[np.float64]:
        """The variance of what each of these users submits, before shared draws, `(n, M)`."""
        kept = [rows.kept_by(int(user)) for user in users]
        columns = np.arange(rows.n_items)
        return self.submitted[np.array(kept, np.int64).reshape(-1, rows.n_items), columns]

    def summed(self, rows: RankingRows) -> NDArray[np.float64]:
        """The variance of the sum over all users, before shared draws, `(M,)`."""
        return np.asarray((self.submitted * rows.keepers).sum(0), np.float64)


def offered(ratings: Ratings) -> NDArray[np.bool_]:
    """Mask of the purchases that a friend of the user also made and shares `(R,)`.

    Raises:
        ConfigError: the data have no friends.
    """
    offers = _offers(ratings).tocoo()
    keys = offers.row.astype(np.int64) * ratings.n_items + offers.col
    return np.isin(ratings.user.astype(np.int64) * ratings.n_items + ratings.item, keys)


def _held(ratings: Ratings) -> csr_array:
    """Matrix of the items that each user holds `(N, M)`."""
    from scipy.sparse import csr_array

    start, items, _ = ratings.by_user
    shape = (ratings.n_users, ratings.n_items)
    return csr_array((np.ones(len(items), np.bool_), items, start), shape=shape)


def _offers(public: Ratings) -> csr_array:
    """Matrix of the items that at least one friend of each user holds and shares `(N, M)`."""
    from scipy.sparse import csr_array

    links = public.friends
    if links is None:
        raise ConfigError(
            "the data have no friends, which params.social = true needs: set data.trust, or "
            "params.social = false"
        )
    shape = (public.n_users, public.n_users)
    friends = csr_array((np.ones(len(links), np.bool_), links.friend, links.start), shape=shape)
    return friends @ _held(public.shared)


def _places(
    start: Starts, held: Indices, near_start: Starts, near: Indices, n_items: int
) -> Indices:
    """Return the index of each held item in the user's part of `near`."""

    def keys(starts: Starts, items: Indices) -> NDArray[np.int64]:
        return np.repeat(np.arange(len(starts) - 1), np.diff(starts)) * n_items + items

    first = np.repeat(near_start[:-1], np.diff(start))
    places = np.searchsorted(keys(near_start, near), keys(start, held)) - first
    return places.astype(np.int32)


def _taken(start: Starts, users: Indices) -> tuple[Starts, NDArray[np.int64]]:
    """Return the starts of these users' concatenated rows, and the indices of the rows."""
    counts = np.diff(start)[users]
    starts = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
    rows = np.arange(starts[-1]) + np.repeat(start[:-1][users] - starts[:-1], counts)
    return starts, rows
