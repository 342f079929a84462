"""The candidates of a federated training: the items for which each user may submit."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.errors import ConfigError
from dpaudit.core.memory import check_memory
from dpaudit.core.streams import generator
from dpaudit.data.ratings import Ratings
from dpaudit.defenses.training_checks import UserRows

Floats = NDArray[np.float32]
Indices = NDArray[np.int32]

# The most bytes of a candidate: while they are drawn, and in a training without single submissions.
_CANDIDATE = 60


@dataclass(frozen=True, eq=False)
class Candidates(UserRows):
    """The items that each user rated, and the items for which they submit fakes.

    One of the P rows for each pair of a user and an item. The value of an item that the user has
    not rated is the rating of one of its raters, a stand-in for an ideal attacker, which training
    does not use.

    Attributes:
        made_up: a made-up rating, drawn once `(P,)`.
        real: whether the user has rated the item `(P,)`.
    """

    made_up: Floats
    real: NDArray[np.bool_]

    @classmethod
    def of(
        cls,
        ratings: Ratings,
        public: Ratings,
        density: float,
        draw: int,
        made_up_mean: float | None = None,
    ) -> Candidates:
        """Draw the candidates: a user with n ratings in `public` draws `n q/(1 − q)` others.

        The other items are drawn uniformly, without replacement.

        Args:
            ratings: the training data; each user's items must be among their items in `public`.
            public: the data whose rated items are candidates, whether `ratings` has them or not.
            density: q, the share of fakes among a user's candidates.
            draw: the seed. Except for the stand-ins, a user's draws do not depend on the ratings
                of other users.
            made_up_mean: the mean of made-up ratings, which are then normal with standard
                deviation 1. If None, they are uniform on the rating scale.

        Raises:
            ConfigError: a rating in `ratings` is not in `public`, `public` is empty, or the
                candidates do not fit the memory.
        """
        if not len(public):
            raise ConfigError(
                "there are no public ratings, so no user has candidates: use more data"
            )
        owned = np.diff(public.by_user.start)
        drawn_each = np.minimum(public.n_items - owned, np.rint(owned * density / (1 - density)))
        total = int(owned.sum() + drawn_each.sum())
        check_memory(
            "the items that users submit for",
            f"the number of ratings over 1 - params.density ({total:,})",
            _CANDIDATE * total,
            "lower params.density, set train.cap",
        )
        scale, by_item = ratings.scale, public.by_item
        parts: list[tuple[Indices, Floats, Floats]] = []
        for user in range(public.n_users):
            rated_items = public.profile(user).items
            rng = generator((draw, user), "candidates")
            free = np.ones(public.n_items, np.bool_)
            free[rated_items] = False
            others = np.flatnonzero(free)
            count = min(len(others), round(len(rated_items) * density / (1 - density)))
            drawn = rng.choice(others, count, replace=False).astype(np.int32)
            items = np.sort(np.concatenate([rated_items, drawn]))
            first, last = by_item.start[items], by_item.start[items + 1]
            rater = first + (rng.random(len(items)) * (last - first)).astype(np.int64)
            if made_up_mean is None:
                made_up = scale.values[rng.integers(0, len(scale.values), len(items))]
            else:
                made_up = rng.normal(made_up_mean, 1.0, len(items)).astype(np.float32)
            anybody = rng.integers(0, len(public), len(items))
            stand_in = np.where(
                first < last, by_item.value[np.minimum(rater, len(public) - 1)],
                public.value[anybody],
            )  # fmt: skip
            parts.append((items, stand_in, made_up))
        counts = [len(items) for items, _, _ in parts]
        users = np.repeat(np.arange(public.n_users, dtype=np.int32), counts)
        items, values, made_up = (np.concatenate(column) for column in zip(*parts, strict=True))
        parts.clear()
        cells = users.astype(np.int64) * public.n_items + items
        rated = ratings.user.astype(np.int64) * public.n_items + ratings.item
        place = np.minimum(np.searchsorted(cells, rated), len(cells) - 1)
        if len(rated) and not np.array_equal(cells[place], rated):
            raise ConfigError(
                "a rating is of an item that is no candidate of its user: the candidates are "
                "public, so compare data in which no item is new"
            )
        real = np.zeros(len(cells), np.bool_)
        real[place] = True
        values[place] = ratings.value
        start = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        return cls(start, users, items, values, public.n_items, scale, made_up, real)

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """The number of candidates of each user `(N,)`."""
        return np.diff(self.start)

    @cached_property
    def rated(self) -> Candidates:
        """The rows whose item the user has rated."""
        return self.only(self.real)

    def only(self, rows: NDArray[np.bool_]) -> Candidates:
        """Return only the rows in the mask `(P,)`; users keep their indices."""
        kept = np.bincount(self.users[rows], minlength=self.n_users)
        return Candidates(
            start=np.concatenate([[0], np.cumsum(kept)]).astype(np.int64),
            users=self.users[rows],
            items=self.items[rows],
            values=self.values[rows],
            made_up=self.made_up[rows],
            real=self.real[rows],
            n_items=self.n_items,
            scale=self.scale,
        )
