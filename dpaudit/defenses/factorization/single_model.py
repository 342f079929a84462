"""Large factorisations, which are trained one trial at a time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpaudit.core.streams import Streams
from dpaudit.defenses.factors import ITEMS, USERS, FactorRows, Floats, check_factors
from dpaudit.kernels import noise
from dpaudit.kernels.factorization.single_model import Model
from dpaudit.kernels.factorization.sixteen_models import Visits
from dpaudit.kernels.lanes import LANES, aligned

# The largest number of dimensions at which sixteen models are trained together. Factors of larger
# models no longer fit the caches, and one model's coordinates fill the lanes.
TOGETHER = 127

# Size of a group of items that are visited together, in numbers: half of a second-level cache.
_NEAR = 2**17


@dataclass(frozen=True, eq=False)
class SingleModel:
    """One model in training.

    Attributes:
        users: the users' factors `(N, d)`.
        items: the items' factors `(M, d)`.
        user_bias: the users' biases `(N,)`.
        item_bias: the items' biases `(M,)`.
    """

    users: Floats
    items: Floats
    user_bias: Floats
    item_bias: Floats

    @classmethod
    def drawn(
        cls, rows: FactorRows, size: int, spread: float, streams: Streams, first: int = 0
    ) -> SingleModel:
        """Draw the initial model of the only trial of `streams`; see `FactorBlock.drawn`."""

        def side(count: int, step: int) -> Floats:
            factors = aligned(count, size)
            noise.normal(factors.reshape(1, -1), streams.trials, first + step, streams.key)
            factors *= np.float32(spread)
            return factors

        return cls(
            users=side(rows.n_users, USERS),
            items=side(rows.n_items, ITEMS),
            user_bias=np.zeros(rows.n_users, np.float32),
            item_bias=np.zeros(rows.n_items, np.float32),
        )

    def parts(self, mean: float) -> Model:
        """Return the model as kernels take it; `mean` is `b_0`."""
        users, items = self.users.reshape(-1), self.items.reshape(-1)
        size = self.users.shape[1]
        return Model(users, items, self.user_bias, self.item_bias, size, np.float32(mean))

    def joined(self) -> tuple[Floats, Floats]:
        """Return the users' factors, then their bias, `(N, d + 1, 1)`, and the items' likewise."""
        users = np.column_stack([self.users, self.user_bias])
        items = np.column_stack([self.items, self.item_bias])
        return users[:, :, None], items[:, :, None]


def visits(rows: FactorRows, size: int) -> Visits:
    """Return the users, items and values of the rows in the order in which a model visits them.

    Items are sorted by their number of ratings and divided into groups that fit a cache. Rows are
    visited group by group, and within a group user by user. A few items have most ratings, so most
    rows find both sides in a cache (Liu, Wang, Smola 2015, section 4).

    Args:
        rows: the ratings, by user, then item.
        size: d.
    """
    counts = np.bincount(rows.items, minlength=rows.n_items)
    ranks = np.empty(rows.n_items, np.int64)
    ranks[np.argsort(-counts, kind="stable")] = np.arange(rows.n_items)
    group = ranks[rows.items] // max(1, _NEAR // size)
    order = np.argsort(group, kind="stable")
    return Visits(rows.users[order], rows.items[order], rows.values[order])


def check_size(size: int) -> None:
    """Check that a large number of dimensions fills the lanes.

    Raises:
        ValueError: `size` is above `TOGETHER` and not a multiple of 16.
    """
    if size > TOGETHER and size % LANES:
        raise ValueError(
            f"dimensions = {size} is no multiple of 16, which is required above {TOGETHER}: use "
            f"{-(-size // LANES) * LANES}"
        )


def check_models(rows: FactorRows, size: int, trials: int) -> None:
    """Check that models that are trained one at a time, and then kept together, fit the memory.

    Args:
        rows: the ratings.
        size: d.
        trials: the number of models.

    Raises:
        ConfigError: they do not fit.
    """
    # Two more while one is trained: without its biases beside them, and its noise.
    check_factors(
        rows.n_users, rows.n_items, size, 4 * (trials + 2), f"one at a time in {trials} trials"
    )
