"""Trainings that end without a model: whether one does may depend on the data, so it is counted."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.errors import NoModelError
from dpaudit.core.streams import Streams
from dpaudit.record.result import FindingRecord

# Trials, or the indices of trainings.
Part = TypeVar("Part", Streams, tuple[int, ...])
T = TypeVar("T")
U = TypeVar("U")


def attempted(training: Callable[[], T], without: U) -> T | U:
    """Return what a training returns, or `without` if it ends without a model.

    numpy does not warn of the infinite numbers of a training that diverges.
    """
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            return training()
    except NoModelError:
        return without


def outcomes(
    work: Callable[[Part], NDArray[Any]], part: Part, without: NDArray[Any]
) -> NDArray[Any]:
    """Return what `work` returns for some trainings, one entry each.

    Args:
        work: trains each model, and returns an array whose numbers for a training do not depend on
            the other trainings.
        part: the trainings.
        without: the array for one training that ends without a model; if it has fewer columns than
            those of the others, its last number is repeated.
    """
    entries = attempted(partial(work, part), None)
    if entries is not None:
        return entries
    if len(part) == 1:
        return without
    singles: Any = part.blocks(1) if isinstance(part, Streams) else [(index,) for index in part]
    return joined([outcomes(work, single, without) for single in singles])


def joined(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Concatenate arrays along the trainings; rows with fewer columns repeat their last number."""
    if parts[0].ndim == 1:
        return np.concatenate(parts)
    width = max(part.shape[1] for part in parts)
    return np.concatenate(
        [np.pad(part, ((0, 0), (0, width - part.shape[1])), "edge") for part in parts]
    )


def diverged(
    count: int,
    trainings: int,
    purpose: str,
    model: str,
    epsilon: float,
    metrics: Sequence[str] = (),
) -> Iterator[FindingRecord]:
    """Yield a finding if trainings ended without a model.

    What is measured on models has no value where there is none, and a mean over the other
    trainings would be that of a choice. So no gate on such a number passes.

    Args:
        count: the number of trainings without a model.
        trainings: the number of all.
        purpose: what the trainings are for, in words.
        model: the model's label.
        epsilon: the ε of the sweep.
        metrics: the metrics that this leaves open; all by default.
    """
    if not count:
        return
    it = "It" if math.isinf(epsilon) else f"At ε = {epsilon:g} it"
    where = f"{count} of {trainings} trainings" if trainings > 1 else "a training"
    yield FindingRecord(
        model=model,
        about="diverged",
        text=f"{it} diverged in {where} for {purpose}: there were no finite numbers, or no draw "
        "was accepted.",
        remedy="Take smaller steps (a lower learning rate) or less noise, so that every training "
        f"ends with finite numbers; until then no gate on {purpose} passes.",
        undecided=True,
        epsilon=epsilon,
        metrics=tuple(metrics),
    )
