"""What recommenders that are trained have in common, whatever their model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.claim import Claim, ObserverName, Variant
from dpaudit.core.errors import ConfigError, DataError, RunError
from dpaudit.core.releases import NoisedSteps, StepsPair
from dpaudit.core.streams import Streams
from dpaudit.data.ratings import Ratings
from dpaudit.kernels.lanes import LANES

P = TypeVar("P")

# What an observer sees of the steps of some worlds, with their law: of data set D, of D', of the
# one that is learned from.
Watch = Callable[[P, P, P, Streams], Iterator[tuple[NoisedSteps, StepsPair]]]


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


class Trained(Protocol):
    """The models of W worlds."""

    def predict(self, users: NDArray[np.int32], items: NDArray[np.int32]) -> NDArray[np.float32]:
        """The predicted ratings of pairs of a user and an item, on the scale, `(W, n)`."""
        ...


class TrainedDefense(Protocol[P]):
    """A recommender that learns from the ratings, many worlds at once."""

    name: ClassVar[str]
    title: ClassVar[str]
    source: ClassVar[str]

    @property
    def epsilon(self) -> float:
        """The ε of the sweep."""
        ...

    @property
    def variant(self) -> Variant:
        """Whose mechanism it is."""
        ...

    def claim(self) -> Claim | None:
        """What it says it guarantees."""
        ...

    def prepare(self, ratings: Ratings, public: Ratings | None = None) -> P:
        """All that needs no randomness.

        Args:
            ratings: what is learned from.
            public: the data whose statistics count as public, `ratings` unless given: neighbouring
                data sets share them.
        """
        ...

    def train(self, prepared: P, streams: Streams) -> Trained:
        """The models of these worlds; each draws from its own stream alone.

        Raises:
            RunError: a training left the range of numbers.
        """
        ...


def watchers(defense: Any) -> Mapping[ObserverName, Watch[Any]]:
    """How each observer watches who sees steps of a known law; the first is who else is none.

    A defense whose steps have a known law says so by its property of this name.
    """
    found: Mapping[ObserverName, Watch[Any]] = getattr(defense, "watchers", {})
    return found


def trains(defense: object) -> bool:
    """Whether a defense, or its class, learns a model: it has a `train`."""
    return hasattr(defense, "train")


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
