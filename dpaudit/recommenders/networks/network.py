"""What all networks share, and those of pairs of a user and an item, trained with negatives.

LightGCN averages factors over the graph of interactions (He et al. 2020, arXiv:2002.02126).
Two towers make what is known of a user and of an item into factors of one space (Yi et al. 2019,
Sampling-bias-corrected neural modeling for large corpus item recommendations,
doi:10.1145/3298689.3346996).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from pandas.api.types import is_bool_dtype, is_numeric_dtype
from scipy.sparse import block_array, csr_array
from torch import Tensor, nn
from torch.nn import functional

from dpaudit.data.interactions import Interactions
from dpaudit.recommenders import base
from dpaudit.recommenders.base import PROCESS_WIDE, FactorModel, RowModel, Scores, with_biases
from dpaudit.recommenders.networks.settings import Settings

Array = NDArray[np.float32]
Indices = NDArray[np.int64]

# The spread of factors before the training.
SPREAD = 0.1


class Network(nn.Module, ABC):
    """A network, and what it is trained on.

    Attributes:
        settings: its settings.
        interactions: what it is trained on.
        source: all its random numbers.
    """

    def __init__(
        self, settings: Settings, interactions: Interactions, source: np.random.Generator
    ) -> None:
        """Take what it is trained on, and build it."""
        super().__init__()
        self.settings, self.interactions, self.source = settings, interactions, source
        self.n_users, self.n_items = interactions.shape
        self.build()

    @abstractmethod
    def build(self) -> None:
        """Compute what all steps need from the data, and draw the parameters."""

    @property
    @abstractmethod
    def records(self) -> int:
        """The number of records that it is trained on."""

    @abstractmethod
    def loss(self, records: Indices, progress: float) -> Tensor:
        """Return the sum of the losses of some records.

        Args:
            records: their indices.
            progress: the share of the training that is done.
        """

    @abstractmethod
    def fitted(self) -> RowModel:
        """Return the trained model."""

    def factorisation(self, users: Tensor, items: Tensor, biases: Tensor) -> FactorModel:
        """Return a model by factors of users `(N, d)`, of items `(M, d)`, and biases `(M,)`."""
        p, q, b = (part.detach().cpu().numpy() for part in (users, items, biases))
        return with_biases(self.interactions.matrix, p, q, b, np.zeros(self.n_users))

    def tensor(self, array: NDArray[Any]) -> Tensor:
        """Return an array as a tensor where the parameters are."""
        return torch.from_numpy(np.ascontiguousarray(array)).to(next(self.parameters()).device)

    def dropped(self, units: Tensor) -> Tensor:
        """Multiply units by 0 with probability `dropout`, else by `1/(1 − dropout)`, in training.

        Args:
            units: of the records of a step `(n, …)`.
        """
        if not self.training:
            return units
        rate = self.settings.dropout or 0.0
        shape = drawn(len(units)), *units.shape[1:]
        # 16 bits of the stream a unit, so the probability is a multiple of 2^-16.
        draws = np.frombuffer(self.source.bytes(2 * math.prod(shape)), np.uint16)
        kept = draws.reshape(shape)[: len(units)] >= round(rate * 2**16)
        return units * self.tensor(kept) / (1 - rate)


def drawn(records: int) -> int:
    """Return for how many records a step with so many draws numbers: a multiple of 16."""
    return max(16, -(-records // 16) * 16)


def binary(interactions: Interactions) -> csr_array:
    """Return the users × items matrix of 1 for each interaction; a rating of 0 is none."""
    matrix = interactions.matrix.copy()
    matrix.data = (matrix.data != 0).astype(np.float32)
    matrix.eliminate_zeros()
    return matrix


def embedding(source: np.random.Generator, count: int, dimensions: int) -> Any:
    """Draw factors `(count, dimensions)` of mean 0 and standard deviation 0.1."""
    factors = SPREAD * source.standard_normal((count, dimensions), np.float32)
    return nn.Embedding.from_pretrained(torch.from_numpy(factors), freeze=False)


def linear(source: np.random.Generator, inputs: int, outputs: int) -> Any:
    """Draw a layer as PyTorch does: uniform in `±1/√inputs`."""
    bound = 1 / math.sqrt(inputs)
    draws = torch.from_numpy(2 * bound * source.random((outputs, inputs + 1), np.float32) - bound)
    layer = nn.utils.skip_init(nn.Linear, inputs, outputs)
    layer.load_state_dict({"weight": draws[:, :-1], "bias": draws[:, -1]})
    return layer


@contextmanager
def single_threaded() -> Iterator[None]:
    """Let PyTorch use one thread for the calls inside, and restore their number afterwards.

    It belongs to the whole process, so other threads wait.
    """
    with PROCESS_WIDE:
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(threads)


# The number of scores that `ncf` computes at a time.
_TOGETHER = 2**15
# The weight of the squared factors in the loss of `lightgcn`.
_DECAY = 1e-4


class Pairs(Network):
    """A network that is trained with the logistic loss on interactions and uniform negatives.

    Attributes:
        owners: the users of the interactions.
        chosen: their items.
        positive: 1 for a positive example, 0 for a rating of 0.
    """

    def build(self) -> None:
        """Take the matrix apart."""
        entries = self.interactions.matrix.tocoo()
        self.owners, self.chosen = (index.astype(np.int64) for index in entries.coords)
        self.positive = (entries.data != 0).astype(np.float32)

    @property
    def records(self) -> int:
        """The number of interactions."""
        return len(self.owners)

    def loss(self, records: Indices, progress: float) -> Tensor:
        """Return the logistic loss of interactions and their negatives; see `Network.loss`."""
        negatives = self.settings.negatives or 0
        others = self.source.integers(self.n_items, size=(len(records), negatives))
        items = np.column_stack([self.chosen[records], others])
        wanted = np.pad(self.positive[records, None], ((0, 0), (0, negatives)))
        scores = self(self.tensor(self.owners[records]), self.tensor(items))
        return functional.binary_cross_entropy_with_logits(
            scores, self.tensor(wanted), reduction="sum"
        )

    @abstractmethod
    def forward(self, users: Tensor, items: Tensor) -> Tensor:
        """Return scores `(n, l)` of users `(n,)` and items `(n, l)`."""


class Factorisation(Pairs):
    """A model whose score of (u, i) is `b_i + <p_u, q_i>`."""

    def build(self) -> None:
        """Draw factors; biases are 0."""
        super().build()
        self.users = embedding(self.source, self.n_users, self.settings.dimensions)
        self.items = embedding(self.source, self.n_items, self.settings.dimensions)
        self.biases = nn.Embedding.from_pretrained(torch.zeros(self.n_items, 1), freeze=False)

    def forward(self, users: Tensor, items: Tensor) -> Tensor:
        """Return scores; see `Pairs.forward`."""
        product = (self.users(users)[:, None] * self.items(items)).sum(2)
        return product + self.biases(items)[..., 0]

    def fitted(self) -> RowModel:
        """Return a factorisation with the biases of items."""
        return self.factorisation(self.users.weight, self.items.weight, self.biases.weight[:, 0])


class TwoTower(Factorisation):
    """A model whose score of (u, i) is `b_i + <f(u), g(i)>` (Yi et al. 2019, section 3).

    The tower f has a layer of `2 d` rectified units and one of `d` units. Its inputs are `d`
    factors of the user's own and the user's features, of `columns_of`; g is likewise. The loss is
    that of `Pairs`, not a softmax over a batch.
    """

    def build(self) -> None:
        """Encode features, which are those of the whole data set in each training; draw layers."""
        super().build()
        d = self.settings.dimensions
        frames = self.interactions.user_features, self.interactions.item_features
        self.features, self.towers = [], nn.ModuleList()
        for frame, count in zip(frames, self.interactions.shape, strict=True):
            features = columns_of(frame, count)
            first = linear(self.source, d + features.shape[1], 2 * d)
            self.features.append(features)
            self.towers.append(nn.Sequential(first, nn.ReLU(), linear(self.source, 2 * d, d)))

    def factors(self) -> tuple[Tensor, Tensor]:
        """Return the outputs of both towers for all users and items: a batch has most of them."""
        learned = self.users.weight, self.items.weight
        users, items = (
            tower(torch.cat([factors, self.tensor(features)], 1))
            for tower, factors, features in zip(self.towers, learned, self.features, strict=True)
        )
        return users, items

    def forward(self, users: Tensor, items: Tensor) -> Tensor:
        """Return scores; see `Pairs.forward`."""
        p, q = self.factors()
        product = functional.embedding(users, p)[:, None] * functional.embedding(items, q)
        return product.sum(2) + self.biases(items)[..., 0]

    def fitted(self) -> RowModel:
        """Return a factorisation by the outputs of both towers."""
        return self.factorisation(*self.factors(), self.biases.weight[:, 0])


def columns_of(frame: Any, count: int) -> Array:
    """Return features as numbers `(count, F)`.

    A column of numbers is shifted and scaled to mean 0 and variance 1, with 0 where it is missing.
    Any other is one column for each of its values, 1 where a row has it.

    Args:
        frame: a data frame of `count` rows; None for no features.
        count: the number of users or items.
    """
    columns = [np.empty((count, 0), np.float32)]
    for name in [] if frame is None else frame.columns:
        column = frame[name]
        if is_numeric_dtype(column) and not is_bool_dtype(column):
            values = column.to_numpy(np.float64, na_value=np.nan)
            spread = np.nanstd(values) if np.isfinite(values).any() else 0.0
            centred = (values - np.nanmean(values)) / spread if spread > 0 else np.zeros(count)
            columns.append(np.nan_to_num(centred)[:, None].astype(np.float32))
        else:
            texts = column.astype("string").fillna("").to_numpy(str)
            columns.append((texts[:, None] == np.unique(texts)).astype(np.float32))
    return np.hstack(columns)


class Neural(Pairs):
    """The network NeuMF of He et al. 2017, section 3.4, without its pre-training.

    The score is `h^T [p_u * q_i, f(p'_u, q'_i)]`, in which f has layers of `dimensions` and
    `dimensions / 2` rectified units.
    """

    def build(self) -> None:
        """Draw factors and layers."""
        super().build()
        d, half = self.settings.dimensions, (self.settings.dimensions + 1) // 2
        self.users = embedding(self.source, self.n_users, d)
        self.items = embedding(self.source, self.n_items, d)
        self.wide_users = embedding(self.source, self.n_users, d)
        self.wide_items = embedding(self.source, self.n_items, d)
        first, second = linear(self.source, 2 * d, d), linear(self.source, d, half)
        self.layers = nn.Sequential(first, nn.ReLU(), second, nn.ReLU())
        self.last = linear(self.source, d + half, 1)

    def forward(self, users: Tensor, items: Tensor) -> Tensor:
        """Return scores; see `Pairs.forward`."""
        product = self.users(users)[:, None] * self.items(items)
        wide = self.wide_items(items)
        both = torch.cat([self.wide_users(users)[:, None].expand_as(wide), wide], 2)
        return self.last(torch.cat([product, self.layers(both)], 2))[..., 0]

    def of_all_items(self, users: Tensor) -> Tensor:
        """Return scores `(n, M)`; the first layer's sums are computed once for a user or item."""
        first, d = self.layers[0], self.settings.dimensions
        # W [p', q'] + b = (W_p p' + b) + W_q q'
        of_users = functional.linear(self.wide_users(users), first.weight[:, :d], first.bias)
        of_items = functional.linear(self.wide_items.weight, first.weight[:, d:])
        hidden = self.layers[1:](of_users[:, None] + of_items)
        product = self.users(users)[:, None] * self.items.weight
        return self.last(torch.cat([product, hidden], 2))[..., 0]

    def fitted(self) -> RowModel:
        """Return the network."""
        return _Scored(self.interactions.matrix, self.cpu())


