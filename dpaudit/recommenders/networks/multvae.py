"""Mult-VAE: a variational autoencoder of users' rows (Liang et al. 2018)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor
from torch.nn.functional import normalize

from dpaudit.recommenders.base import RowModel
from dpaudit.recommenders.networks.stack import (
    Array,
    Indices,
    Initial,
    Stack,
    applied,
    binary,
    linear,
    padded,
)

# The hidden layers have 600 units for 200 dimensions in the paper.
_HIDDEN = 3
# The largest weight of the divergence from the prior.
_MOST = 0.2
# The number of numbers in the rows that are encoded at a time after the training.
_TOGETHER = 2**24


class MultVAE(Stack):
    """Variational autoencoders with the multinomial likelihood (arXiv:1802.05814, section 2).

    Layers have `M`, `3 d`, `d`, `3 d` and `M` units; the hidden ones are tanh. The loss of a user
    with the row x of 0 and 1 is `−Σ_i x_i ln π_i(z) + β KL(N(μ, σ²) ‖ N(0, 1))` (equation 4), in
    which π is the softmax of the scores. β grows linearly with the training to 0.2.
    """

    def prepare(self) -> None:
        """Take the rows of users who have interactions."""
        self._rows = [binary(interactions) for interactions in self.data]
        self._active = [np.flatnonzero(np.diff(matrix.indptr)) for matrix in self._rows]

    def initial(self, source: np.random.Generator) -> Initial:
        """Draw layers."""
        d = self.settings.dimensions
        return {
            **linear(source, self.items, _HIDDEN * d, "encoder"),
            **linear(source, _HIDDEN * d, 2 * d, "code"),
            **linear(source, d, _HIDDEN * d, "decoder"),
            **linear(source, _HIDDEN * d, self.items, "last"),
        }

    def counts(self) -> list[int]:
        """Return the numbers of users with interactions."""
        return [len(users) for users in self._active]

    def loss(self, records: Sequence[Indices], progress: float) -> Tensor:
        """Return the negative bound on the likelihood of users' rows; see `Stack.loss`."""
        parts = zip(self._rows, self._active, records, strict=True)
        # The row of a padding user is 0, and adds nothing to the likelihood.
        x = self.tensor(padded([_dense(matrix, active[part]) for matrix, active, part in parts]))
        counts = [np.ones(len(part), np.float32) for part in records]
        weight = self.tensor(padded(counts))
        n = x.shape[1]
        mean, log_variance = self.encoded(x, self.dropped((n, self.items)))
        noise = np.stack(
            [s.standard_normal((n, self.settings.dimensions), np.float32) for s in self.sources]
        )
        code = mean + self.tensor(noise) * (log_variance / 2).exp()
        scores = applied(self.parameters, "last", self.decoded(code))
        likelihood = (x * scores.log_softmax(2)).sum(2)
        # KL = Σ (σ² + μ² − 1 − ln σ²) / 2
        divergence = (log_variance.exp() + mean.square() - 1 - log_variance).sum(2) / 2
        return (weight * (_MOST * progress * divergence - likelihood)).sum()

    def encoded(self, x: Tensor, kept: Tensor | float = 1.0) -> tuple[Tensor, Tensor]:
        """Return means and logarithms of variances `(W, n, d)` of the codes of rows `(W, n, M)`.

        Args:
            x: the rows.
            kept: what their normalised entries are multiplied by.
        """
        hidden = applied(self.parameters, "encoder", normalize(x, dim=2) * kept).tanh()
        mean, log_variance = applied(self.parameters, "code", hidden).chunk(2, 2)
        return mean, log_variance

    def decoded(self, code: Tensor) -> Tensor:
        """Return the last hidden layer `(W, n, 3 d)` of codes `(W, n, d)`."""
        return applied(self.parameters, "decoder", code).tanh()

    def models(self) -> list[RowModel]:
        """Return factorisations: the last hidden layer of a user's mean code, and its weights."""
        size = max(1, _TOGETHER // max(1, self.items * len(self.data)))
        hidden = []
        for start in range(0, self.users, size):
            part = np.arange(start, min(start + size, self.users))
            x = self.tensor(np.stack([_dense(matrix, part) for matrix in self._rows]))
            hidden.append(self.decoded(self.encoded(x)[0]))
        stack = self.parameters
        return self.factorisations(torch.cat(hidden, 1), stack["last.weight"], stack["last.bias"])


def _dense(matrix: csr_array, users: Indices) -> Array:
    """Return rows as an array."""
    return matrix[users].toarray()
