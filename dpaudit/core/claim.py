"""A stated privacy guarantee: ε, δ, the adjacency and the observers; and what it covers.

Beside it stand measurements of what it assumes, and the losses of single users.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.estimate import Estimate

# `entry-replace`: one entry of the completed matrix of predicted ratings takes another value.
Adjacency = Literal[
    "rating-replace", "rating-add-remove", "user-replace", "user-add-remove", "entry-replace"
]
Variant = Literal["nonprivate", "published", "corrected"]
RatingAdjacency = Literal["rating-replace", "rating-add-remove"]
# Observers of the built-in defenses; plug-ins may define others.
OBSERVERS = ("public", "iterates", "recommender", "friend", "values", "list")


@dataclass(frozen=True)
class Claim:
    """A stated guarantee.

    Attributes:
        epsilon: the guaranteed ε.
        delta: the guaranteed δ.
        adjacency: which data sets count as neighbours.
        observer: who sees the release.
        public: the statistics of the data that the guarantee treats as public.
        source: paper, theorem and equation, or the derivation's place.
        also: further observers whom the guarantee covers, although `observer` does not see what
            they see.
        assumes: short statements of what the guarantee relies on and no derivation here covers.
    """

    epsilon: float
    delta: float
    adjacency: Adjacency
    observer: str
    public: str
    source: str
    also: tuple[str, ...] = ()
    assumes: tuple[str, ...] = ()


class Stated(Protocol):
    """A guarantee's adjacency and observers; a `Claim` or its record."""

    @property
    def adjacency(self) -> str:
        """Which data sets count as neighbours."""

    @property
    def observer(self) -> str:
        """Who sees the release."""

    @property
    def also(self) -> Sequence[str]:
        """Further observers."""


# A claim about an adjacency (key) also covers adjacencies (values) with smaller changes. Removing a
# rating is removing the user and adding another.
_REACHES: Mapping[str, tuple[str, ...]] = {"user-replace": ("rating-replace", "rating-add-remove")}
# A claim about an observer (key) also covers observers (values) who see less. Others' lists follow
# from the released model and others' data; the user's own scores and list may use the user's data
# again. Friends, whose messages the recommender does not see, may be among the others. A user's own
# list that leaves out what is seen shows more than one that leaves out nothing.
_RELEASED = ("values", "list", "others-lists", "nearest-items", "factors")
_SEES: Mapping[str, tuple[str, ...]] = {
    "recommender": ("iterates", "public", "values", "list"),
    "iterates": ("public", *_RELEASED),
    "public": _RELEASED,
    "values": ("list",),
    "own-list": ("unfiltered-list",),
    "factors": ("nearest-items",),
}


def covered_adjacencies(claim: Stated) -> Collection[str]:
    """Return the adjacencies at which a claim's ε holds."""
    return (claim.adjacency, *_REACHES.get(claim.adjacency, ()))


def covered_observers(claim: Stated) -> Collection[str]:
    """Return the observers whom a claim covers: those that it names, and those who see less."""
    named = (claim.observer, *claim.also)
    return {*named, *(less for observer in named for less in _SEES.get(observer, ()))}


def delta_of(claim: Claim | None) -> float:
    """Return the δ of a claim; 0 if nothing is claimed."""
    return claim.delta if claim else 0.0


# Values of `part`: the share of users whose factors have a norm above 1, and the largest norm.
LONGER, LONGEST = "share longer than 1", "longest"


@dataclass(frozen=True)
class Assumption:
    """One measurement of an assumption that a claim relies on and its mechanism does not enforce.

    Attributes:
        metric: which assumption, by the name of its metric.
        estimate: the measured value.
        step: the step or round after which it was measured.
        part: which of several values of the metric it is; None where there is only one.
    """

    metric: str
    estimate: Estimate
    step: int
    part: str | None = None


@dataclass(frozen=True, eq=False)
class PersonalLosses:
    """The ε of each user who has ratings, and their losses in draws of the model.

    They are of mechanisms with an ε for each user.

    Attributes:
        epsilon: ε_u: a quarter of it bounds what all ratings of the user change in the log-density
            `(N,)`.
        loss: four times what they change at the models of W trials `(N, W)`; above ε_u where
            predictions leave the range that the claim assumes.
    """

    epsilon: NDArray[np.float64]
    loss: NDArray[np.float64]
