"""The training of a stack of networks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn.functional import pad

from dpaudit.core.streams import generator
from dpaudit.data.interactions import Interactions
from dpaudit.recommenders.base import RowModel
from dpaudit.recommenders.networks.gru4rec import GRU4Rec
from dpaudit.recommenders.networks.lightgcn import LightGCN
from dpaudit.recommenders.networks.multvae import MultVAE
from dpaudit.recommenders.networks.pairs import Factorisation, Neural
from dpaudit.recommenders.networks.sasrec import SASRec
from dpaudit.recommenders.networks.settings import Name, Settings
from dpaudit.recommenders.networks.stack import VECTOR, Stack, single_threaded
from dpaudit.recommenders.networks.two_tower import TwoTower

FORMS: dict[Name, type[Stack]] = {
    "mf": Factorisation,
    "ncf": Neural,
    "two-tower": TwoTower,
    "lightgcn": LightGCN,
    "multvae": MultVAE,
    "sasrec": SASRec,
    "gru4rec": GRU4Rec,
}


def trained_models(
    model: Name,
    settings: Settings,
    data: Sequence[Interactions],
    seeds: Sequence[int],
    device: str = "cpu",
) -> list[RowModel]:
    """Train models of one form side by side, and return them; arguments as in `trained_stack`."""
    return shown(trained_stack(model, settings, data, seeds, device))


def trained_stack(
    model: Name,
    settings: Settings,
    data: Sequence[Interactions],
    seeds: Sequence[int],
    device: str = "cpu",
) -> Stack:
    """Train models of one form side by side.

    Args:
        model: the form.
        settings: of all models.
        data: what each is trained on, of one shape.
        seeds: decide everything that is random in each.
        device: where they are trained, as PyTorch names it.
    """
    sources = [generator(seed, "torch") for seed in seeds]
    with single_threaded():
        stack = FORMS[model](settings, data, sources, device)
        train(stack)
    return stack


def shown(stack: Stack) -> list[RowModel]:
    """Return the trained models of a stack."""
    with single_threaded(), torch.no_grad():
        return stack.models()


def trained_on(stack: Stack, interactions: Interactions, epochs: int, seed: int) -> Stack:
    """Go on with the training of one model, on other interactions.

    Adam's averages start anew, and so does what depends on the share of the training that is done.

    Args:
        stack: the trained model.
        interactions: what to go on with.
        epochs: how often it goes through them.
        seed: decides everything that is random.
    """
    settings, source = replace(stack.settings, epochs=epochs), generator(seed, "torch, going on")
    with single_threaded():
        further = type(stack)(settings, [interactions], [source], stack.device)
        further.parameters = {name: value.detach() for name, value in stack.parameters.items()}
        train(further)
    return further


def train(stack: Stack) -> None:
    """Follow the gradients of all models by Adam.

    In each epoch every model goes through its records in a new random order, in steps of equal
    size up to one.

    Args:
        stack: the models; changed.
    """
    settings, leaves = stack.settings, {n: _leaf(p) for n, p in stack.parameters.items()}
    stack.parameters = {
        name: leaf[:, : parameter[0].numel()].view_as(parameter)
        for (name, parameter), leaf in zip(stack.parameters.items(), leaves.values(), strict=True)
    }
    optimizer = torch.optim.Adam(leaves.values(), settings.learning_rate, fused=True)
    steps, counts = settings.steps, stack.counts()
    for epoch in range(settings.epochs):
        orders = [s.permutation(n) for s, n in zip(stack.sources, counts, strict=True)]
        for step in range(steps):
            records = [
                order[len(order) * step // steps : len(order) * (step + 1) // steps]
                for order in orders
            ]
            optimizer.zero_grad()
            stack.loss(records, (epoch * steps + step) / (settings.epochs * steps)).backward()
            optimizer.step()


def _leaf(parameter: Tensor) -> Tensor:
    """Return a parameter `(W, …)` as `(W, n)`, filled up to whole vectors of the processor.

    The last numbers of a tensor, short of a vector, are rounded otherwise than the rest. Thus no
    model has numbers that depend on what is behind them.
    """
    flat = parameter.flatten(1)
    return pad(flat, (0, -flat.shape[1] % VECTOR)).requires_grad_()
