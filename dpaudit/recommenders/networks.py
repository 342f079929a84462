"""Networks of the recommenders that are trained with PyTorch, and a step of DP-SGD by Opacus."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from dpaudit.recommenders.base import PROCESS_WIDE

# Takes the users of the sampled records `(n,)`, their items and the wanted answers `(n, l)`.
Step = Callable[[Any, Any, Any], None]

# The spread of the factors before the training.
_SPREAD = 0.1


def factorisation(torch: Any, users: int, items: int, dimensions: int) -> Any:
    """Return a network whose score of (u, i) is `b_i + <p_u, q_i>`."""

    class Factorisation(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.users = _embedding(torch, users, dimensions)
            self.items = _embedding(torch, items, dimensions)
            self.biases = torch.nn.Embedding.from_pretrained(torch.zeros(items, 1), freeze=False)

        def forward(self, user: Any, item: Any) -> Any:
            product = (self.users(user)[:, None] * self.items(item)).sum(2)
            return product + self.biases(item)[..., 0]

    return Factorisation()


def neural(torch: Any, users: int, items: int, dimensions: int) -> Any:
    """Return the network NeuMF of He et al. 2017, section 3.4, without its pre-training.

    The score is `h^T [p_u * q_i, f(p'_u, q'_i)]`, in which f has layers of `dimensions` and
    `dimensions / 2` rectified units.
    """
    nn = torch.nn
    half = (dimensions + 1) // 2

    class Neural(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.users, self.items = (_embedding(torch, n, dimensions) for n in (users, items))
            self.wide_users, self.wide_items = (
                _embedding(torch, n, dimensions) for n in (users, items)
            )
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


def plain_step(torch: Any, network: Any, optimizer: Any) -> Step:
    """Return a step of the optimizer on the sum of the losses of the sampled records."""

    def step(users: Any, items: Any, wanted: Any) -> None:
        optimizer.zero_grad()
        _losses(torch, network, users, items, wanted).sum().backward()
        optimizer.step()

    return step


def private_step(
    torch: Any, network: Any, optimizer: Any, noise_multiplier: float, max_grad_norm: float
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
            losses = _losses(torch, called, users, items, wanted)
            DPTensorFastGradientClipping(called, noised, losses, "sum").backward()
        else:
            # Opacus cannot call a network on no record, and the noise is due all the same.
            for parameter in noised.params:
                parameter.grad = parameter.new_zeros(parameter.shape)
        noised.step()

    return step


@contextmanager
def single_threaded(torch: Any, seed: int) -> Iterator[None]:
    """Seed PyTorch and use one thread for the calls inside, and restore both afterwards.

    Both belong to the whole process, so other threads wait.
    """
    with PROCESS_WIDE:
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            with torch.random.fork_rng(devices=[]):
                # Of the CPU alone: torch.manual_seed would seed GPUs too.
                torch.default_generator.manual_seed(seed)
                yield
        finally:
            torch.set_num_threads(threads)


def _losses(torch: Any, network: Any, users: Any, items: Any, wanted: Any) -> Any:
    """Return the logistic loss of each record, summed over its items."""
    criterion = torch.nn.BCEWithLogitsLoss(reduction="none")
    return criterion(network(users, items), wanted).sum(1)


def _embedding(torch: Any, count: int, dimensions: int) -> Any:
    return torch.nn.Embedding.from_pretrained(
        torch.randn(count, dimensions) * _SPREAD, freeze=False
    )
