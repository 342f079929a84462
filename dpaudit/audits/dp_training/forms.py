"""Weights, gradients and what a training returns as plain numbers, of numpy and of PyTorch."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from dpaudit.audits.dp_training.transcript import Vector, kept


def flat(values: Any) -> Vector:
    """Return arrays or tensors as one vector."""
    parts = values if isinstance(values, list | tuple) else [values]
    vectors = [np.asarray(_plain(part), np.float32).reshape(-1) for part in parts]
    return vectors[0] if len(vectors) == 1 else np.concatenate(vectors)


def _plain(part: Any) -> Any:
    """Return a tensor without its gradient; anything else as it is."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(part, torch.Tensor):
        return part.detach().cpu().numpy()
    return part


def shaped(vector: Vector, like: Any) -> Any:
    """Return a vector in the form of arrays or tensors."""
    if isinstance(like, list | tuple):
        ends = np.cumsum([0, *(np.size(_plain(part)) for part in like)])
        return [
            shaped(vector[low:high], part)
            for part, (low, high) in zip(like, pairwise(ends), strict=True)
        ]
    torch, shape = sys.modules.get("torch"), np.shape(_plain(like))
    array = vector.reshape(shape)
    if torch is not None and isinstance(like, torch.Tensor):
        return torch.from_numpy(np.ascontiguousarray(array)).to(like)
    return array


def enlarge(weight: Any, factor: float) -> None:
    """Multiply a weight in place."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(weight, torch.Tensor):
        weight.data.mul_(factor)
    else:
        weight *= factor


def state_of(weights: Sequence[Any], *others: Any) -> str:
    """Return a digest of weights, and of other numbers."""
    state = hashlib.blake2b(digest_size=16)
    for weight in weights:
        values = np.ascontiguousarray(_plain(weight)).reshape(-1)
        state.update(f"{values.size} {values.dtype.str}".encode())
        state.update(values[kept(values.size)].tobytes())
        state.update(repr(float(values.sum(dtype=np.float64))).encode())
    state.update(repr(others).encode())
    return state.hexdigest()


def digest(returned: Any) -> str:
    """Return a digest of numbers, arrays and tensors in what a training returned; of them alone."""
    plain = _plain(returned)
    if isinstance(plain, np.ndarray) and plain.dtype.kind in "biuf":
        return state_of([plain])
    if isinstance(plain, bool | int | float | str):
        return repr(plain)
    if isinstance(plain, Mapping):
        return " ".join(f"{key}: {digest(value)}" for key, value in plain.items())
    if isinstance(plain, list | tuple):
        return " ".join(map(digest, plain))
    return ""
