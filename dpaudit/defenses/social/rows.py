"""The training data of a social factorisation: ratings, which are sensitive, and friends."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.errors import ConfigError
from dpaudit.data.ratings import Friends, Ratings, Scale
from dpaudit.data.similarity import friends_similarity
from dpaudit.defenses.factors import Floats, Indices

if TYPE_CHECKING:
    from scipy.sparse import csr_array


@dataclass(frozen=True, eq=False)
class SocialRows:
    """The ratings by user, then item, and the friends.

    Attributes:
        start: the rows of user i are `start[i] … start[i + 1]`, `(N + 1,)`.
        users: the user of each row `(R,)`.
        items: the item of each row `(R,)`.
        values: the rating `(R,)`.
        sensitive: `F_ij`: whether the user keeps the rating private `(R,)`.
        n_items: `M`.
        scale: the rating scale.
        similarity: `S_if` of user i and their friend f, `(N, N)`.
        friends: `|F_i|`, the number of each user's friends `(N,)`.
    """

    start: NDArray[np.int64]
    users: Indices
    items: Indices
    values: Floats
    sensitive: NDArray[np.bool_]
    n_items: int
    scale: Scale
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
            start=ratings.by_user.start,
            users=ratings.user,
            items=ratings.item,
            values=ratings.value,
            sensitive=ratings.kept_private,
            n_items=ratings.n_items,
            scale=ratings.scale,
            similarity=csr_array(
                (weights.astype(np.float32), links.friend, links.start), shape=(n_users, n_users)
            ),
            friends=np.diff(links.start),
        )

    def __len__(self) -> int:
        return len(self.users)

    @property
    def n_users(self) -> int:
        """`N`."""
        return len(self.start) - 1

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
