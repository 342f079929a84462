"""The roles of attacks: what each reads, and what it makes of it.

An attack subclasses the role whose methods it has. The role decides which table of a config may
name it, and the types in `reads` which observers' views it is given.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.plugin import Part
from dpaudit.core.releases import (
    ItemFactors,
    ItemList,
    Predictions,
    SideInformation,
    TopList,
)
from dpaudit.core.transcripts import Pairs, Round, Submissions, Verdicts
from dpaudit.data.ratings import Ratings

Numbers = NDArray[np.float64]
Indices = NDArray[np.int32]
# A type of release, and the type of what the attacker knows beside it.
Readable = tuple[type, type]


class Attack(Part, ABC):
    """Any attack: a name, a title, a source and its parameters."""


class Inference(Attack):
    """`[[attack]]` on recommenders that predict on demand: recovers one hidden rating."""

    @property
    @abstractmethod
    def shown(self) -> Literal["one", "list"]:
        """Whether the attack reads one prediction, or the list of the best with their values."""

    @abstractmethod
    def infer(
        self, release: Predictions | TopList, side: SideInformation, noise_scale: float
    ) -> NDArray[np.int64]:
        """The guessed index into `side.candidates` in each trial `(W,)`, −1 for none of them."""


class Reads(Attack):
    """An attack that is given one observer's views.

    Attributes:
        reads: the pairs of a release's type and a knowledge's type that it can read.
    """

    reads: ClassVar[tuple[Readable, ...]]

    @classmethod
    def can_read(cls, shows: Readable) -> bool:
        """Whether it reads what an observer is shown, by the types of both."""
        return any(
            issubclass(shows[0], release) and issubclass(shows[1], knowledge)
            for release, knowledge in cls.reads
        )


class Distinguisher(Reads):
    """`[[game]]`: tells D' from D by what is seen of one release or of each round."""

    @abstractmethod
    def score(self, release: Any, knowledge: Any) -> Numbers:
        """A score of each trial `(W,)`, large for D'; the scores of rounds are added."""


class Ratio(Protocol):
    """The log-likelihood ratio of two laws."""

    def score(self, features: NDArray[Any]) -> Numbers:
        """Large where data set D' is likelier `(W,)`."""
        ...


class LearnedDistinguisher(Reads):
    """`[[game]]`: tells D' from D by features whose laws it learns from trials of its own."""

    @property
    @abstractmethod
    def fitted_on(self) -> int:
        """How many trials of either data set the laws are fitted to."""

    @property
    @abstractmethod
    def list_length(self) -> int:
        """The length of the list that it asks to be shown, where lists are shown."""

    @abstractmethod
    def features(self, release: Any, knowledge: Any) -> NDArray[Any]:
        """What it reads off each trial `(W, F)`."""

    @abstractmethod
    def fit(self, absent: NDArray[Any], present: NDArray[Any]) -> Ratio:
        """The ratio of the laws of features of D and of D'."""


class Watcher(Protocol):
    """Sees a transcript round by round, and can be asked at any time."""

    def see(self, round_: Round) -> None:
        """Take in one round; keeps nothing of its arrays."""
        ...

    def verdicts(self) -> Verdicts:
        """What is made of all rounds seen so far; changes nothing."""
        ...


class SubmissionTest(Attack):
    """`[[attack]]` beside `[transcript]`: tells real submissions of a training from fakes."""

    @property
    def most_pairs(self) -> int | None:
        """How many pairs it follows at most, where it keeps much of each; None for all."""
        return None

    @abstractmethod
    def watch(self, pairs: Pairs) -> Watcher:
        """A watcher of these pairs that has seen nothing yet."""


class RatingReconstruction(Attack):
    """`[[attack]]` on trained models: recovers sensitive ratings from the released model."""

    @abstractmethod
    def reconstruct(
        self, release: ItemFactors, shared: Ratings, users: Indices, items: Indices
    ) -> Numbers:
        """The recovered ratings of pairs of a user and an item `(W, n)`."""


class ListReconstruction(Attack):
    """`[[attack]]` on models that rank: recovers what users keep private, as lists."""

    @abstractmethod
    def lists(
        self,
        release: ItemFactors,
        shared: Ratings,
        users: Indices,
        k: int,
        held: Ratings | None = None,
    ) -> Indices:
        """The k items that each user most likely keeps private `(W, n, k)`, best first."""


class SubmissionReconstruction(Attack):
    """`[[attack]]` on trained models: recovers sensitive ratings from what users submit.

    Attributes:
        users: how many users it follows.
    """

    users: int

    def check_rounds(self, rounds: int) -> None:
        """Refuse a training of so many rounds.

        Raises:
            ConfigError: it reads none of that length.
        """

    @abstractmethod
    def read(self, seen: Submissions, release: ItemFactors, shared: Ratings) -> Numbers:
        """The recovered ratings, from the model alone and with the submissions `(2, kept)`."""


class SybilAttack(Attack):
    """`[[campaign]]`: recovers a hidden rating by fake accounts; see `attacks.sybil.averaging`."""


class PassiveAttack(Attack):
    """`[[campaign]]`: infers a purchase from two views of public lists.

    The lists are those of related items of what the target user is known to have.
    """

    @abstractmethod
    def scores(self, before: ItemList, after: ItemList, item: int) -> NDArray[np.int64]:
        """The score of a candidate by how many lists are observed, from none on `(A + 1,)`."""

    @abstractmethod
    def guess(
        self, first: NDArray[np.int64], second: NDArray[np.int64], draw: float
    ) -> NDArray[np.bool_]:
        """Whether it takes the first of two candidates, by their scores."""


# The roles that play `[[game]]`, and those that recover sensitive ratings from a model.
GAME_ROLES = (Distinguisher, LearnedDistinguisher)
RECONSTRUCTIONS = (RatingReconstruction, ListReconstruction)
