"""The training of a network, plain or by DP-SGD."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from dpaudit.core.streams import generator
from dpaudit.data.interactions import Interactions
from dpaudit.recommenders.base import RowModel
from dpaudit.recommenders.networks.histories import GRU4Rec, MultVAE, SASRec
from dpaudit.recommenders.networks.network import (
    SPREAD,
    Factorisation,
    LightGCN,
    Network,
    Neural,
    TwoTower,
    single_threaded,
)
from dpaudit.recommenders.networks.settings import Name, Settings

FORMS: dict[Name, type[Network]] = {
    "mf": Factorisation,
    "ncf": Neural,
    "two-tower": TwoTower,
    "lightgcn": LightGCN,
    "multvae": MultVAE,
    "sasrec": SASRec,
    "gru4rec": GRU4Rec,
}
# Takes the users of the sampled records `(n,)`, their items and the wanted answers `(n, l)`.
Step = Callable[[Any, Any, Any], None]


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
    with single_threaded():
        network = FORMS[model](settings, interactions, generator(seed, "torch")).to(device)
        train(network)
        return fitted(network)


def trained_on(network: Network, interactions: Interactions, epochs: int, seed: int) -> RowModel:
    """Go on with a training, on other interactions.

    Adam's averages start anew, and so does what depends on the share of the training that is done.

    Args:
        network: the trained network.
        interactions: what to go on with.
        epochs: how often it goes through them.
        seed: decides everything that is random.
    """
    settings, source = replace(network.settings, epochs=epochs), generator(seed, "torch, going on")
    with single_threaded():
        further = type(network)(settings, interactions, source)
        further.load_state_dict(network.state_dict())
        train(further.to(next(network.parameters()).device))
        return fitted(further)


def train(network: Network) -> None:
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


def fitted(network: Network) -> RowModel:
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
    """
    network: Any = FORMS[model](settings, interactions, generator(seed, "torch"))
    with single_threaded(), torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        # PyTorch says of Opacus' hooks that indices have no gradients.
        warnings.filterwarnings("ignore", "Full backward hook", UserWarning)
        # Of the CPU alone: torch.manual_seed would seed GPUs too.
        torch.default_generator.manual_seed(seed)
        # Parameters too are drawn from PyTorch's random numbers.
        for name, layer in network.named_modules():
            if isinstance(layer, nn.Linear):
                layer.reset_parameters()
            elif isinstance(layer, nn.Embedding) and name != "biases":
                layer.weight.data = torch.randn(layer.weight.shape) * SPREAD
        optimizer = torch.optim.Adam(network.parameters(), settings.learning_rate)
        step = private_step(network, optimizer, noise_multiplier, max_grad_norm)
        owners, chosen, positive = map(
            network.tensor, (network.owners, network.chosen, network.positive)
        )
        for _ in range(steps):
            drawn = torch.rand(len(owners), dtype=torch.float64) < settings.sampling_rate
            batch = drawn.nonzero()[:, 0]
            others = torch.randint(network.n_items, (len(batch), settings.negatives or 0))
            items = torch.cat([chosen[batch, None], others], 1)
            wanted = torch.zeros(items.shape)
            wanted[:, 0] = positive[batch]
            step(owners[batch], items, wanted)
        return fitted(network)


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
    criterion = nn.BCEWithLogitsLoss(reduction="none")

    def step(users: Any, items: Any, wanted: Any) -> None:
        noised.zero_grad()
        if len(users):
            losses = criterion(called(users, items), wanted).sum(1)
            DPTensorFastGradientClipping(called, noised, losses, "sum").backward()
        else:
            # Opacus cannot call a network on no record, and the noise is due all the same.
            for parameter in noised.params:
                parameter.grad = parameter.new_zeros(parameter.shape)
        noised.step()

    return step
