"""A stated privacy guarantee: ε, δ, the adjacency and the observer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

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
