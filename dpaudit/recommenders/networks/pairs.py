"""Networks that score pairs of a user and an item, trained on interactions and negatives."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from dpaudit.recommenders import base
from dpaudit.recommenders.base import RowModel, Scores
from dpaudit.recommenders.networks.stack import (
    Indices,
    Initial,
    Parameters,
    Stack,
    applied,
    embedding,
    linear,
    padded,
    rows,
    single_threaded,
)

# The number of scores that `ncf` computes at a time.
_TOGETHER = 2**15


class Pairs(Stack):
    """Networks that are trained with the logistic loss on interactions and uniform negatives."""

    def prepare(self) -> None:
        """Take the matrices apart: users, items, and 1 for a positive example."""
        entries = [interactions.matrix.tocoo() for interactions in self.data]
        self._users, self._items = (
            [matrix.coords[axis].astype(np.int64) for matrix in entries] for axis in (0, 1)
        )
        self._positive = [(matrix.data != 0).astype(np.float32) for matrix in entries]

    def counts(self) -> list[int]:
        """Return the numbers of interactions."""
        return [len(users) for users in self._users]

    def loss(self, records: Sequence[Indices], progress: float) -> Tensor:
        """Return the logistic loss of interactions and their negatives; see `Stack.loss`."""
        negatives = self.settings.negatives or 0
        parts = zip(records, self._users, self._items, self._positive, self.sources, strict=True)
        users, items, wanted, weights = [], [], [], []
        for part, all_users, all_items, positive, source in parts:
            others = source.integers(self.items, size=(len(part), negatives))
            users.append(all_users[part])
            items.append(np.column_stack([all_items[part], others]))
            wanted.append(np.pad(positive[part, None], ((0, 0), (0, negatives))))
            weights.append(np.ones((len(part), 1), np.float32))
        logits = self.logits(padded(users), padded(items))
        return binary_cross_entropy_with_logits(
            logits, self.tensor(padded(wanted)), self.tensor(padded(weights)), reduction="sum"
        )

    @abstractmethod
    def logits(self, users: Indices, items: Indices) -> Tensor:
        """Return scores `(W, n, l)` of users `(W, n)` and items `(W, n, l)`."""


class Factorisation(Pairs):
    """Models whose score of (u, i) is `b_i + <p_u, q_i>`."""

    def initial(self, source: np.random.Generator) -> Initial:
        """Draw factors; biases are 0."""
        return {
            "users.weight": embedding(source, self.users, self.settings.dimensions),
            "items.weight": embedding(source, self.items, self.settings.dimensions),
            "biases.weight": np.zeros((self.items, 1), np.float32),
        }

    def factors(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return factors of users `(W, N, d)` and items `(W, M, d)`, and biases `(W, M, 1)`."""
        stack = self.parameters
        return stack["users.weight"], stack["items.weight"], stack["biases.weight"]

    def logits(self, users: Indices, items: Indices) -> Tensor:
        """Return scores; see `Pairs.logits`."""
        (_, n, negatives), (p, q, b) = items.shape, self.factors()
        places = self.flat(items, self.items)
        product = rows(p, self.flat(users, self.users), n, 1) * rows(q, places, n, negatives)
        return product.sum(3) + rows(b, places, n, negatives)[..., 0]

    def models(self) -> list[RowModel]:
        """Return factorisations with the biases of items."""
        users, items, biases = self.factors()
        return self.factorisations(users, items, biases[..., 0])


class Neural(Pairs):
    """The network NeuMF of He et al. 2017, section 3.4, without its pre-training.

    The score is `h^T [p_u * q_i, f(p'_u, q'_i)]`, in which f has layers of `dimensions` and
    `dimensions / 2` rectified units.
    """

    def initial(self, source: np.random.Generator) -> Initial:
        """Draw factors and layers."""
        d, half = self.settings.dimensions, (self.settings.dimensions + 1) // 2
        return {
            "users.weight": embedding(source, self.users, d),
            "items.weight": embedding(source, self.items, d),
            "wide_users.weight": embedding(source, self.users, d),
            "wide_items.weight": embedding(source, self.items, d),
            **linear(source, 2 * d, d, "layers.0"),
            **linear(source, d, half, "layers.2"),
            **linear(source, d + half, 1, "last"),
        }

    def logits(self, users: Indices, items: Indices) -> Tensor:
        """Return scores; see `Pairs.logits`."""
        (_, n, negatives), stack = items.shape, self.parameters
        owners, places = self.flat(users, self.users), self.flat(items, self.items)
        first_users, first_items = _first(stack)
        return _combined(
            stack,
            rows(stack["users.weight"], owners, n, 1),
            rows(stack["items.weight"], places, n, negatives),
            rows(first_users, owners, n, 1),
            rows(first_items, places, n, negatives),
        )

    def models(self) -> list[RowModel]:
        """Return the networks."""
        stack = {name: value.detach().cpu() for name, value in self.parameters.items()}
        return [
            _Scored(interactions.matrix, {name: value[[w]] for name, value in stack.items()})
            for w, interactions in enumerate(self.data)
        ]


def _first(stack: Parameters) -> tuple[Tensor, Tensor]:
    """Return what the first layer adds up of each user and of each item, before it rectifies.

    `W [p', q'] + b = (W_p p' + b) + W_q q'`: computed once for a user or item, not for each pair.
    """
    weight, bias = stack["layers.0.weight"].transpose(1, 2), stack["layers.0.bias"]
    d = weight.shape[2]
    users = torch.baddbmm(bias[:, None], stack["wide_users.weight"], weight[:, :d])
    return users, torch.bmm(stack["wide_items.weight"], weight[:, d:])


def _combined(stack: Parameters, p: Tensor, q: Tensor, first_p: Tensor, first_q: Tensor) -> Tensor:
    """Return scores of pairs `(W, n, l)` from what belongs to users and to items."""
    hidden = (first_p + first_q).relu_()
    width, n, count, d = hidden.shape
    hidden = applied(stack, "layers.2", hidden.view(width, n * count, d)).relu_()
    last = stack["last.weight"]
    # h^T [p * q, f] = <h_1 * p, q> + <h_2, f>
    product = ((p * last[:, None, :, :d]) * q).sum(3)
    # No product of matrices: for one column its rounding depends on how many models there are.
    deep = (hidden * last[:, :, d:]).sum(2) + stack["last.bias"]
    return product + deep.view(width, n, count)


@dataclass(frozen=True, eq=False)
class _Scored(RowModel):
    stack: Parameters

    def rows(self, users: base.Indices) -> Scores:
        stack, size = self.stack, max(1, _TOGETHER // max(1, self.seen.shape[1]))
        with single_threaded(), torch.no_grad():
            first_users, first_items = _first(stack)
            scores = [
                _combined(
                    stack,
                    stack["users.weight"][:, part, None],
                    stack["items.weight"][:, None],
                    first_users[:, part, None],
                    first_items[:, None],
                )[0]
                for part in torch.from_numpy(users.astype(np.int64)).split(size)
            ]
            return torch.cat(scores).numpy()
