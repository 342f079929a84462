"""Matrix factorisation with biases: the rows it learns from and the models it yields."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.releases import ItemFactors
from dpaudit.core.streams import Streams
from dpaudit.data.ratings import Ratings, Scale
from dpaudit.kernels.factorization import worlds as kernels
from dpaudit.kernels.lane_noise import world_words
from dpaudit.kernels.lanes import LANES, aligned

Floats = NDArray[np.float32]
Indices = NDArray[np.int32]

# Steps of the noise source: the first are those of the initial factors.
USERS, ITEMS, FIRST = 0, 1, 2

# Why a descent diverges, and the remedy.
STEPS_GROW = "its steps grow instead of shrinking; lower params.rate (or item_rate), or raise decay"


@dataclass(frozen=True, eq=False)
class FactorRows:
    """The ratings as the kernels read them: by user, then item.

    Attributes:
        start: the rows of user u are `start[u] … start[u + 1]`, `(N + 1,)`.
        users: the user of each row `(R,)`.
        items: its item.
        values: its rating.
        n_items: `M`.
        mean: `b_0`.
        scale: the rating scale.
    """

    start: NDArray[np.int64]
    users: Indices
    items: Indices
    values: Floats
    n_items: int
    mean: float
    scale: Scale

    @classmethod
    def of(cls, ratings: Ratings, mean: float) -> FactorRows:
        """The rows of `ratings` with this `b_0`."""
        return cls(
            start=ratings.by_user.start,
            users=ratings.user,
            items=ratings.item,
            values=ratings.value,
            n_items=ratings.n_items,
            mean=mean,
            scale=ratings.scale,
        )

    def __len__(self) -> int:
        return len(self.users)

    @property
    def n_users(self) -> int:
        """`N`."""
        return len(self.start) - 1


@dataclass(frozen=True, eq=False)
class FactorBlock:
    """Up to 16 models in training, one a lane.

    Attributes:
        users: the users' factors, then their bias, `(N, d + 1, 16)`.
        items: the items', `(M, d + 1, 16)`.
        worlds: the noise source's words of the worlds.
        count: how many lanes are worlds.
    """

    users: Floats
    items: Floats
    worlds: NDArray[np.uint32]
    count: int

    @classmethod
    def drawn(
        cls, rows: FactorRows, size: int, spread: float, streams: Streams, first: int = 0
    ) -> FactorBlock:
        """Models with factors from `N(0, spread²)` and biases 0; the noise's steps from `first`."""
        worlds = world_words(streams.worlds)
        sides = []
        for count, step in ((rows.n_users, USERS), (rows.n_items, ITEMS)):
            side = aligned(count, size + 1, LANES)
            variance = np.full(count, spread**2)
            kernels.settle(side.reshape(-1), size, variance, first + step, worlds, streams.key)
            side[:, size] = 0
            sides.append(side)
        return cls(sides[0], sides[1], worlds, len(streams))


@dataclass(frozen=True, eq=False)
class FactorModels:
    """Trained factorisations of W worlds: `r̂_ui = b_0 + b_u + a_u b_i + u·v`, cut to the scale.

    Attributes:
        users: for each block of worlds the users' factors, then their bias, `(N, d + 1, L)`, L
            being 16, or 1 of models that are trained one at a time.
        items: the items', `(M, d + 1, L)`.
        worlds: W.
        mean: `b_0`.
        scale: the rating scale.
        shares: `a_u`, for each block `(N, L)`; all are 1 where there are none.
    """

    users: Sequence[Floats]
    items: Sequence[Floats]
    worlds: int
    mean: float
    scale: Scale
    shares: Sequence[Floats] | None = None

    @classmethod
    def single(
        cls, users: Floats, items: Floats, dimensions: int, mean: float, scale: Scale
    ) -> FactorModels:
        """One model without biases, from factors in rows of at least so many numbers."""

        def side(factors: Floats) -> Floats:
            own = factors[:, :dimensions]
            return np.column_stack([own, np.zeros(len(own), np.float32)])[:, :, None]

        return cls([side(users)], [side(items)], 1, mean, scale)

    def predict(self, users: Indices, items: Indices) -> Floats:
        """The predicted ratings of pairs of a user and an item `(W, n)`."""
        lanes = self.users[0].shape[2]
        shown = np.empty((len(self.users) * lanes, len(users)), np.float32)
        for block, (left, right) in enumerate(zip(self.users, self.items, strict=True)):
            part = shown[block * lanes : (block + 1) * lanes]
            pairs_at_once = max(1, _GATHERED // left[0].size)
            for start in range(0, len(users), pairs_at_once):
                pairs = slice(start, start + pairs_at_once)
                u, v = left[users[pairs]], right[items[pairs]]
                dot = np.einsum("nfw,nfw->wn", u[:, :-1], v[:, :-1])
                biases = v[:, -1]
                if self.shares is not None:
                    biases = biases * self.shares[block][users[pairs]]
                part[:, pairs] = self.mean + (u[:, -1] + biases).T + dot
        return np.clip(shown[: self.worlds], self.scale.minimum, self.scale.maximum)

    def public(self, items: Indices) -> ItemFactors:
        """What is published of them: every item's factors and bias, whatever `items`."""
        whole = np.concatenate([np.moveaxis(block, 2, 0) for block in self.items])
        return ItemFactors(whole[: self.worlds], self.mean)


def joined(models: Sequence[FactorModels]) -> FactorModels:
    """The models of several worlds as one, in their order."""
    shares = [share for each in models for share in each.shares or ()]
    return FactorModels(
        users=[users for each in models for users in each.users],
        items=[items for each in models for items in each.items],
        worlds=len(models),
        mean=models[0].mean,
        scale=models[0].scale,
        shares=shares or None,
    )


# Factors gathered at a time, of either side: 16 MiB.
_GATHERED = 2**22


def width(dimensions: int) -> int:
    """The room of a row of factors: the least power of two of at least 16 that holds them."""
    return max(LANES, 1 << (dimensions - 1).bit_length())
