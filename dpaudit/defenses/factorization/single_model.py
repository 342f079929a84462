"""Large factorisations, which are trained one at a time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpaudit.core.errors import ConfigError
from dpaudit.core.streams import Streams
from dpaudit.defenses.factors import ITEMS, USERS, FactorRows, Floats, Indices
from dpaudit.kernels import noise
from dpaudit.kernels.lanes import LANES, aligned

# Up to so many dimensions sixteen models are trained together; beyond, their factors no longer fit
# the caches, and one model's coordinates fill the lanes as well.
TOGETHER = 127

# The factors of the items that are visited together, in numbers: half of a second-level cache.
_NEAR = 2**17


# The users, items and values of rows.
Visits = tuple[Indices, Indices, Floats]


@dataclass(frozen=True, eq=False)
class SingleModel:
    """One model in training.

    Attributes:
        users: the users' factors `(N, d)`.
        items: the items' `(M, d)`.
        user_bias: `(N,)`.
        item_bias: `(M,)`.
    """

    users: Floats
    items: Floats
    user_bias: Floats
    item_bias: Floats

    @classmethod
    def drawn(
        cls, rows: FactorRows, size: int, spread: float, streams: Streams, first: int = 0
    ) -> SingleModel:
        """Factors from `N(0, spread²)` and biases 0, of the only world of `streams`."""

        def side(count: int, step: int) -> Floats:
            factors = aligned(count, size)
            noise.normal(factors.reshape(1, -1), streams.worlds, first + step, streams.key)
            factors *= np.float32(spread)
            return factors

        return cls(
            users=side(rows.n_users, USERS),
            items=side(rows.n_items, ITEMS),
            user_bias=np.zeros(rows.n_users, np.float32),
            item_bias=np.zeros(rows.n_items, np.float32),
        )

    def parts(self) -> tuple[Floats, Floats, Floats, Floats]:
        """Factors and biases as the kernels take them."""
        return self.users.reshape(-1), self.items.reshape(-1), self.user_bias, self.item_bias

    def joined(self) -> tuple[Floats, Floats]:
        """The users' factors, then their bias, `(N, d + 1, 1)`, and the items'."""
        users = np.column_stack([self.users, self.user_bias])
        items = np.column_stack([self.items, self.item_bias])
        return users[:, :, None], items[:, :, None]


def visits(rows: FactorRows, size: int) -> Visits:
    """The users, items and values of the rows, in the order in which a large model visits them.

    Items are grouped by their number of ratings, as many a group as a cache holds; group after
    group, each user's rows follow each other. A few items have most ratings: where those stand
    together, most rows find both sides in a cache (Liu, Wang, Smola 2015, section 4).

    Args:
        rows: by user, then item.
        size: `d`.
    """
    counts = np.bincount(rows.items, minlength=rows.n_items)
    place = np.empty(rows.n_items, np.int64)
    place[np.argsort(-counts, kind="stable")] = np.arange(rows.n_items)
    group = place[rows.items] // max(1, _NEAR // size)
    order = np.argsort(group, kind="stable")
    return rows.users[order], rows.items[order], rows.values[order]


def check_size(size: int) -> None:
    """Refuse a number of dimensions that fills no lanes.

    Raises:
        ValueError: it is beyond `TOGETHER` and no multiple of 16.
    """
    if size > TOGETHER and size % LANES:
        raise ValueError(
            f"dimensions = {size} is no multiple of 16, as more than {TOGETHER} must be: give "
            f"{-(-size // LANES) * LANES}"
        )


def check_small(size: int, what: str) -> None:
    """Refuse a large model where only small ones will do.

    Args:
        size: `d`.
        what: what needs small models, for the message.

    Raises:
        ConfigError: `d` is beyond `TOGETHER`.
    """
    if size > TOGETHER:
        raise ConfigError(f"params.dimensions = {size}: {what} at most {TOGETHER}: lower it")
