"""What every defense states and does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol, TypeGuard

from dpaudit.core.claim import Claim, Variant
from dpaudit.core.profile import Profile
from dpaudit.core.releases import ItemList, ListLaw
from dpaudit.core.streams import Streams
from dpaudit.data.neighbors import RatingChange
from dpaudit.data.ratings import Ratings, Scale
from dpaudit.defenses.item_model import ExactScores, ItemModel


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


class Defense(Protocol):
    """What the auditor asks of every defense, whatever it shows."""

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

    @property
    def min_ratings(self) -> int:
        """The ratings that a user needs to be shown anything."""
        ...

    @property
    def top_k(self) -> int:
        """The length of the list."""
        ...

    def claim(self) -> Claim | None:
        """What it says it guarantees."""
        ...

    def prepare(self, ratings: Ratings) -> ItemModel:
        """All that needs no randomness and no user."""
        ...

    def exact(self, model: ItemModel, profile: Profile) -> ExactScores:
        """One user's noiseless predictions."""
        ...

    def exact_after(self, model: ItemModel, change: RatingChange, target: int) -> ExactScores:
        """Those of user `target` once one rating has changed."""
        ...

    def release_list(self, exact: ExactScores, streams: Streams) -> ItemList:
        """The list in each world, without values."""
        ...

    def pairs(self) -> dict[str, str]:
        """The constructed pairs of neighbours, by name, each in a sentence."""
        ...


class ListDefense(Defense, Protocol):
    """A defense that shows a user a list of items, whose law is known, and nothing else."""

    def law(self, exact: ExactScores) -> ListLaw:
        """The law of the list."""
        ...

    def pair(self, name: str, scale: Scale) -> EntryPair:
        """One of `pairs`, on this rating scale."""
        ...


def shows_lists(defense: object) -> TypeGuard[ListDefense]:
    """Whether a defense, or its class, shows lists alone: it has a `law` and releases lists."""
    return hasattr(defense, "law") and hasattr(defense, "release_list")
