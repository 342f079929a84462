"""A stack of networks of one form, each with its own data, parameters and random numbers."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array
from torch import Tensor

from dpaudit.data.interactions import Interactions
from dpaudit.kernels.rows import add_rows
from dpaudit.recommenders.base import PROCESS_WIDE, RowModel, with_biases
from dpaudit.recommenders.networks.settings import Settings

Array = NDArray[np.float32]
Indices = NDArray[np.int64]
# Arrays of parameters by name: of one model, and of a stack with a leading dimension W.
Initial = Mapping[str, Array]
Parameters = dict[str, Tensor]

# The spread of factors before the training.
SPREAD = 0.1
# The most numbers that a processor computes at a time; padded arrays have multiples of it.
VECTOR = 16


@dataclass
class Stack(ABC):
    """W networks of one form.

    All random numbers of a model come from its own stream, in an order that does not depend on the
    other models. So a model is that which is trained alone, up to the rounding of sums.

    Attributes:
        settings: the settings of all.
        data: what each is trained on; of one shape.
        sources: the random numbers of each.
        device: where tensors are.
    """

    settings: Settings
    data: Sequence[Interactions]
    sources: Sequence[np.random.Generator]
    device: str

    def __post_init__(self) -> None:
        self.users, self.items = self.data[0].shape
        self.prepare()
        models = [self.initial(source) for source in self.sources]
        self.parameters = {
            name: self.tensor(np.stack([model[name] for model in models]).astype(np.float32))
            for name in models[0]
        }

    @abstractmethod
    def prepare(self) -> None:
        """Compute what all steps need from the data."""

    @abstractmethod
    def initial(self, source: np.random.Generator) -> Initial:
        """Draw the parameters of one model before the training."""

    @abstractmethod
    def counts(self) -> list[int]:
        """Return the number of records that each model is trained on."""

    @abstractmethod
    def loss(self, records: Sequence[Indices], progress: float) -> Tensor:
        """Return the sum of the losses of all models on some records of each.

        Args:
            records: indices of the records of each model.
            progress: the share of the training that is done.
        """

    @abstractmethod
    def models(self) -> list[RowModel]:
        """Return the trained models."""

    def factorisations(self, *parts: Tensor) -> list[RowModel]:
        """Return models by factors of users, of items `(W, M, d)`, and biases `(W, M)`."""
        return [
            with_biases(interactions.matrix, users, items, biases, np.zeros(self.users))
            for interactions, users, items, biases in zip(
                self.data, *map(numbers, parts), strict=True
            )
        ]

    def tensor(self, array: NDArray[Any]) -> Tensor:
        """Return an array as a tensor on the device."""
        return torch.from_numpy(np.ascontiguousarray(array)).to(self.device)

    def flat(self, index: NDArray[np.integer], rows: int) -> Tensor:
        """Return indices `(W, …)` of rows of W matrices as indices of all their rows, flat."""
        first = np.arange(len(index)).reshape(-1, *(1,) * (index.ndim - 1)) * rows
        return self.tensor((index + first).reshape(-1).astype(np.int64))

    def dropped(self, shape: tuple[int, ...]) -> Tensor:
        """Draw what units are multiplied by: 0 with probability `dropout`, else `1/(1 − dropout)`.

        Args:
            shape: of one model.
        """
        rate = self.settings.dropout or 0.0
        size = math.prod(shape)
        # 16 bits of the stream a unit, so the probability is a multiple of 2^-16.
        draws = [np.frombuffer(source.bytes(2 * size), np.uint16) for source in self.sources]
        kept = np.stack(draws).reshape(-1, *shape) >= round(rate * 2**16)
        return self.tensor(kept).to(torch.float32) / (1 - rate)


class _Rows(torch.autograd.Function):
    """The rows of a matrix, whose gradients are added in the order of the index."""

    @staticmethod
    def forward(context: Any, matrix: Tensor, index: Tensor) -> Tensor:
        context.save_for_backward(index)
        context.shape = matrix.shape
        return matrix.index_select(0, index)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (index,) = context.saved_tensors
        sums = gradient.new_zeros(context.shape)
        if sums.is_cuda:
            sums.index_add_(0, index, gradient)
        else:
            add_rows(index.numpy(), gradient.contiguous().numpy(), sums.numpy())
        return sums, None


def rows(matrices: Tensor, index: Tensor, *shape: int) -> Tensor:
    """Return rows of W matrices.

    Args:
        matrices: `(W, N, d)`.
        index: from `Stack.flat`, of `W ⋅ n` rows.
        shape: of the rows of one model, whose product is n.
    """
    width, _, dimensions = matrices.shape
    found: Tensor = _Rows.apply(matrices.reshape(-1, dimensions), index)
    return found.view(width, *shape, dimensions)


def padded(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Return arrays `(n_w, …)` as one `(W, n, …)`, filled up with 0 at their ends."""
    width = max(len(part) for part in parts)
    width = max(1, math.ceil(width / VECTOR)) * VECTOR
    whole = np.zeros((len(parts), width, *parts[0].shape[1:]), parts[0].dtype)
    for row, part in zip(whole, parts, strict=True):
        row[: len(part)] = part
    return whole


def binary(interactions: Interactions) -> csr_array:
    """Return the users × items matrix of 1 for each interaction; a rating of 0 is none."""
    matrix = interactions.matrix.copy()
    matrix.data = (matrix.data != 0).astype(np.float32)
    matrix.eliminate_zeros()
    return matrix


def embedding(source: np.random.Generator, count: int, dimensions: int) -> Array:
    """Draw factors `(count, dimensions)` of mean 0 and standard deviation 0.1."""
    return SPREAD * source.standard_normal((count, dimensions), np.float32)


def linear(source: np.random.Generator, inputs: int, outputs: int, name: str) -> dict[str, Array]:
    """Draw a layer as PyTorch does: uniform in `±1/√inputs`; `weight` is `(outputs, inputs)`."""
    bound = 1 / math.sqrt(inputs)
    draws = 2 * bound * source.random((outputs, inputs + 1), np.float32) - bound
    return {f"{name}.weight": draws[:, :-1], f"{name}.bias": draws[:, -1]}


def applied(parameters: Parameters, name: str, inputs: Tensor) -> Tensor:
    """Apply a layer of each model to `(W, n, inputs)`; returns `(W, n, outputs)`."""
    weight, bias = parameters[f"{name}.weight"], parameters[f"{name}.bias"]
    return torch.baddbmm(bias[:, None], inputs, weight.transpose(1, 2))


def numbers(tensor: Tensor) -> Array:
    """Return a tensor as an array of this process."""
    return tensor.detach().cpu().numpy()


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
