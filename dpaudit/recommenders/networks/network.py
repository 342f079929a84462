"""What all networks share: their data, their random numbers, and the layers that these draw."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array
from torch import Tensor, nn

from dpaudit.data.interactions import Interactions
from dpaudit.recommenders.base import PROCESS_WIDE, RowModel, with_biases
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

    def factorisation(self, users: Tensor, items: Tensor, biases: Tensor) -> RowModel:
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
