"""LightGCN: factors that are averaged over the graph of interactions (He et al. 2020)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from scipy.sparse import block_array, block_diag
from torch import Tensor
from torch.nn.functional import softplus

from dpaudit.kernels.rows import add_neighbours
from dpaudit.recommenders.base import FactorModel, RowModel
from dpaudit.recommenders.networks.stack import (
    Indices,
    Initial,
    Stack,
    binary,
    embedding,
    numbers,
    padded,
    rows,
)

# The weight of the squared factors in the loss.
_DECAY = 1e-4


class LightGCN(Stack):
    """Models whose score is the product of two averages of factors over the graph's paths.

    The factors are `E = (E_0 + A E_0 + … + A^K E_0) / (K + 1)`, in which `A` is the adjacency of
    users and items with a link for each interaction, divided by the roots of both degrees
    (He et al. 2020, arXiv:2002.02126, equations 7 and 8; equal weights). The loss is that of BPR
    (equation 15), with negatives drawn uniformly from all items.
    """

    def prepare(self) -> None:
        """Build one graph of all models: users, then items, of each."""
        matrices = [binary(interactions) for interactions in self.data]
        entries = [matrix.tocoo() for matrix in matrices]
        self._pairs = [np.column_stack(matrix.coords).astype(np.int64) for matrix in entries]
        links = [block_array([[None, matrix], [matrix.T, None]]) for matrix in matrices]
        graph = block_diag(links, format="csr")
        degrees = np.diff(graph.indptr)
        self._start, self._neighbour = (
            self.tensor(part.astype(np.int64)) for part in (graph.indptr, graph.indices)
        )
        self._scale = self.tensor((1 / np.sqrt(np.maximum(degrees, 1)))[:, None]).float()

    def initial(self, source: np.random.Generator) -> Initial:
        """Draw the factors of users, then of items."""
        return {"factors": embedding(source, self.users + self.items, self.settings.dimensions)}

    def counts(self) -> list[int]:
        """Return the numbers of interactions."""
        return [len(pairs) for pairs in self._pairs]

    def propagated(self) -> Tensor:
        """Return the averaged factors of users, then of items `(W, N + M, d)`."""
        first = self.parameters["factors"]
        layer = first.flatten(0, 1)
        total = layer
        for _ in range(self.settings.layers or 0):
            # A = D^(-1/2) B D^(-1/2), in which B has the links.
            layer = self._scale * _Neighbours.apply(
                self._scale * layer, self._start, self._neighbour
            )
            total = total + layer
        return (total / ((self.settings.layers or 0) + 1)).view_as(first)

    def loss(self, records: Sequence[Indices], progress: float) -> Tensor:
        """Return the loss of BPR of interactions and their negatives; see `Stack.loss`."""
        negatives = self.settings.negatives or 0
        asked, weights = [], []
        for part, pairs, source in zip(records, self._pairs, self.sources, strict=True):
            others = source.integers(self.items, size=(len(part), negatives))
            asked.append(np.column_stack([pairs[part], others]) + self._offsets)
            weights.append(np.ones((len(part), 1), np.float32))
        places = padded(asked)
        n, count = places.shape[1:]
        index = self.flat(places, self.users + self.items)
        user, item, *rest = rows(self.propagated(), index, n, count).unbind(2)
        difference = torch.stack([(user * (item - other)).sum(2) for other in rest], 2)
        weight = self.tensor(padded(weights))
        # −ln σ(x_ui − x_uj), and λ/2 of the squared first factors.
        squares = rows(self.parameters["factors"], index, n, count).square().sum((2, 3))
        return (weight * softplus(-difference)).sum() + _DECAY / 2 * (
            weight[..., 0] * squares
        ).sum()

    @property
    def _offsets(self) -> Indices:
        """What is added to a user, an item and negatives to get rows of the factors."""
        return np.array([0, *[self.users] * (1 + (self.settings.negatives or 0))])

    def models(self) -> list[RowModel]:
        """Return factorisations by the averaged factors."""
        return [
            FactorModel(interactions.matrix, factors[: self.users], factors[self.users :])
            for interactions, factors in zip(self.data, numbers(self.propagated()), strict=True)
        ]


class _Neighbours(torch.autograd.Function):
    """The sums of the neighbours' rows in an undirected graph, which are their own gradient."""

    @staticmethod
    def forward(context: Any, matrix: Tensor, start: Tensor, neighbour: Tensor) -> Tensor:
        context.save_for_backward(start, neighbour)
        return _summed(matrix, start, neighbour)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        return _summed(gradient, *context.saved_tensors), None, None


def _summed(matrix: Tensor, start: Tensor, neighbour: Tensor) -> Tensor:
    if matrix.is_cuda:
        rows = torch.arange(len(matrix), device=matrix.device).repeat_interleave(start.diff())
        return torch.zeros_like(matrix).index_add_(0, rows, matrix[neighbour])
    sums = torch.zeros_like(matrix)
    add_neighbours(start.numpy(), neighbour.numpy(), matrix.contiguous().numpy(), sums.numpy())
    return sums
