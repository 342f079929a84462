"""What recommenders that are trained have in common, whatever their model."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.claim import Variant
from dpaudit.core.errors import ConfigError, DataError, RunError
from dpaudit.core.streams import Streams
from dpaudit.data.ratings import Ratings
from dpaudit.kernels.lanes import LANES

# What claims of posterior sampling assume.
CHAIN = "an exact draw from the posterior, whose distance from what the chain draws is not known"


def check_rated(name: str, ratings: Ratings) -> None:
    """Refuse data from which no rating can be learned.

    Args:
        name: of the model that learns.
        ratings: the data.

    Raises:
        ConfigError: there are no ratings.
        DataError: all have one value, as purchases do: noise for a range of 0 would be none.
    """
    if not len(ratings):
        raise ConfigError("there are no ratings to learn from: use more data")
    if not ratings.scale.width:
        raise DataError(
            f"{name} learns from ratings, and these are purchases, which are all the same: leave "
            "data.binarize out, correct data.scale, or use a defense that ranks, such as "
            "'privsr-ranking'"
        )


def check_epsilon(epsilon: float, variant: Variant, scaled: str) -> None:
    """Refuse an ε that is beyond what noise is scaled to.

    Raises:
        ValueError: it is above 1e6 and the variant is private.
    """
    if variant != "nonprivate" and not epsilon <= 1e6:
        raise ValueError(
            f"epsilon = {epsilon:g} scales no {scaled}: give at most 1e6, or use the variant "
            "'nonprivate'"
        )


def lane_blocks(streams: Streams) -> Iterator[Streams]:
    """The worlds, as many at a time as a kernel trains together."""
    return streams.blocks(LANES)


def check_finite(
    what: str, step: int, steps: str, cause: str, *arrays: NDArray[np.float32]
) -> None:
    """Stop a training that left the range of numbers.

    Args:
        what: the model, for the message.
        step: how many steps are done.
        steps: what a step is called.
        cause: the likely cause with its remedy.
        arrays: what must be finite.

    Raises:
        RunError: a number is infinite or NaN.
    """
    for array in arrays:
        if not np.isfinite(array).all():
            raise RunError(f"{what}: no finite numbers after {steps} {step}: {cause}")
