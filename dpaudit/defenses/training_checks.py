"""Checks and helpers shared by all recommenders that train a model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.claim import Variant
from dpaudit.core.errors import ConfigError, DataError, NoModelError
from dpaudit.core.memory import check_memory
from dpaudit.core.streams import Streams
from dpaudit.data.ratings import Ratings, Scale
from dpaudit.kernels.lanes import LANES

# The assumption of claims of posterior sampling.
CHAIN = "an exact draw from the posterior, whose distance from what the chain draws is not known"

# The largest number in a corrected form's model, a public constant. Products of three such numbers
# and thousands of ratings stay finite in single precision.
_LARGEST = np.float32(2**20)

Schedule = Literal["text", "printed"]


@dataclass(frozen=True, eq=False)
class UserRows:
    """The training data of factorisations in the order of the kernels: by user, then item.

    Attributes:
        start: user u has the rows `start[u]` to `start[u + 1] − 1`, `(N + 1,)`.
        users: the user of each row `(R,)`.
        items: the item of each row `(R,)`.
        values: the rating of each row `(R,)`.
        n_items: `M`.
        scale: the rating scale.
    """

    start: NDArray[np.int64]
    users: NDArray[np.int32]
    items: NDArray[np.int32]
    values: NDArray[np.float32]
    n_items: int
    scale: Scale

    # The fields with one entry for each row.
    columns: ClassVar[tuple[str, ...]] = ("users", "items", "values")

    def __len__(self) -> int:
        return len(self.users)

    @property
    def n_users(self) -> int:
        """`N`."""
        return len(self.start) - 1

    def rates_as(self, other: UserRows) -> bool:
        """Return whether the same users have rated the same items."""
        return np.array_equal(self.start, other.start) and np.array_equal(self.items, other.items)

    def only(self, rows: NDArray[np.bool_]) -> Self:
        """Return only the rows in the mask `(R,)`; users and items keep their indices."""
        kept = np.bincount(self.users[rows], minlength=self.n_users)
        start = np.concatenate([[0], np.cumsum(kept)]).astype(np.int64)
        columns: Any = {name: getattr(self, name)[rows] for name in self.columns}
        return replace(self, start=start, **columns)


def columns_of(ratings: Ratings) -> dict[str, Any]:
    """Return the fields of `UserRows` of ratings."""
    return {
        "start": ratings.by_user.start,
        "users": ratings.user,
        "items": ratings.item,
        "values": ratings.value,
        "n_items": ratings.n_items,
        "scale": ratings.scale,
    }


def check_rated(name: str, ratings: Ratings) -> None:
    """Check that ratings can be learned from the data.

    Args:
        name: the defense's name, for messages.
        ratings: the data.

    Raises:
        ConfigError: there are no ratings.
        DataError: the scale has one value, as for purchases; noise scaled to a range of 0 would be
            none.
    """
    if not len(ratings):
        raise ConfigError("there are no ratings to learn from: use more data")
    if not ratings.scale.width:
        raise DataError(
            f"{name} learns from ratings, and these are purchases, which are all the same: remove "
            "data.binarize, correct data.scale, or use a defense that ranks, such as "
            "'privsr-ranking'"
        )


def check_private_epsilon(epsilon: float, variant: Variant, scaled: str) -> None:
    """Check that a private variant's ε is at most 1e6.

    Args:
        epsilon: ε.
        variant: the defense's variant.
        scaled: what is scaled by ε, for the message.

    Raises:
        ValueError: `epsilon` is above 1e6 and the variant is private.
    """
    if variant != "nonprivate" and not epsilon <= 1e6:
        raise ValueError(
            f"epsilon = {epsilon:g} scales no {scaled}: use at most 1e6, or the variant "
            "'nonprivate'"
        )


def lane_blocks(streams: Streams) -> Iterator[Streams]:
    """Split the trials into blocks of the number that a kernel trains together."""
    return streams.blocks(LANES)


def step_sizes(first: float, exponent: float, schedule: Schedule, count: int) -> list[float]:
    """Return the step sizes `η_1 … η_K`.

    `text` is `η_t = η_1 t^−ξ` (Wang & Tang 2017, §4.1). `printed` is line 6 of their Algorithm 2,
    `η_{t+1} = η_t / t^ξ`, which decreases like a factorial: at ξ = 0.3 all steps add up to
    4.32 η_1, so the chain stops moving.

    Args:
        first: η_1.
        exponent: ξ.
        schedule: which of the two formulas.
        count: K.
    """
    if schedule == "text":
        return [first * t**-exponent for t in range(1, count + 1)]
    sizes = [first]
    for t in range(1, count):
        sizes.append(sizes[-1] * t**-exponent)
    return sizes


def check_predictions(trials: int, pairs: int) -> None:
    """Check that single-precision predictions of `pairs` ratings in each trial fit the memory.

    Raises:
        ConfigError: they do not.
    """
    check_memory(
        "the predictions of models that are trained together",
        f"the number of trials ({trials}) times that of predicted ratings ({pairs:,})",
        4 * trials * pairs,
        "raise train.folds, lower train.trials",
    )


def end_step(
    variant: Variant, what: str, step: int, steps: str, cause: str, *arrays: NDArray[np.float32]
) -> None:
    """Check that a training has not diverged; keep the numbers of a corrected form finite.

    Whether a training ends in an error depends on the data, users' own factors included, and no
    claim covers that. So a corrected form never does; see `keep_finite`.

    Args:
        variant: the defense's variant.
        what: the model, for the message.
        step: the number of finished steps.
        steps: what a step is called, such as 'epoch' or 'round'.
        cause: the likely cause with its remedy.
        arrays: the numbers that must be finite.

    Raises:
        NoModelError: a number is infinite or NaN, and the form is not corrected.
    """
    if variant == "corrected":
        keep_finite(*arrays)
    elif not all(np.isfinite(array).all() for array in arrays):
        raise NoModelError(f"{what}: no finite numbers after {steps} {step}: {cause}")


def keep_finite(*arrays: NDArray[np.float32]) -> None:
    """Clip numbers to ±2^20, and replace NaN by 0, in place.

    For released numbers this is post-processing. For a user's own it is a function of their data
    and of released numbers, like all that they submit.
    """
    for array in arrays:
        np.nan_to_num(array, copy=False)
        np.clip(array, -_LARGEST, _LARGEST, out=array)
