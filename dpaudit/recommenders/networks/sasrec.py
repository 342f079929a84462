"""SASRec: self-attention over a user's last items (Kang & McAuley 2018)."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, scaled_dot_product_attention

from dpaudit.recommenders.networks.sequences import Dropped, Sequences
from dpaudit.recommenders.networks.stack import (
    Array,
    Indices,
    Initial,
    Parameters,
    applied,
    embedding,
    linear,
    rows,
)

_TINY = 1e-8


class SASRec(Sequences):
    """Networks of self-attention (arXiv:1808.09781, section III).

    The factors of items and places are added, and go through blocks of self-attention and of a
    network of two layers, both with a residual connection, layer normalisation and dropout
    (equations 1 to 6). The score of an item is the product of its factors and the state. The loss
    is the logistic one of the item that follows and of `negatives` items, drawn uniformly from
    all.
    """

    def initial(self, source: np.random.Generator) -> Initial:
        """Draw factors and layers; normalisations change nothing yet."""
        d, length = self.settings.dimensions, self.settings.length or 1
        parameters: dict[str, Array] = {
            "items": embedding(source, self.items, d),
            "places": embedding(source, length, d),
            **_normalisation("last", d),
        }
        for block in range(self.settings.layers or 0):
            parameters |= {
                **_normalisation(f"{block}.attention", d),
                **linear(source, d, 3 * d, f"{block}.attention"),
                **_normalisation(f"{block}.layers", d),
                **linear(source, d, d, f"{block}.layers.0"),
                **linear(source, d, d, f"{block}.layers.1"),
            }
        return parameters

    def states(self, items: Indices, dropped: Dropped) -> Tensor:
        """Return the states after each item; see `Sequences.states`."""
        stack, shape = self.parameters, (*items.shape[1:], self.settings.dimensions)
        factors = rows(stack["items"], self.flat(items, self.items), *items.shape[1:])
        x = (factors * math.sqrt(shape[2]) + stack["places"][:, None]) * dropped(shape)
        x = x.flatten(1, 2)
        for block in range(self.settings.layers or 0):
            inside = _normalised(stack, f"{block}.attention", x)
            attended = self._attended(applied(stack, f"{block}.attention", inside), shape)
            x = x + attended * _flat(dropped(shape))
            inside = _normalised(stack, f"{block}.layers", x)
            hidden = applied(stack, f"{block}.layers.0", inside).relu()
            x = x + applied(stack, f"{block}.layers.1", hidden) * _flat(dropped(shape))
        return _normalised(stack, "last", x).unflatten(1, shape[:2])

    def _attended(self, mixed: Tensor, shape: tuple[int, ...]) -> Tensor:
        """Return attention to a place itself and those before it `(W, n L, d)`.

        Args:
            mixed: queries, keys and values of all heads `(W, n L, 3 d)`.
            shape: `(n, L, d)`.
        """
        n, length, d = shape
        heads = self.settings.heads or 1
        parts = mixed.view(-1, length, 3, heads, d // heads).permute(2, 0, 3, 1, 4)
        queries, keys, values = parts.unbind(0)
        attended = scaled_dot_product_attention(queries, keys, values, is_causal=True)
        return attended.transpose(1, 2).reshape(len(mixed), n * length, d)

    def losses(self, states: Tensor, following: Indices) -> Tensor:
        """Return logistic losses; see `Sequences.losses`."""
        negatives = self.settings.negatives or 0
        shape = *following.shape[1:], negatives
        others = np.stack([source.integers(self.items, size=shape) for source in self.sources])
        asked = np.concatenate([following[..., None], others], 3)
        factors = rows(self.parameters["items"], self.flat(asked, self.items), *asked.shape[1:])
        logits = (states[..., None, :] * factors).sum(4)
        wanted = torch.zeros_like(logits)
        wanted[..., 0] = 1
        return binary_cross_entropy_with_logits(logits, wanted, reduction="none").sum(3)

    def outputs(self) -> tuple[Tensor, Tensor]:
        """Return the factors of items, and no biases; see `Sequences.outputs`."""
        items = self.parameters["items"]
        return items, items.new_zeros(items.shape[:2])


def _flat(kept: Tensor | float) -> Tensor | float:
    return kept.flatten(1, 2) if isinstance(kept, Tensor) else kept


def _normalisation(name: str, dimensions: int) -> dict[str, Array]:
    """Return the scale and the shift of a normalisation that changes nothing."""
    return {
        f"{name}.scale": np.ones(dimensions, np.float32),
        f"{name}.shift": np.zeros(dimensions, np.float32),
    }


def _normalised(stack: Parameters, name: str, x: Tensor) -> Tensor:
    """Return rows `(W, n, d)` with mean 0 and variance 1, scaled and shifted (equation 6)."""
    normal = torch.nn.functional.layer_norm(x, x.shape[-1:], eps=_TINY)
    return torch.addcmul(stack[f"{name}.shift"][:, None], normal, stack[f"{name}.scale"][:, None])
