"""Networks of users' histories, and the training of a network, plain or by DP-SGD."""

from __future__ import annotations

import math
import warnings
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.functional import normalize

from dpaudit.core.streams import generator
from dpaudit.data.interactions import Interactions
from dpaudit.recommenders.base import FactorModel, Indices, RowModel, Scores
from dpaudit.recommenders.networks import network as networks
from dpaudit.recommenders.networks.settings import Name, Settings, Unit

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

    items: networks.Indices
    following: networks.Indices
    weights: networks.Array
    last: networks.Indices
    counts: networks.Indices


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


class Sequences(networks.Network):
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

    def loss(self, records: networks.Indices, progress: float) -> Tensor:
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

    def states_after(self, items: networks.Indices, counts: networks.Indices) -> Tensor:
        """Return the states after the first items of sequences `(n, d)`; 0 after none.

        Args:
            items: the sequences, filled up at their ends `(n, L)`.
            counts: the numbers of these items `(n,)`.
        """
        places = self.tensor(np.maximum(counts - 1, 0))
        last = self(self.tensor(items))[torch.arange(len(items)), places]
        return last * self.tensor(counts[:, None] > 0)

    def fitted(self) -> RowModel:
        """Return a factorisation whose users have their last states; 0 without items."""
        size = max(1, _STATES // (self.length * self.settings.dimensions))
        parts = (slice(start, start + size) for start in range(0, self.n_users, size))
        users = [self.states_after(self.pieces.last[at], self.pieces.counts[at]) for at in parts]
        model = self.factorisation(torch.cat(users), *self.outputs())
        return _OfHistories(model.seen, model.users, model.items, model.constants)


@dataclass(frozen=True, eq=False)
class _OfHistories(FactorModel):
    """A factorisation of users' states, whose network computes the states after histories."""

    def scores_after(self, histories: Indices, items: Indices) -> Scores:
        """Score items as those that follow histories; see `AnswersHistories`."""
        network: Sequences = self.state
        scores = np.empty(items.shape, np.float32)
        size = max(1, _STATES // (max(network.length, items.shape[1]) * self.items.shape[1]))
        with networks.single_threaded(), torch.no_grad():
            for start in range(0, len(items), size):
                part = slice(start, start + size)
                recent = histories[part, -network.length :]
                counts = (recent >= 0).sum(1)
                filled = np.zeros((len(recent), network.length), np.int64)
                filled[np.arange(network.length) < counts[:, None]] = recent[recent >= 0]
                states = network.states_after(filled, counts).cpu().numpy()
                # The last factor of an item is its bias.
                factors, biases = self.items[items[part], :-1], self.items[items[part], -1]
                scores[part] = np.einsum("nd,nqd->nq", states, factors) + biases
        return scores


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
        self.items = networks.embedding(self.source, self.n_items, d)
        self.places = networks.embedding(self.source, self.length, d)
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
        size = networks.drawn(n), length, self.settings.negatives or 0
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
        self.attention = networks.linear(source, dimensions, 3 * dimensions)
        self.before_layers = nn.LayerNorm(dimensions, _TINY)
        first, second = (networks.linear(source, dimensions, dimensions) for _ in range(2))
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


class MultVAE(networks.Network):
    """A variational autoencoder with the multinomial likelihood (arXiv:1802.05814, section 2).

    Layers have `M`, `3 d`, `d`, `3 d` and `M` units; the hidden ones are tanh. The loss of a user
    with the row x of 0 and 1 is `−Σ_i x_i ln π_i(z) + β KL(N(μ, σ²) ‖ N(0, 1))` (equation 4), in
    which π is the softmax of the scores. β grows linearly with the training to 0.2.
    """

    def build(self) -> None:
        """Take the rows of users who have interactions, and draw layers."""
        self._rows = networks.binary(self.interactions)
        self._active = np.flatnonzero(np.diff(self._rows.indptr))
        d, hidden = self.settings.dimensions, _HIDDEN * self.settings.dimensions
        self.encoder = networks.linear(self.source, self.n_items, hidden)
        self.code = networks.linear(self.source, hidden, 2 * d)
        self.decoder = networks.linear(self.source, d, hidden)
        self.last = networks.linear(self.source, hidden, self.n_items)

    @property
    def records(self) -> int:
        """The number of users with interactions."""
        return len(self._active)

    def loss(self, records: networks.Indices, progress: float) -> Tensor:
        """Return the negative bound on the likelihood of users' rows; see `Network.loss`."""
        x = self.tensor(self._rows[self._active[records]].toarray())
        mean, log_variance = self.encoded(x)
        shape = networks.drawn(len(records)), self.settings.dimensions
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


FORMS: dict[Name, type[networks.Network]] = {
    "mf": networks.Factorisation,
    "ncf": networks.Neural,
    "two-tower": networks.TwoTower,
    "lightgcn": networks.LightGCN,
    "multvae": MultVAE,
    "sasrec": SASRec,
    "gru4rec": GRU4Rec,
}
# Takes the users of the sampled records `(n,)`, their items, the wanted answers, and which of these
# count `(n, l)`; all by default.
Step = Callable[..., None]


def trained_model(
    model: Name, settings: Settings, interactions: Interactions, seed: int, device: str = "cpu"
) -> RowModel:
    """Train a network.

    Args:
        model: the form.
        settings: its settings.
        interactions: what to train on.
        seed: decides everything that is random.
        device: where it is trained, as PyTorch names it.
    """
    with networks.single_threaded():
        network = FORMS[model](settings, interactions, generator(seed, "torch")).to(device)
        train(network)
        return fitted(network)


def trained_on(
    network: networks.Network, interactions: Interactions, epochs: int, seed: int
) -> RowModel:
    """Go on with a training, on other interactions.

    Adam's averages start anew, and so does what depends on the share of the training that is done.

    Args:
        network: the trained network.
        interactions: what to go on with.
        epochs: how often it goes through them.
        seed: decides everything that is random.
    """
    settings, source = replace(network.settings, epochs=epochs), generator(seed, "torch, going on")
    with networks.single_threaded():
        further = type(network)(settings, interactions, source)
        further.load_state_dict(network.state_dict())
        train(further.to(next(network.parameters()).device))
        return fitted(further)


def train(network: networks.Network) -> None:
    """Follow the gradients by Adam.

    In each epoch the network goes through its records in a new random order, in steps of equal
    size up to one.
    """
    settings, count = network.settings, network.records
    optimizer = torch.optim.Adam(network.parameters(), settings.learning_rate, fused=True)
    steps = settings.steps
    for epoch in range(settings.epochs):
        order = network.source.permutation(count)
        for step in range(steps):
            records = order[count * step // steps : count * (step + 1) // steps]
            optimizer.zero_grad()
            network.loss(records, (epoch * steps + step) / (settings.epochs * steps)).backward()
            optimizer.step()


def fitted(network: networks.Network) -> RowModel:
    """Return the trained model of a network, with the network, whose training can go on."""
    network.eval()
    with torch.no_grad():
        return replace(network.fitted(), state=network)


def private_model(
    model: Name,
    settings: Settings,
    interactions: Interactions,
    seed: int,
    steps: int,
    noise_multiplier: float,
    max_grad_norm: float,
    clip: Unit = "interaction",
    watch: Callable[..., None] | None = None,
) -> RowModel:
    """Train `mf` or `ncf` by DP-SGD.

    Args:
        model: the form.
        settings: its settings.
        interactions: what to train on.
        seed: decides everything that is random.
        steps: the number of steps.
        noise_multiplier: see `private_step`.
        max_grad_norm: likewise.
        clip: what a record is: an interaction, or all of a user.
        watch: see `private_step`; it is told what a record is.
    """
    network: Any = FORMS[model](settings, interactions, generator(seed, "torch"))
    with networks.single_threaded(), torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        # PyTorch says of Opacus' hooks that indices have no gradients.
        warnings.filterwarnings("ignore", "Full backward hook", UserWarning)
        # Of the CPU alone: torch.manual_seed would seed GPUs too.
        torch.default_generator.manual_seed(seed)
        # Parameters too are drawn from PyTorch's random numbers.
        for name, layer in network.named_modules():
            if isinstance(layer, nn.Linear):
                layer.reset_parameters()
            elif isinstance(layer, nn.Embedding) and name != "biases":
                layer.weight.data = torch.randn(layer.weight.shape) * networks.SPREAD
        optimizer = torch.optim.Adam(network.parameters(), settings.learning_rate)
        rate, watched = settings.sampling_rate, watch and partial(watch, unit=clip)
        step = private_step(network, optimizer, noise_multiplier, max_grad_norm, rate, watched)
        # The user of each record, and its interactions, which follow each other.
        users = owners = network.tensor(network.owners)
        start, counts = torch.arange(len(owners)), torch.ones_like(owners)
        if clip == "user":
            users = torch.arange(network.n_users)
            counts = owners.bincount(minlength=len(users))
            start = counts.cumsum(0) - counts
        # The last entry stands for what a record with fewer interactions lacks.
        chosen = functional.pad(network.tensor(network.chosen), (0, 1))
        positive = functional.pad(network.tensor(network.positive), (0, 1))
        for _ in range(steps):
            batch = (torch.rand(len(users), dtype=torch.float64) < rate).nonzero()[:, 0]
            # How many interactions a user has may decide no draw of others', nor of later steps.
            source = None
            if clip == "user":
                source = torch.Generator().manual_seed(int(torch.randint(2**62, ())))
            length = max([1, *counts[batch].tolist()])
            shape = length, len(batch), settings.negatives or 0
            others = torch.randint(network.n_items, shape, generator=source).transpose(0, 1)
            places = torch.arange(length)
            counted = places < counts[batch, None]
            rows = torch.where(counted, start[batch, None] + places, len(owners))
            items = torch.cat([chosen[rows][..., None], others], 2)
            wanted = torch.zeros(items.shape)
            wanted[..., 0] = positive[rows]
            counted = counted[..., None].expand_as(items)
            step(users[batch], *(part.flatten(1) for part in (items, wanted, counted)))
        return fitted(network)


def private_step(
    network: Any,
    optimizer: Any,
    noise_multiplier: float,
    max_grad_norm: float,
    rate: float = 1.0,
    watch: Callable[..., None] | None = None,
) -> Step:
    """Return a step of DP-SGD by Opacus on the losses of the sampled records.

    It clips the gradient of each record over all parameters to the norm `max_grad_norm`, adds
    Gaussian noise of standard deviation `noise_multiplier * max_grad_norm` to their sum, and gives
    the result to the optimizer (Abadi et al. 2016, arXiv:1607.00133, algorithm 1).

    Args:
        network: the network.
        optimizer: moves its weights.
        noise_multiplier: the standard deviation of the noise in units of the norm.
        max_grad_norm: the norm.
        rate: the probability with which a record is sampled, for `watch`.
        watch: gets the optimizer, the network and an accountant, if it is given.
    """
    from opacus.accountants import RDPAccountant
    from opacus.grad_sample import GradSampleModuleFastGradientClipping
    from opacus.optimizers import DPOptimizerFastGradientClipping
    from opacus.utils.fast_gradient_clipping_utils import DPTensorFastGradientClipping

    called = GradSampleModuleFastGradientClipping(
        network, loss_reduction="sum", max_grad_norm=max_grad_norm
    )
    noised = DPOptimizerFastGradientClipping(
        optimizer,
        noise_multiplier=noise_multiplier,
        max_grad_norm=max_grad_norm,
        expected_batch_size=None,
        loss_reduction="sum",
    )
    criterion = nn.BCEWithLogitsLoss(reduction="none")
    if watch is not None:
        accountant = RDPAccountant()
        noised.attach_step_hook(accountant.get_optimizer_hook_fn(sample_rate=rate))
        watch(noised, model=called, accountant=accountant)

    def step(users: Any, items: Any, wanted: Any, counted: Any = 1) -> None:
        noised.zero_grad()
        if len(users):
            losses = (counted * criterion(called(users, items), wanted)).sum(1)
            DPTensorFastGradientClipping(called, noised, losses, "sum").backward()
        else:
            # Opacus cannot call a network on no record, and the noise is due all the same.
            called.per_sample_gradient_norms = torch.zeros(0)
            for parameter in noised.params:
                parameter.grad = parameter.new_zeros(parameter.shape)
        noised.step()

    return step
