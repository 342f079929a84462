"""The generators that a process has without being asked: of numpy, of `random`, and of torch.

A mechanism may draw from them and ignore its own stream. They are seeded from the stream of each
call: so its outputs repeat, and processes that inherit equal states share no noise.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np


def seed_ambient(stream: np.random.SeedSequence) -> None:
    """Seed the process's generators from the stream of a call."""
    first, second = stream.generate_state(2).tolist()
    np.random.seed(first)  # noqa: NPY002  the mechanism may read it
    random.seed(first << 32 | second)
    torch = sys.modules.get("torch")
    if torch is not None:
        _seed_torch(torch, second)


def _seed_torch(torch: Any, seed: int) -> None:
    """Seed torch's generators.

    `torch.manual_seed` formats the stack of each call for devices that nobody uses, which takes
    longer than many a mechanism: where there is no device, only the processor's is seeded. Counting
    devices starts none, so that processes may still fork.
    """
    if torch.cuda.device_count() or torch.xpu.device_count() or torch.backends.mps.is_built():
        torch.manual_seed(seed)
    else:
        torch.default_generator.manual_seed(seed)


@contextmanager
def ambient_restored() -> Iterator[None]:
    """Give the process's generators back the states that they had, whatever happens between."""
    states = np.random.get_state(), random.getstate()  # noqa: NPY002
    torch = sys.modules.get("torch")
    torch_state = torch.get_rng_state() if torch is not None else None
    try:
        yield
    finally:
        np.random.set_state(states[0])  # noqa: NPY002
        random.setstate(states[1])
        if torch is not None:
            torch.set_rng_state(torch_state)
