"""Networks of users' histories: SASRec and GRU4Rec of their order, Mult-VAE of their items."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.functional import normalize

from dpaudit.data.interactions import Interactions
from dpaudit.recommenders.base import RowModel
from dpaudit.recommenders.networks.network import (
    Array,
    Indices,
    Network,
    binary,
    drawn,
    embedding,
    linear,
)

# The number of units of states that are computed at a time after the training.
_STATES = 2**22
_TINY = 1e-8


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


class Sequences(Network):
    """A network that computes a user's state from the last `length` items.

    Items are in the order of `Interactions.table`: of time, and those of one time by item; by item
    alone if the data have no times. A rating of 0 is left out. Pieces of `length` items are the
    records: the network predicts the item after each one from those of the piece up to it.
    """

    def build(self) -> None:
        """Cut sequences into pieces."""
        self.length = self.settings.length or 1
        self.pieces = pieces(self.interactions, self.length)

    @property
    def records(self) -> int:
        """The number of pieces."""
        return len(self.pieces.items)

    def loss(self, records: Indices, progress: float) -> Tensor:
        """Return the losses of the items that follow; see `Network.loss`."""
        items, following, weights = (self.tensor(part[records]) for part in self.pieces[:3])
        return (weights * self.losses(self(items), following)).sum()

    @abstractmethod
    def forward(self, items: Tensor) -> Tensor:
        """Return the states `(n, L, d)` after each item of sequences `(n, L)`.

        What a state is computed from stands before it.
        """

    @abstractmethod
    def losses(self, states: Tensor, following: Tensor) -> Tensor:
        """Return the loss of each item that follows `(n, L)`.

        Args:
            states: `(n, L, d)`.
            following: the items `(n, L)`.
        """

    @abstractmethod
    def outputs(self) -> tuple[Tensor, Tensor]:
        """Return what states are multiplied by `(M, d)`, and the biases `(M,)`."""

    def fitted(self) -> RowModel:
        """Return a factorisation whose users have their last states; 0 without items."""
        size = max(1, _STATES // (self.length * self.settings.dimensions))
        users = []
        for start in range(0, self.n_users, size):
            part = slice(start, start + size)
            states, counts = self(self.tensor(self.pieces.last[part])), self.pieces.counts[part]
            last = states[torch.arange(len(counts)), self.tensor(np.maximum(counts - 1, 0))]
            users.append(last * self.tensor(counts[:, None] > 0))
        return self.factorisation(torch.cat(users), *self.outputs())


class SASRec(Sequences):
    """A network of self-attention (Kang & McAuley 2018, arXiv:1808.09781, section III).

    The factors of items and places are added, and go through blocks of self-attention and of a
    network of two layers, both with a residual connection, layer normalisation and dropout
    (equations 1 to 6). The score of an item is the product of its factors and the state. The loss
    is the logistic one of the item that follows and of `negatives` items, drawn uniformly from
    all.
    """

    def build(self) -> None:
        """Draw factors and layers."""
        super().build()
        d = self.settings.dimensions
        self.items = embedding(self.source, self.n_items, d)
        self.places = embedding(self.source, self.length, d)
        self.blocks = nn.ModuleList(
            _Block(self.source, d) for _ in range(self.settings.layers or 0)
        )
        self.last = nn.LayerNorm(d, _TINY)

    def forward(self, items: Tensor) -> Tensor:
        """Return states; see `Sequences.forward`."""
        scale = math.sqrt(self.settings.dimensions)
        x = self.dropped(self.items(items) * scale + self.places.weight)
        for block in self.blocks:
            # Queries, keys and values of all heads `(n, L, 3 d)`.
            mixed = block.attention(block.before_attention(x))
            parts = mixed.unflatten(2, (3, self.settings.heads or 1, -1)).permute(2, 0, 3, 1, 4)
            # Attention to a place itself and those before it.
            attended = functional.scaled_dot_product_attention(
                parts[0], parts[1], parts[2], is_causal=True
            )
            x = x + self.dropped(attended.transpose(1, 2).flatten(2))
            x = x + self.dropped(block.layers(block.before_layers(x)))
        return self.last(x)

    def losses(self, states: Tensor, following: Tensor) -> Tensor:
        """Return logistic losses; see `Sequences.losses`."""
        n, length = following.shape
        size = drawn(n), length, self.settings.negatives or 0
        others = self.source.integers(self.n_items, size=size)[:n]
        asked = torch.cat([following[..., None], self.tensor(others)], 2)
        scores = (states[..., None, :] * self.items(asked)).sum(3)
        wanted = torch.zeros_like(scores)
        wanted[..., 0] = 1
        criterion = functional.binary_cross_entropy_with_logits
        return criterion(scores, wanted, reduction="none").sum(2)

    def outputs(self) -> tuple[Tensor, Tensor]:
        """Return the factors of items, and no biases; see `Sequences.outputs`."""
        items = self.items.weight
        return items, items.new_zeros(len(items))


class _Block(nn.Module):
    def __init__(self, source: np.random.Generator, dimensions: int) -> None:
        super().__init__()
        self.before_attention = nn.LayerNorm(dimensions, _TINY)
        self.attention = linear(source, dimensions, 3 * dimensions)
        self.before_layers = nn.LayerNorm(dimensions, _TINY)
        first, second = (linear(source, dimensions, dimensions) for _ in range(2))
        self.layers = nn.Sequential(first, nn.ReLU(), second)


class GRU4Rec(Sequences):
    """A network with one layer of gated recurrent units (arXiv:1511.06939, section 3).

    Inputs are items as one-hot vectors, so an item has a row of weights. The score of an item is
    its bias and the product of its factors and the state. The loss of an item i that follows is the
    cross-entropy `−log(e^{r_i} / (e^{r_i} + Σ_j e^{r_j}))` over `negatives` items j
    (arXiv:1706.03847, section 3.1). They are drawn uniformly in each step and shared by all
    records, as those of a mini-batch are; drawn by popularity, they would take what is popular out
    of the scores.
    """

    def build(self) -> None:
        """Draw weights uniformly in `±1/√d`; biases of items are 0."""
        super().build()
        d = self.settings.dimensions

        def uniform(*shape: int) -> Tensor:
            draws = (2 * self.source.random(shape, np.float32) - 1) / math.sqrt(d)
            return nn.Parameter(torch.from_numpy(draws.astype(np.float32)))

        self.inputs, self.inputs_bias = uniform(self.n_items, 3 * d), uniform(3 * d)
        self.recurrent, self.recurrent_bias = uniform(3 * d, d), uniform(3 * d)
        self.items = uniform(self.n_items, d)
        self.biases = nn.Parameter(torch.zeros(self.n_items))

    def forward(self, items: Tensor) -> Tensor:
        """Return states; see `Sequences.forward`."""
        d = self.settings.dimensions
        given = functional.embedding(items.T, self.inputs) + self.inputs_bias
        state, states = given.new_zeros(len(items), d), []
        for inputs in given:
            reset, update, new = inputs.chunk(3, 1)
            hidden = functional.linear(state, self.recurrent, self.recurrent_bias).chunk(3, 1)
            # r = σ(…), z = σ(…), ĥ = tanh(W x + r * (U h)), h = ĥ + z * (h − ĥ)
            candidate = torch.addcmul(new, (hidden[0] + reset).sigmoid(), hidden[2]).tanh()
            state = torch.lerp(candidate, state, (hidden[1] + update).sigmoid())
            states.append(state)
        return self.dropped(torch.stack(states, 1))

    def losses(self, states: Tensor, following: Tensor) -> Tensor:
        """Return the cross-entropies; see `Sequences.losses`."""
        others = self.source.integers(self.n_items, size=self.settings.negatives or 1)
        drawn_items = self.tensor(others)
        wanted = (states * functional.embedding(following, self.items)).sum(2)
        wanted = wanted + self.biases[following]
        scores = functional.linear(states, self.items[drawn_items], self.biases[drawn_items])
        return torch.logsumexp(torch.cat([wanted[..., None], scores], 2), 2) - wanted

    def outputs(self) -> tuple[Tensor, Tensor]:
        """Return the factors of items and their biases; see `Sequences.outputs`."""
        return self.items, self.biases


# The hidden layers have 600 units for 200 dimensions in the paper.
_HIDDEN = 3
# The largest weight of the divergence from the prior.
_MOST = 0.2
# The number of numbers in the rows that are encoded at a time after the training.
_NUMBERS = 2**24


class MultVAE(Network):
    """A variational autoencoder with the multinomial likelihood (arXiv:1802.05814, section 2).

    Layers have `M`, `3 d`, `d`, `3 d` and `M` units; the hidden ones are tanh. The loss of a user
    with the row x of 0 and 1 is `−Σ_i x_i ln π_i(z) + β KL(N(μ, σ²) ‖ N(0, 1))` (equation 4), in
    which π is the softmax of the scores. β grows linearly with the training to 0.2.
    """

    def build(self) -> None:
        """Take the rows of users who have interactions, and draw layers."""
        self._rows = binary(self.interactions)
        self._active = np.flatnonzero(np.diff(self._rows.indptr))
        d, hidden = self.settings.dimensions, _HIDDEN * self.settings.dimensions
        self.encoder = linear(self.source, self.n_items, hidden)
        self.code = linear(self.source, hidden, 2 * d)
        self.decoder = linear(self.source, d, hidden)
        self.last = linear(self.source, hidden, self.n_items)

    @property
    def records(self) -> int:
        """The number of users with interactions."""
        return len(self._active)

    def loss(self, records: Indices, progress: float) -> Tensor:
        """Return the negative bound on the likelihood of users' rows; see `Network.loss`."""
        x = self.tensor(self._rows[self._active[records]].toarray())
        mean, log_variance = self.encoded(x)
        shape = drawn(len(records)), self.settings.dimensions
        noise = self.source.standard_normal(shape, np.float32)[: len(records)]
        code = mean + self.tensor(noise) * (log_variance / 2).exp()
        likelihood = (x * self.last(self.decoded(code)).log_softmax(1)).sum()
        # KL = Σ (σ² + μ² − 1 − ln σ²) / 2
        divergence = (log_variance.exp() + mean.square() - 1 - log_variance).sum() / 2
        return _MOST * progress * divergence - likelihood

    def encoded(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return means and logarithms of variances `(n, d)` of the codes of rows `(n, M)`."""
        hidden = self.encoder(self.dropped(normalize(x))).tanh()
        mean, log_variance = self.code(hidden).chunk(2, 1)
        return mean, log_variance

    def decoded(self, code: Tensor) -> Tensor:
        """Return the last hidden layer `(n, 3 d)` of codes `(n, d)`."""
        return self.decoder(code).tanh()

    def fitted(self) -> RowModel:
        """Return a factorisation: the last hidden layer of a user's mean code, and its weights."""
        size = max(1, _NUMBERS // max(1, self.n_items))
        hidden = [
            self.decoded(self.encoded(self.tensor(self._rows[start : start + size].toarray()))[0])
            for start in range(0, self.n_users, size)
        ]
        return self.factorisation(torch.cat(hidden), self.last.weight, self.last.bias)
