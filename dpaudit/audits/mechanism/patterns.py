"""Candidate pairs of neighbouring inputs for a search that only sees outputs."""

from __future__ import annotations

from itertools import combinations
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.errors import InputError

Neighbours = Literal["all-differ", "one-differs", "any-value"]
Data = NDArray[np.float64]


def input_pairs(
    neighbours: Neighbours, length: int, *, base: float = 1.0, step: float = 1.0
) -> list[tuple[Data, Data]]:
    """List pairs (d, d') that are likely to show a violation.

    Each pair appears in one order only, as audits test both directions. Violations seldom depend on
    special values, so a few patterns of change from a constant vector find them. A mechanism that
    reads its input in order treats a change at the first coordinate and one at the last
    differently, so each pattern's mirror image is added if it is new.

    Ding et al. 2018, arXiv:1805.10277 (the table of database categories); the mirrored patterns
    are added here.

    Args:
        neighbours: the adjacency: vectors of query answers that differ by at most `step` in every
            coordinate (`all-differ`); vectors that differ by `step` in one coordinate
            (`one-differs`); any two values of one user (`any-value`).
        length: the number of coordinates (at least 1); for `any-value` the number of values (at
            least 2), which are `base`, `base + step` and so on.
        base: the entry of the constant vector.
        step: by how much neighbours may differ in a coordinate.

    Returns:
        Pairs of vectors `(length,)`; for `any-value` all pairs of vectors `(1,)`.

    Raises:
        InputError: the adjacency is unknown, `length` is too small, `base` is not finite, or `step`
            is not positive.
    """
    _check(neighbours, length, base, step)
    if neighbours == "any-value":
        values = [np.array([base + step * i]) for i in range(length)]
        return list(combinations(values, 2))
    first = np.arange(length) == 0
    half = np.arange(length) < length // 2
    up, down, same = step, -step, 0.0
    # Changes from the constant vector d to d'.
    changes = [np.where(first, up, same), np.where(first, down, same)]
    if neighbours == "all-differ":
        changes += [
            np.where(first, up, down),  # one above, the rest below
            np.where(first, down, up),
            np.where(half, up, down),  # one half above, the other below
            np.full(length, up),
            np.full(length, down),
        ]
    start = np.full(length, base)
    pairs = [(start, start + change) for change in changes]
    if neighbours == "all-differ":  # the X shape of Ding et al., where d changes as well
        pairs.append((start - step * half, start - step * ~half))
    mirrored = [(a[::-1], b[::-1]) for a, b in pairs]
    # A dict removes duplicates and keeps the order.
    distinct = {frozenset((a.tobytes(), b.tobytes())): (a, b) for a, b in pairs + mirrored}
    return [(a.copy(), b.copy()) for a, b in distinct.values()]


def _check(neighbours: str, length: int, base: float, step: float) -> None:
    """Refuse arguments that give no pair of different, finite inputs."""
    if neighbours not in get_args(Neighbours):
        raise InputError(
            f"neighbours = {neighbours!r} is not known: use {', '.join(get_args(Neighbours))}"
        )
    least = 2 if neighbours == "any-value" else 1
    if isinstance(length, bool) or not isinstance(length, int | np.integer) or length < least:
        raise InputError(f"length = {length!r} gives no pair: use a whole number from {least} on")
    if not np.isfinite(base):
        raise InputError(f"base = {base} is not a finite number: use e.g. 1")
    if not (np.isfinite(step) and step > 0):
        raise InputError(f"step = {step} is not a positive number: use e.g. 1")
