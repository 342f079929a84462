"""Mult-VAE: a variational autoencoder of users' rows (Liang et al. 2018)."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from dpaudit.recommenders.base import RowModel
from dpaudit.recommenders.networks.network import Indices, Network, binary, drawn, linear

# The hidden layers have 600 units for 200 dimensions in the paper.
_HIDDEN = 3
# The largest weight of the divergence from the prior.
_MOST = 0.2
# The number of numbers in the rows that are encoded at a time after the training.
_TOGETHER = 2**24


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
        size = max(1, _TOGETHER // max(1, self.n_items))
        hidden = [
            self.decoded(self.encoded(self.tensor(self._rows[start : start + size].toarray()))[0])
            for start in range(0, self.n_users, size)
        ]
        return self.factorisation(torch.cat(hidden), self.last.weight, self.last.bias)
