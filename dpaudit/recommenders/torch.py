"""Factorisation and neural collaborative filtering with PyTorch (https://pytorch.org)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass as parameters
from scipy.sparse import csr_array

from dpaudit.core.errors import ConfigError
from dpaudit.core.plugin import STRICT
from dpaudit.recommenders.base import (
    Indices,
    Recommender,
    RowModel,
    Scores,
    required,
    trained,
    with_biases,
)
from dpaudit.recommenders.networks import (
    factorisation,
    neural,
    plain_step,
    private_step,
    single_threaded,
)


@dataclass(frozen=True, eq=False)
class _Scored(RowModel):
    torch: Any
    network: Any

    def rows(self, users: Indices) -> Scores:
        items = self.torch.arange(self.seen.shape[1])[None]
        with single_threaded(self.torch, 0), self.torch.no_grad():
            rows = [self.network(self.torch.tensor([user]), items) for user in users.tolist()]
            return self.torch.cat(rows).numpy()


@parameters(frozen=True, config=STRICT)
class Torch(Recommender):
    """Train a network on interactions and negatives with the logistic loss, on one thread.

    Each step takes every interaction with probability `sampling_rate`, draws its negatives
    uniformly from all items, whatever its user has rated, and follows the sum of the gradients by
    Adam. A rating of 0 is a negative example, and every other a positive one.

    If `noise_multiplier` is above 0, the training is DP-SGD by Opacus: it clips the gradient of an
    interaction, together with its negatives, and adds Gaussian noise to the sum. Negatives, rates
    and the number of steps depend on no interaction. So one interaction more or less adds or
    removes one term of norm `max_grad_norm` or less in the sum of each step that takes it, and
    scores and factors are (`epsilon(δ)`, δ)-differentially private for the addition or removal of
    one interaction. This takes PyTorch's numbers, which are rounded and drawn from a seed of 31
    bits, for exact and random, and the numbers of users and items for public. Neither all
    interactions of a user together are covered, nor lists, which leave out what a user has seen.

    Attributes:
        model: `mf` (factorisation with biases of items) or `ncf` (neural collaborative filtering).
        dimensions: the number of factors of a user or item.
        epochs: the training takes `epochs / sampling_rate` steps.
        sampling_rate: the probability of an interaction to be in a step.
        learning_rate: of Adam.
        negatives: the number of negatives of an interaction in each step.
        noise_multiplier: standard deviation of the noise in units of `max_grad_norm`; 0 for
            training without clipping and noise.
        max_grad_norm: the norm to which gradients are clipped.
    """

    model: Literal["mf", "ncf"] = "mf"
    dimensions: Annotated[int, Field(ge=1, le=4096)] = 32
    epochs: Annotated[int, Field(ge=1, le=100_000)] = 10
    sampling_rate: Annotated[float, Field(ge=1e-6, le=1)] = 0.01
    learning_rate: Annotated[float, Field(ge=1e-12, le=1)] = 0.003
    negatives: Annotated[int, Field(ge=1, le=1000)] = 4
    noise_multiplier: Annotated[float, Field(ge=0, le=1e6)] = 0.0
    max_grad_norm: Annotated[float, Field(ge=1e-12, le=1e6)] = 1.0

    name: ClassVar[str] = "torch"
    title: ClassVar[str] = "Factorisation or neural collaborative filtering, also by DP-SGD"
    source: ClassVar[str] = (
        "He et al. 2017, arXiv:1708.05031, sections 2.1 and 3.4; Abadi et al. 2016, "
        "arXiv:1607.00133; Yousefpour et al. 2021, arXiv:2109.12298"
    )

    @property
    def steps(self) -> int:
        """The number of steps of the training."""
        return max(1, round(self.epochs / self.sampling_rate))

    def epsilon(self, delta: float) -> float:
        """Return the ε that Opacus' Rényi accountant states for the training; ∞ without noise.

        It depends on the parameters alone. What it covers stands in the docstring of the class.

        Args:
            delta: the δ, above 0 and below 1.

        Raises:
            ConfigError: Opacus is not installed.
        """
        if self.noise_multiplier == 0:
            return math.inf
        accountant = required(self.name, "opacus.accountants", "torch").RDPAccountant()
        accountant.history = [(self.noise_multiplier, self.sampling_rate, self.steps)]
        return float(accountant.get_epsilon(delta))

    def fit(self, interactions: csr_array, seed: int) -> RowModel:
        """Train; arguments and errors as in `Recommender.fit`."""
        torch = required(self.name, "torch", "torch")
        if self.noise_multiplier:
            _check_opacus(required(self.name, "opacus", "torch").__version__)
        with trained(f"torch ({self.model})"), single_threaded(torch, seed):
            users, items = interactions.shape
            make = factorisation if self.model == "mf" else neural
            network = make(torch, users, items, self.dimensions)
            self._train(torch, network, interactions)
            if self.model == "ncf":
                return _Scored(interactions, torch, network)
            p, q, biases = (
                getattr(network, name).weight.detach().numpy()
                for name in ("users", "items", "biases")
            )
            return with_biases(interactions, p, q, biases[:, 0], np.zeros(users))

    def _train(self, torch: Any, network: Any, interactions: csr_array) -> None:
        entries = interactions.tocoo()
        users, items = (torch.from_numpy(index.astype(np.int64)) for index in entries.coords)
        positive = torch.from_numpy((entries.data != 0).astype(np.float32))
        optimizer = torch.optim.Adam(network.parameters(), self.learning_rate)
        step = (
            private_step(torch, network, optimizer, self.noise_multiplier, self.max_grad_norm)
            if self.noise_multiplier
            else plain_step(torch, network, optimizer)
        )
        for _ in range(self.steps):
            drawn = torch.rand(len(users), dtype=torch.float64) < self.sampling_rate
            batch = drawn.nonzero()[:, 0]
            others = torch.randint(interactions.shape[1], (len(batch), self.negatives))
            asked = torch.cat([items[batch, None], others], 1)
            wanted = torch.zeros(asked.shape)
            wanted[:, 0] = positive[batch]
            step(users[batch], asked, wanted)


def _check_opacus(version: str) -> None:
    """Refuse versions that take the gradient's norm of a layer with biases for another number."""
    if tuple(int(part) for part in version.split(".")[:3]) < (1, 5, 4):
        raise ConfigError(
            f"opacus {version} clips gradients wrongly, so no guarantee holds: "
            "python -m pip install 'opacus>=1.5.4'"
        )
