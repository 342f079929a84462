"""What every defense states and does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from dpaudit.data.neighbors import Adjacency, RatingChange
from dpaudit.data.ratings import Ratings
from dpaudit.defenses.item_model import ExactScores
from dpaudit.releases import ItemList, ListLaw, Streams

Variant = Literal["nonprivate", "published", "corrected"]
RatingAdjacency = Literal["rating-replace", "rating-add-remove"]
ObserverName = Literal["public", "iterates", "recommender", "friend", "values", "list"]


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
    """

    epsilon: float
    delta: float
    adjacency: Adjacency
    observer: ObserverName
    public: str
    source: str


@dataclass(frozen=True, eq=False)
class WorldPair:
    """Two neighbouring data sets and what one user is shown of either.

    Attributes:
        ratings: the data set `D`.
        change: what makes `D'` of it.
        target: the user to whom predictions are shown.
        items: the items whose predictions are shown together.
        summary: the pair in one sentence, without naming any record.
    """

    ratings: Ratings
    change: RatingChange
    target: int
    items: tuple[int, ...]
    summary: str


@dataclass(frozen=True, eq=False)
class EntryPair:
    """What a user is predicted, her row of the completed matrix, in two neighbouring worlds.

    One entry differs where the neighbours are matrices, several where they are data sets.

    Attributes:
        before: the row in world `D`.
        after: the row in world `D'`.
        summary: the pair in one sentence, without naming any record.
    """

    before: ExactScores
    after: ExactScores
    summary: str


class ListDefense(Protocol):
    """A mechanism that shows a user a list of items and whose law is known."""

    def release_list(self, exact: ExactScores, streams: Streams) -> ItemList:
        """The list in each world."""
        ...

    def law(self, exact: ExactScores) -> ListLaw:
        """The law of the list."""
        ...
