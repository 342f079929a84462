"""Networks that predict a user's next item from the last ones."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from dpaudit.data.interactions import Interactions
from dpaudit.recommenders.base import RowModel
from dpaudit.recommenders.networks.stack import Array, Indices, Stack, padded

Dropped = Callable[[tuple[int, ...]], Tensor | float]
# The number of units of states that are computed at a time after the training.
_TOGETHER = 2**22


class Pieces(NamedTuple):
    """Pieces of the users' sequences, filled up at their ends with item 0.

    Attributes:
        items: the items `(n, L)`.
        following: the item after each one `(n, L)`.
        weights: 1 where there is such an item, 0 where the piece is filled up `(n, L)`.
        last: the last items of each user `(N, L)`.
        counts: the number of these `(N,)`; 0 for a user without items.
    """

    items: Indices
    following: Indices
    weights: Array
    last: Indices
    counts: Indices


def pieces(interactions: Interactions, length: int) -> Pieces:
    """Cut each user's sequence into pieces of `length`, of which the last may be shorter."""
    table = interactions.table
    chosen = np.flatnonzero(table.rating)
    # The sort keeps the order of time within a user.
    chosen = chosen[np.argsort(table.user[chosen], kind="stable")]
    user, item = table.user[chosen], table.item[chosen].astype(np.int64)
    start = np.searchsorted(user, np.arange(interactions.shape[0] + 1))
    sizes = np.diff(start)
    cuts = -(-np.maximum(sizes - 1, 0) // length)
    followed = np.flatnonzero(user[1:] == user[:-1])
    place = followed - start[user[followed]]
    at = (np.cumsum(cuts) - cuts)[user[followed]] + place // length, place % length
    items, following = (np.zeros((cuts.sum(), length), np.int64) for _ in range(2))
    weights = np.zeros(items.shape, np.float32)
    items[at], following[at], weights[at] = item[followed], item[followed + 1], 1
    counts = np.minimum(sizes, length)
    last = np.zeros((len(sizes), length), np.int64)
    shown = np.arange(length) < counts[:, None]
    last[shown] = item[((start[1:] - counts)[:, None] + np.arange(length))[shown]]
    return Pieces(items, following, weights, last, counts)


class Sequences(Stack):
    """Networks that compute a user's state from the last `length` items.

    Items are in the order of `Interactions.table`: of time, and those of one time by item; by item
    alone if the data have no times. A rating of 0 is left out. Pieces of `length` items are the
    records: the network predicts the item after each one from those of the piece up to it.
    """

    def prepare(self) -> None:
        """Cut sequences into pieces."""
        length = self.settings.length or 1
        self.pieces = [pieces(interactions, length) for interactions in self.data]

    def counts(self) -> list[int]:
        """Return the numbers of pieces."""
        return [len(part.items) for part in self.pieces]

    def loss(self, records: Sequence[Indices], progress: float) -> Tensor:
        """Return the losses of the items that follow; see `Stack.loss`."""
        parts = list(zip(self.pieces, records, strict=True))
        items, following, weights = (
            padded([data[column][record] for data, record in parts]) for column in range(3)
        )
        states = self.states(items, self.dropped)
        return (self.tensor(weights) * self.losses(states, following)).sum()

    @abstractmethod
    def states(self, items: Indices, dropped: Dropped) -> Tensor:
        """Return the states `(W, n, L, d)` after each item of sequences `(W, n, L)`.

        Args:
            items: the sequences; what a state is computed from stands before it.
            dropped: returns what units of a shape are multiplied by; see `Stack.dropped`.
        """

    @abstractmethod
    def losses(self, states: Tensor, following: Indices) -> Tensor:
        """Return the loss of each item that follows `(W, n, L)`.

        Args:
            states: `(W, n, L, d)`.
            following: the items `(W, n, L)`.
        """

    @abstractmethod
    def outputs(self) -> tuple[Tensor, Tensor]:
        """Return what states are multiplied by `(W, M, d)`, and the biases `(W, M)`."""

    def models(self) -> list[RowModel]:
        """Return factorisations whose users have their last states; 0 without items."""
        width, length = len(self.data), self.settings.length or 1
        size = max(1, _TOGETHER // (width * length * self.settings.dimensions))
        last = np.stack([part.last for part in self.pieces])
        counts = np.stack([part.counts for part in self.pieces])
        users = []
        for start in range(0, self.users, size):
            part = slice(start, start + size)
            states = self.states(last[:, part], lambda _: 1.0)
            place = self.tensor(np.maximum(counts[:, part] - 1, 0))
            index = place[..., None, None].expand(-1, -1, 1, states.shape[3])
            users.append(states.gather(2, index)[:, :, 0] * self.tensor(counts[:, part, None] > 0))
        return self.factorisations(torch.cat(users, 1), *self.outputs())
