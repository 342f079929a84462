"""Weights, gradients and what a training returns as plain numbers, of numpy and of PyTorch."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dpaudit.audits.dp_training.transcript import Vector, kept


def flat(values: Any) -> Vector:
    """Return arrays or tensors as one vector."""
    parts = values if isinstance(values, list | tuple) else [values]
    return np.concatenate([np.ravel(_plain(part)) for part in parts]).astype(np.float32, copy=False)


def _is_tensor(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def _plain(part: Any) -> Any:
    """Return a tensor without its gradient, and an array of JAX as one of numpy."""
    jax = sys.modules.get("jax")
    if jax is not None and isinstance(part, jax.Array):
        return np.asarray(part)
    return part.detach().cpu().numpy() if _is_tensor(part) else part


def shaped(vector: Vector, like: Any) -> Any:
    """Return a vector in the form of arrays or tensors."""
    if isinstance(like, list | tuple):
        ends = np.cumsum([np.size(_plain(part)) for part in like])
        vectors = np.split(vector, ends[:-1])
        return [shaped(one, part) for one, part in zip(vectors, like, strict=True)]
    array = vector.reshape(np.shape(_plain(like)))
    return like.new_tensor(array) if _is_tensor(like) else array


def enlarge(weight: Any, factor: float) -> None:
    """Multiply a weight in place."""
    values = weight.data if _is_tensor(weight) else weight
    values *= factor


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
    return " ".join(map(digest, plain)) if isinstance(plain, list | tuple) else ""
