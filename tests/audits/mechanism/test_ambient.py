"""The generators of a process, seeded from the stream of a call."""

from __future__ import annotations

import random
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dpaudit.audits.mechanism.ambient import ambient_restored, seed_ambient
from dpaudit.core.streams import seed_sequence


def drawn(number: int) -> tuple[float, float]:
    seed_ambient(seed_sequence(1, "test", child=number))
    return np.random.random(), random.random()  # noqa: NPY002, S311


def test_the_stream_decides_what_is_drawn() -> None:
    with ambient_restored():
        assert drawn(1) == drawn(1)
        assert len({number for call in range(100) for number in drawn(call)}) == 200


def test_the_states_are_given_back() -> None:
    np.random.seed(3)  # noqa: NPY002
    random.seed(3)
    expected = np.random.random(), random.random()  # noqa: NPY002, S311
    np.random.seed(3)  # noqa: NPY002
    random.seed(3)
    with pytest.raises(ValueError, match="now"), ambient_restored():  # noqa: PT012
        drawn(1)
        raise ValueError("now")
    assert (np.random.random(), random.random()) == expected  # noqa: NPY002, S311


@pytest.mark.parametrize("devices", [0, 2])
def test_torch_is_seeded_where_it_is_loaded(monkeypatch: pytest.MonkeyPatch, devices: int) -> None:
    """All of its generators where there is a device, else that of the processor."""
    state: list[Any] = ["before"]
    seeds: dict[str, list[int]] = {"all": [], "processor": []}
    torch = SimpleNamespace(
        manual_seed=seeds["all"].append,
        default_generator=SimpleNamespace(manual_seed=seeds["processor"].append),
        cuda=SimpleNamespace(device_count=lambda: devices),
        xpu=SimpleNamespace(device_count=lambda: 0),
        backends=SimpleNamespace(mps=SimpleNamespace(is_built=lambda: False)),
        get_rng_state=lambda: state[-1],
        set_rng_state=state.append,
    )
    monkeypatch.setitem(sys.modules, "torch", torch)
    with ambient_restored():
        seed_ambient(seed_sequence(1, "test"))
    assert [len(seeds["all"]), len(seeds["processor"])] == ([1, 0] if devices else [0, 1])
    assert state == ["before", "before"]


def test_real_torch_repeats_its_draws() -> None:
    torch = pytest.importorskip("torch")
    draws = []
    with ambient_restored():
        for _ in range(2):
            seed_ambient(seed_sequence(1, "test"))
            draws.append(float(torch.rand(1)))
    assert draws[0] == draws[1]
