"""LightGCN: factors that are averaged over the graph of interactions (He et al. 2020)."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from scipy.sparse import block_array
from torch import Tensor
from torch.nn.functional import embedding as looked_up
from torch.nn.functional import embedding_bag, softplus

from dpaudit.data.interactions import Interactions
from dpaudit.recommenders.base import FactorModel, RowModel
from dpaudit.recommenders.networks.network import Indices, Network, binary, embedding
from dpaudit.recommenders.networks.settings import Settings

# The weight of the squared factors in the loss.
_DECAY = 1e-4


class LightGCN(Network):
    """A model whose score is the product of two averages of factors over the graph's paths.

    The factors are `E = (E_0 + A E_0 + … + A^K E_0) / (K + 1)`, in which `A` is the adjacency of
    users and items with a link for each interaction, divided by the roots of both degrees
    (He et al. 2020, arXiv:2002.02126, equations 7 and 8; equal weights). The loss is that of BPR
    (equation 15), with negatives drawn uniformly from all items.

    Attributes:
        factors: the factors of users, then of items.
    """

    def __init__(
        self, settings: Settings, interactions: Interactions, source: np.random.Generator
    ) -> None:
        """Build the graph of users, then items, and draw factors."""
        super().__init__(settings, interactions, source)
        matrix = binary(interactions)
        users, items = matrix.tocoo().coords
        self._pairs = np.column_stack((users, items + self.n_users)).astype(np.int64)
        graph = block_array([[None, matrix], [matrix.T, None]], format="csr")
        root = np.sqrt(np.maximum(np.diff(graph.indptr), 1))
        self.factors = embedding(source, self.n_users + self.n_items, settings.dimensions)
        # A = D^(-1/2) B D^(-1/2), in which B has the links.
        weight = graph.data / np.repeat(root, np.diff(graph.indptr)) / root[graph.indices]
        for name, part in (("start", graph.indptr), ("neighbour", graph.indices)):
            self.register_buffer(name, torch.from_numpy(part.astype(np.int64)), persistent=False)
        self.register_buffer(
            "weight", torch.from_numpy(weight.astype(np.float32)), persistent=False
        )

    @property
    def records(self) -> int:
        """The number of interactions."""
        return len(self._pairs)

    def propagated(self) -> Tensor:
        """Return the averaged factors of users, then of items `(N + M, d)`."""
        layers = [self.factors.weight]
        for _ in range(self.settings.layers or 0):
            layers.append(_Neighbours.apply(layers[-1], self.start, self.neighbour, self.weight))
        return torch.stack(layers).mean(0)

    def loss(self, records: Indices, progress: float) -> Tensor:
        """Return the loss of BPR of interactions and their negatives; see `Network.loss`."""
        size = len(records), self.settings.negatives or 0
        others = self.n_users + self.source.integers(self.n_items, size=size)
        places = self.tensor(np.column_stack([self._pairs[records], others]))
        found = looked_up(places, self.propagated())
        # −ln σ(x_ui − x_uj), and λ/2 of the squared first factors.
        difference = (found[:, :1] * (found[:, 1:2] - found[:, 2:])).sum(2)
        return softplus(-difference).sum() + _DECAY / 2 * self.factors(places).square().sum()

    def fitted(self) -> RowModel:
        """Return a factorisation by the averaged factors."""
        factors = self.propagated().cpu().numpy()
        return FactorModel(
            self.interactions.matrix, factors[: self.n_users], factors[self.n_users :]
        )


class _Neighbours(torch.autograd.Function):
    """The weighted sums of the neighbours' rows in an undirected graph: their own gradient."""

    @staticmethod
    def forward(context: Any, matrix: Tensor, *graph: Tensor) -> Tensor:
        context.save_for_backward(*graph)
        return _summed(matrix, *graph)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        return _summed(gradient.contiguous(), *context.saved_tensors), None, None, None


def _summed(matrix: Tensor, start: Tensor, neighbour: Tensor, weight: Tensor) -> Tensor:
    """Return the sums of rows; as `embedding_bag` has them, whose own gradient is slow."""
    return embedding_bag(
        neighbour,
        matrix,
        start,
        mode="sum",
        per_sample_weights=weight,
        include_last_offset=True,
    )
