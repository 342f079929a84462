"""GRU4Rec: a recurrent network over a user's last items (Hidasi et al. 2016)."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from dpaudit.recommenders.networks.sequences import Dropped, Sequences
from dpaudit.recommenders.networks.stack import Array, Indices, Initial, rows


class GRU4Rec(Sequences):
    """Networks with one layer of gated recurrent units (arXiv:1511.06939, section 3).

    Inputs are items as one-hot vectors, so an item has a row of weights. The score of an item is
    its bias and the product of its factors and the state. The loss of an item i that follows is the
    cross-entropy `−log(e^{r_i} / (e^{r_i} + Σ_j e^{r_j}))` over `negatives` items j
    (arXiv:1706.03847, section 3.1). They are drawn uniformly in each step and shared by all
    records, as those of a mini-batch are; drawn by popularity, they would take what is popular out
    of the scores.
    """

    def initial(self, source: np.random.Generator) -> Initial:
        """Draw weights uniformly in `±1/√d`; biases of items are 0."""
        d = self.settings.dimensions
        return {
            "inputs": _uniform(source, (self.items, 3 * d), d),
            "inputs.bias": _uniform(source, (3 * d,), d),
            "recurrent.weight": _uniform(source, (3 * d, d), d),
            "recurrent.bias": _uniform(source, (3 * d,), d),
            "items": _uniform(source, (self.items, d), d),
            "biases": np.zeros((self.items, 1), np.float32),
        }

    def states(self, items: Indices, dropped: Dropped) -> Tensor:
        """Return the states after each item; see `Sequences.states`."""
        stack, (_, n, length) = self.parameters, items.shape
        weight = stack["recurrent.weight"].transpose(1, 2)
        bias = stack["recurrent.bias"][:, None]
        # One row of places at a time, so that a step of the recurrence has its inputs together.
        index = self.flat(items.transpose(0, 2, 1), self.items)
        inputs = rows(stack["inputs"], index, length, n) + stack["inputs.bias"][:, None, None]
        state = weight.new_zeros(len(weight), n, self.settings.dimensions)
        states = []
        for given in inputs.unbind(1):
            (reset, update, new), (given_reset, given_update, given_new) = (
                part.chunk(3, 2) for part in (torch.baddbmm(bias, state, weight), given)
            )
            # r = σ(…), z = σ(…), ĥ = tanh(W x + r * (U h)), h = ĥ + z * (h − ĥ)
            candidate = torch.addcmul(given_new, (reset + given_reset).sigmoid(), new).tanh()
            state = torch.lerp(candidate, state, (update + given_update).sigmoid())
            states.append(state)
        return torch.stack(states, 2) * dropped((n, length, self.settings.dimensions))

    def losses(self, states: Tensor, following: Indices) -> Tensor:
        """Return the cross-entropies; see `Sequences.losses`."""
        size = self.settings.negatives or 1
        others = np.stack([source.integers(self.items, size=size) for source in self.sources])
        items, biases = self.outputs()
        places, drawn = self.flat(following, self.items), self.flat(others, self.items)
        wanted = (states * rows(items, places, *following.shape[1:])).sum(3, keepdim=True)
        wanted = wanted + rows(biases[..., None], places, *following.shape[1:])
        scores = torch.baddbmm(
            rows(biases[..., None], drawn, size).transpose(1, 2),
            states.flatten(1, 2),
            rows(items, drawn, size).transpose(1, 2),
        ).unflatten(1, following.shape[1:])
        return torch.logsumexp(torch.cat([wanted, scores], 3), 3) - wanted[..., 0]

    def outputs(self) -> tuple[Tensor, Tensor]:
        """Return the factors of items and their biases; see `Sequences.outputs`."""
        return self.parameters["items"], self.parameters["biases"][..., 0]


def _uniform(source: np.random.Generator, shape: tuple[int, ...], dimensions: int) -> Array:
    return ((2 * source.random(shape, np.float32) - 1) / math.sqrt(dimensions)).astype(np.float32)
