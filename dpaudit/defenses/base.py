"""The roles of defenses: what the auditor asks of each.

A defense subclasses the role whose methods it has; a config's tables are checked by role. What its
observers see is asked by `observers`, so a new kind of observer needs no change of the auditor.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.assumption import Assumption, AssumptionMetric
from dpaudit.core.claim import Claim, RatingAdjacency, Variant
from dpaudit.core.observation import Observer
from dpaudit.core.plugin import Part
from dpaudit.core.profile import Profile
from dpaudit.core.releases import ItemList, ListLaw, Predictions, Request, SideInformation, TopList
from dpaudit.core.streams import Streams
from dpaudit.core.transcripts import Submissions
from dpaudit.data.neighbors import RatingChange
from dpaudit.data.ratings import Ratings, Scale
from dpaudit.defenses.item_model import ExactScores, ItemModel, PairCounts, Vector

P = TypeVar("P")

# Trials released at a time by defenses that serve on demand: memory does not grow with trials.
BLOCK = 2**16


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
    """What a user is predicted, their row of the completed matrix, in two neighbouring data sets.

    One entry differs where the neighbours are matrices, several where they are data sets.

    Attributes:
        before: the row in D.
        after: the row in D'.
        summary: the pair in one sentence, without naming any record.
    """

    before: ExactScores
    after: ExactScores
    summary: str


class Similarities(Protocol):
    """Similarities of items through which ratings of others reach a user's predictions."""

    def candidates(self, scale: Scale) -> NDArray[np.float32]:
        """The values a hidden rating may have, increasing `(C,)`."""
        ...

    def pair_floor(self) -> int:
        """Pairs with at most this many common users have similarity 0."""
        ...

    def pair_similarity(self, pairs: PairCounts) -> Vector:
        """`s_jk` of each pair `(P,)`."""
        ...


class Chain(Protocol):
    """A Markov chain over few states, whose law after any number of steps can be computed."""

    def laws(self, steps: Sequence[int]) -> Any:
        """The law of the state after each number of steps."""
        ...

    def divergence_of(self, laws: Any, top: int | None) -> NDArray[np.float64]:
        """The divergence of each from the stationary law, on the first `top` states or on all."""
        ...


@dataclass(frozen=True)
class LaplaceNoise:
    """The Laplace noise on each prediction.

    Attributes:
        sensitivity: Δf, the largest change of what is released, in L1.
        scale: `b = Δf/ε`.
    """

    sensitivity: float
    scale: float


class Defense(Part, ABC):
    """Any recommender under audit.

    Attributes:
        epsilon: the ε of the sweep.
        variant: whose mechanism it is.
    """

    epsilon: float
    variant: Variant

    @abstractmethod
    def claim(self) -> Claim | None:
        """What it says it guarantees, None where it says nothing."""

    @abstractmethod
    def observers(self) -> Mapping[str, Observer[Any]]:
        """Who sees something of it, by the name that `observe` of a config's `[[game]]` gives.

        The first is who observes a game that names nobody.
        """

    def noise_of_predictions(self, scale: Scale) -> LaplaceNoise | None:
        """The noise on predictions of ratings on this scale; None where it is of another kind."""
        return None

    def list_length(self) -> int:
        """The length of the list that a user is shown; 0 where none is."""
        return 0


class OnDemandDefense(Defense):
    """A recommender that computes a user's predictions when they are asked for.

    Attributes:
        min_ratings: the ratings that a user needs to be shown anything.
        top_k: the length of the list.
    """

    min_ratings: int
    top_k: int

    @abstractmethod
    def prepare(self, ratings: Ratings) -> ItemModel:
        """All that needs no randomness and no user."""

    @abstractmethod
    def exact(self, model: ItemModel, profile: Profile) -> ExactScores:
        """One user's noiseless predictions."""

    @abstractmethod
    def exact_after(self, model: ItemModel, change: RatingChange, target: int) -> ExactScores:
        """Those of user `target` once one rating has changed."""

    @abstractmethod
    def release_list(self, exact: ExactScores, streams: Streams) -> ItemList:
        """The list in each trial, without values."""

    @abstractmethod
    def pairs(self) -> dict[str, str]:
        """The constructed pairs of neighbours, by name, each in a sentence."""

    @abstractmethod
    def similarities(self) -> Similarities | None:
        """The similarities behind its predictions; None where they have no such form."""

    def list_length(self) -> int:
        """`top_k`."""
        return self.top_k


