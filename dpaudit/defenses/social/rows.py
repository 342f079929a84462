"""The training data of a social factorisation: ratings, which are sensitive, and friends."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.errors import ConfigError
from dpaudit.data.ratings import Friends, Ratings
from dpaudit.defenses.training_checks import UserRows, columns_of
from dpaudit.kernels.social.cosines import cosines

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

    def of_users(self, kept: NDArray[np.bool_]) -> SocialRows:
        """Return only the ratings of the users in the mask `(N,)`, with all indices and friends."""
        rows = kept[self.users]
        counts = np.bincount(self.users[rows], minlength=self.n_users)
        return replace(
            self,
            start=np.concatenate(([0], np.cumsum(counts))),
            users=self.users[rows],
            items=self.items[rows],
            values=self.values[rows],
            sensitive=self.sensitive[rows],
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
