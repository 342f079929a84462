"""The networks that DP-SGD by Opacus trains, whose parameters are those of a stack of one."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from dpaudit.data.interactions import Interactions
from dpaudit.recommenders.base import RowModel
from dpaudit.recommenders.networks.pairs import Factorisation, Neural, Pairs
from dpaudit.recommenders.networks.settings import Name, Settings
from dpaudit.recommenders.networks.stack import SPREAD, single_threaded

# Takes the users of the sampled records `(n,)`, their items and the wanted answers `(n, l)`.
Step = Callable[[Any, Any, Any], None]


def private_model(
    model: Name,
    settings: Settings,
    interactions: Interactions,
    seed: int,
    steps: int,
    noise_multiplier: float,
    max_grad_norm: float,
) -> RowModel:
    """Train a model by DP-SGD.

    Args:
        model: `mf` or `ncf`.
        settings: of the model.
        interactions: what to train on.
        seed: decides everything that is random.
        steps: the number of steps.
        noise_multiplier: see `private_step`.
        max_grad_norm: likewise.
    """
    form, make = _FORMS[model]
    stack: Pairs = form(settings, [interactions], [np.random.default_rng(seed)], "cpu")
    with single_threaded(), torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        # PyTorch says of Opacus' hooks that indices have no gradients.
        warnings.filterwarnings("ignore", "Full backward hook", UserWarning)
        # Of the CPU alone: torch.manual_seed would seed GPUs too.
        torch.default_generator.manual_seed(seed)
        network = make(*interactions.shape, settings.dimensions)
        optimizer = torch.optim.Adam(network.parameters(), settings.learning_rate)
        step = private_step(network, optimizer, noise_multiplier, max_grad_norm)
        entries = interactions.matrix.tocoo()
        users, items = (torch.from_numpy(index.astype(np.int64)) for index in entries.coords)
        positive = torch.from_numpy((entries.data != 0).astype(np.float32))
        for _ in range(steps):
            drawn = torch.rand(len(users), dtype=torch.float64) < settings.sampling_rate
            batch = drawn.nonzero()[:, 0]
            shape = len(batch), settings.negatives or 0
            asked = torch.cat([items[batch, None], torch.randint(stack.items, shape)], 1)
            wanted = torch.zeros(asked.shape)
            wanted[:, 0] = positive[batch]
            step(users[batch], asked, wanted)
    stack.parameters = {
        name: parameter.detach()[None] for name, parameter in network.named_parameters()
    }
    [trained] = stack.models()
    return trained


def factorisation(users: int, items: int, dimensions: int) -> Any:
    """Return a network whose score of (u, i) is `b_i + <p_u, q_i>`."""

    class Factorisation(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.users = _embedding(users, dimensions)
            self.items = _embedding(items, dimensions)
            self.biases = torch.nn.Embedding.from_pretrained(torch.zeros(items, 1), freeze=False)

        def forward(self, user: Any, item: Any) -> Any:
            product = (self.users(user)[:, None] * self.items(item)).sum(2)
            return product + self.biases(item)[..., 0]

    return Factorisation()


def neural(users: int, items: int, dimensions: int) -> Any:
    """Return the network NeuMF of He et al. 2017, section 3.4, without its pre-training.

    The score is `h^T [p_u * q_i, f(p'_u, q'_i)]`, in which f has layers of `dimensions` and
    `dimensions / 2` rectified units.
    """
    nn = torch.nn
    half = (dimensions + 1) // 2

    class Neural(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.users, self.items = (_embedding(n, dimensions) for n in (users, items))
            self.wide_users, self.wide_items = (_embedding(n, dimensions) for n in (users, items))
            self.layers = nn.Sequential(
                nn.Linear(2 * dimensions, dimensions),
                nn.ReLU(),
                nn.Linear(dimensions, half),
                nn.ReLU(),
            )
            self.last = nn.Linear(dimensions + half, 1)

        def forward(self, user: Any, item: Any) -> Any:
            product = self.users(user)[:, None] * self.items(item)
            wide = self.wide_items(item)
            both = torch.cat([self.wide_users(user)[:, None].expand_as(wide), wide], 2)
            return self.last(torch.cat([product, self.layers(both)], 2))[..., 0]

    return Neural()


def private_step(
    network: Any, optimizer: Any, noise_multiplier: float, max_grad_norm: float
) -> Step:
    """Return a step of DP-SGD by Opacus on the losses of the sampled records.

    It clips the gradient of each record over all parameters to the norm `max_grad_norm`, adds
    Gaussian noise of standard deviation `noise_multiplier * max_grad_norm` to their sum, and gives
    the result to the optimizer (Abadi et al. 2016, arXiv:1607.00133, algorithm 1).
    """
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

    def step(users: Any, items: Any, wanted: Any) -> None:
        noised.zero_grad()
        if len(users):
            losses = _losses(called, users, items, wanted)
            DPTensorFastGradientClipping(called, noised, losses, "sum").backward()
        else:
            # Opacus cannot call a network on no record, and the noise is due all the same.
            for parameter in noised.params:
                parameter.grad = parameter.new_zeros(parameter.shape)
        noised.step()

    return step


def _losses(network: Any, users: Any, items: Any, wanted: Any) -> Any:
    """Return the logistic loss of each record, summed over its items."""
    criterion = torch.nn.BCEWithLogitsLoss(reduction="none")
    return criterion(network(users, items), wanted).sum(1)


def _embedding(count: int, dimensions: int) -> Any:
    return torch.nn.Embedding.from_pretrained(torch.randn(count, dimensions) * SPREAD, freeze=False)


# The stack that shows a trained network, and the network.
_FORMS: dict[Name, tuple[type[Pairs], Callable[[int, int, int], Any]]] = {
    "mf": (Factorisation, factorisation),
    "ncf": (Neural, neural),
}