@dataclass(frozen=True, eq=False)
class _Scored(RowModel):
    network: Neural

    def rows(self, users: base.Indices) -> Scores:
        parts = torch.from_numpy(users.astype(np.int64)).split(
            max(1, _TOGETHER // max(1, self.seen.shape[1]))
        )
        with single_threaded(), torch.no_grad():
            return torch.cat([self.network.of_all_items(part) for part in parts]).numpy()


class LightGCN(Network):
    """A model whose score is the product of two averages of factors over the graph's paths.

    The factors are `E = (E_0 + A E_0 + … + A^K E_0) / (K + 1)`, in which `A` is the adjacency of
    users and items with a link for each interaction, divided by the roots of both degrees
    (He et al. 2020, arXiv:2002.02126, equations 7 and 8; equal weights). The loss is that of BPR
    (equation 15), with negatives drawn uniformly from all items.

    Attributes:
        factors: the factors of users, then of items.
    """

    def build(self) -> None:
        """Build the graph of users, then items, and draw factors."""
        matrix = binary(self.interactions)
        users, items = matrix.tocoo().coords
        self._pairs = np.column_stack((users, items + self.n_users)).astype(np.int64)
        graph = block_array([[None, matrix], [matrix.T, None]], format="csr")
        root = np.sqrt(np.maximum(np.diff(graph.indptr), 1))
        self.factors = embedding(self.source, self.n_users + self.n_items, self.settings.dimensions)
        # A = D^(-1/2) B D^(-1/2), in which B has the links.
        weight = graph.data / np.repeat(root, np.diff(graph.indptr)) / root[graph.indices]
        start, neighbour = (part.astype(np.int64) for part in (graph.indptr, graph.indices))
        self._graph = start, neighbour, weight.astype(np.float32)

    @property
    def records(self) -> int:
        """The number of interactions."""
        return len(self._pairs)

    def propagated(self) -> Tensor:
        """Return the averaged factors of users, then of items `(N + M, d)`."""
        layers, graph = [self.factors.weight], [self.tensor(part) for part in self._graph]
        for _ in range(self.settings.layers or 0):
            layers.append(_Neighbours.apply(layers[-1], *graph))
        return torch.stack(layers).mean(0)

    def loss(self, records: Indices, progress: float) -> Tensor:
        """Return the loss of BPR of interactions and their negatives; see `Network.loss`."""
        size = len(records), self.settings.negatives or 0
        others = self.n_users + self.source.integers(self.n_items, size=size)
        places = self.tensor(np.column_stack([self._pairs[records], others]))
        outputs = functional.embedding(places, self.propagated())
        # −ln σ(x_ui − x_uj), and λ/2 of the squared first factors.
        difference = (outputs[:, :1] * (outputs[:, 1:2] - outputs[:, 2:])).sum(2)
        return (
            functional.softplus(-difference).sum()
            + _DECAY / 2 * self.factors(places).square().sum()
        )

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
    return functional.embedding_bag(
        neighbour, matrix, start, mode="sum", per_sample_weights=weight, include_last_offset=True
    )