class PredictionDefense(OnDemandDefense):
    """A recommender that shows noised predictions, alone or as a list with their values.

    Attributes:
        adjacency: the neighbours that its claim is about.
        outputs: how many predictions of one user the claim covers together.
    """

    adjacency: RatingAdjacency
    outputs: int

    @abstractmethod
    def pair(self, name: str, scale: Scale) -> WorldPair:
        """One of `pairs`, on this rating scale."""

    @abstractmethod
    def release(
        self, exact: ExactScores, streams: Streams, request: Request
    ) -> Predictions | TopList:
        """What is shown in each trial."""

    @abstractmethod
    def serving(self, min_ratings: int) -> PredictionDefense:
        """The same recommender, for users with so many ratings."""

    @abstractmethod
    def release_items(
        self, exact: ExactScores, streams: Streams, items: NDArray[np.int32]
    ) -> Predictions:
        """The noised predictions of `items` `(W, k)`."""

    @abstractmethod
    def exact_held_out(self, model: ItemModel, profile: Profile, item: int) -> float:
        """The noiseless prediction of a rated item from the user's other ratings."""

    @abstractmethod
    def pair_floor(self) -> int:
        """Pairs of items with at most this many common users have similarity 0."""

    @abstractmethod
    def side_information(
        self, model: ItemModel, profile: Profile, hidden: NDArray[np.int32]
    ) -> SideInformation:
        """What an attacker knows from whom the rating on one item is hidden."""

    @abstractmethod
    def noise_of_predictions(self, scale: Scale) -> LaplaceNoise:
        """The noise on predictions of ratings on this scale."""


class ListDefense(OnDemandDefense):
    """A recommender that shows a list of items, whose law is known, and nothing else."""

    @abstractmethod
    def law(self, exact: ExactScores) -> ListLaw:
        """The law of the list."""

    @abstractmethod
    def pair(self, name: str, scale: Scale) -> EntryPair:
        """One of `pairs`, on this rating scale."""

    @abstractmethod
    def is_ordered(self) -> bool:
        """Whether the list is best first, and not a set."""

    def pair_epsilon(self, pair: EntryPair) -> float | None:
        """The ε of the list on this pair by its law; None where it is not known."""
        return None

    def walks_chain(self) -> bool:
        """Whether the list is the state of a chain that is stopped."""
        return False

    def chain(self, exact: ExactScores) -> Chain:
        """That chain.

        Raises:
            NotImplementedError: it walks none.
        """
        raise NotImplementedError(f"{self.name} walks no chain")


class Trained(Protocol):
    """The models of W trials."""

    def predict(self, users: NDArray[np.int32], items: NDArray[np.int32]) -> NDArray[np.float32]:
        """The predicted ratings of pairs of a user and an item, on the scale, `(W, n)`."""
        ...


@dataclass(frozen=True, eq=False)
class Targets:
    """Which users may be in doubt in a game.

    Attributes:
        rows: the ratings that may change `(R,)`; None for all.
        crowded: whether the one whose items have most raters tells most.
        remedy: what to do where nobody may be in doubt.
    """

    rows: NDArray[np.bool_] | None = None
    crowded: bool = False
    remedy: str = ""


class TrainedDefense(Defense, Generic[P]):
    """A recommender that learns from the ratings, many trials at once."""

    # Whether its models rank items and predict no ratings.
    ranks: ClassVar[bool] = False
    # What `assumptions` counts of the published variant.
    counts: ClassVar[tuple[AssumptionMetric, ...]] = ()

    @abstractmethod
    def prepare(self, ratings: Ratings, public: Ratings | None = None) -> P:
        """All that needs no randomness.

        Args:
            ratings: what is learned from.
            public: the data whose statistics count as public, `ratings` unless given: neighbouring
                data sets share them.
        """

    @abstractmethod
    def train(self, prepared: P, streams: Streams) -> Any:
        """The models of these trials, which are `Trained`; each draws from its own stream alone.

        Raises:
            RunError: a training left the range of numbers.
        """

    def least_ratings(self) -> int:
        """Users with no more ratings than this are not learned from."""
        return 0

    def check_observed(self, observer: str) -> None:
        """Refuse games of this observer of steps.

        Raises:
            ConfigError: with the remedy.
        """

    def separates_ratings(self) -> bool:
        """Whether its steps show each rating apart, so that many can be in doubt at once."""
        return False

    def targets(self, ratings: Ratings, observer: str) -> Targets:
        """Which users may be in doubt where this observer sees the training.

        Raises:
            ConfigError: the observer sees nothing whose law is known on these data.
        """
        return Targets()

    def assumptions(self, ratings: Ratings, seed: int) -> Iterator[Assumption]:
        """How often what its claim assumes fails in trainings on these ratings."""
        yield from ()


class FederatedDefense(TrainedDefense[P]):
    """A recommender whose users submit real gradients and fakes to a server, round by round.

    Attributes:
        rounds: how many rounds a training has.
        density: the share of fakes among a user's candidates.
        public_share: the share of real submissions where it is public; None where users are asked.
    """

    rounds: int
    density: float

    @property
    @abstractmethod
    def public_share(self) -> float | None:
        """The share of real submissions where it is public; None where users are asked."""

    @abstractmethod
    def transcript(self, prepared: P, world: Streams, users: NDArray[np.bool_] | None) -> Any:
        """What the server sees of a training."""


class SubmittingDefense(TrainedDefense[P]):
    """A recommender whose users submit something of every rating, round by round.

    Attributes:
        rounds: how many rounds a training has.
    """

    rounds: int

    @abstractmethod
    def submissions(
        self, prepared: P, world: Streams, users: NDArray[np.bool_]
    ) -> tuple[Submissions, Any]:
        """What the server has of these users `(N,)` after a training, and the model."""

    @abstractmethod
    def check_submissions(self) -> None:
        """Refuse to read single submissions where the server sees sums alone.

        Raises:
            ConfigError: with the remedy.
        """
