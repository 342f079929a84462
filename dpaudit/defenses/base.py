"""Base classes of defenses, called roles: the methods that the auditor calls.

A defense subclasses the role whose methods it implements; the tables of a config are checked by
role. `observers` returns what each observer sees, so a new kind of observer needs no change in the
auditor. Recommenders on demand compute from exact item-item statistics, before any noise.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpaudit.core import releases
from dpaudit.core.claim import Assumption, Claim, PersonalLosses, RatingAdjacency, Variant
from dpaudit.core.errors import ConfigError, DataError
from dpaudit.core.plugin import Plugin
from dpaudit.core.releases import Profile, Submissions
from dpaudit.core.streams import Streams
from dpaudit.data.neighbors import RatingChange
from dpaudit.data.ratings import Csr, Ratings, Scale
from dpaudit.kernels import item_item as kernels

Vector = NDArray[np.float64]
Array = TypeVar("Array", bound=NDArray[Any])


def frozen(array: Array) -> Array:
    """Return a read-only view, so that kernels are not compiled for writable arrays as well."""
    view = array.view()
    view.setflags(write=False)
    return view


def frozen_rows(rows: Csr) -> Csr:
    """Return the rows with read-only columns and values; see `frozen`."""
    return Csr(rows.start, frozen(rows.column), frozen(rows.value))


class TickRows(NamedTuple):
    """Compressed rows like `Csr`, with ratings as whole numbers of ticks above the minimum."""

    start: NDArray[np.int64]
    column: NDArray[np.int32]
    value: NDArray[np.int32]


def in_ticks(ratings: Ratings) -> tuple[TickRows, TickRows, float]:
    """Return the rows by item, the rows by user, and the tick that their ratings are counted in.

    The tick is a power of two that divides the scale's width into at least 2^19 parts. Ratings in
    halves or quarters are therefore exact, and any other is exact to 1e-6 of the width.

    Raises:
        DataError: there are more users than the kernels can count.
    """
    if ratings.n_users > kernels.MOST_USERS:
        raise DataError(
            f"the data have {ratings.n_users} users, and item-item statistics count up to "
            f"{kernels.MOST_USERS}: use fewer users"
        )
    width = ratings.scale.width
    tick = 2.0 ** math.ceil(math.log2(width)) / kernels.MOST_TICKS if width else 1.0

    def counted(rows: Csr) -> TickRows:
        offset = rows.value.astype(np.float64) - ratings.scale.minimum
        return TickRows(rows.start, frozen(rows.column), np.rint(offset / tick).astype(np.int32))

    return counted(ratings.by_item), counted(ratings.by_user), tick


@dataclass(frozen=True, eq=False)
class PairCounts:
    """The counts and sums that similarities of item pairs `j`, `k` are computed from.

    Attributes:
        first: `j`, one index for all pairs or one for each pair `(P,)`.
        second: `k` for each pair `(P,)`.
        count: `|Φ(j,k)|`, the number of users who rated both `(P,)`.
        total: `Σ_Φ (r_ij − r_ik)` `(P,)`; empty if the defense does not use it.
        degree: the number of raters of every item `(M,)`.
    """

    first: NDArray[np.int32] | int
    second: NDArray[np.int32]
    count: NDArray[np.integer]
    total: Vector
    degree: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class ItemModel:
    """The exact item-item statistics of a data set.

    Attributes:
        ratings: the data set.
        similarity: row `k` lists the items `j` with `s_jk`.
        degree: the number of raters of each item `(M,)`.
    """

    ratings: Ratings
    similarity: Csr
    degree: NDArray[np.int64]

    @cached_property
    def ticks(self) -> tuple[TickRows, TickRows, float]:
        """The rows in ticks; see `in_ticks`."""
        return in_ticks(self.ratings)

    def row(self, item: int) -> Vector:
        """Return `s_j,item` for every item `j`, dense `(M,)`."""
        start, index, value = self.similarity
        part = slice(int(start[item]), int(start[item + 1]))
        dense = np.zeros(self.ratings.n_items)
        dense[index[part]] = value[part]
        return dense


@dataclass(frozen=True, eq=False)
class ExactScores:
    """The noiseless predictions of one user, to which a release adds noise.

    Attributes:
        scores: `f_ij` for every item `(M,)` float32, `−inf` for items that the user rated.
        sensitivity: the Δf that the noise is scaled by.
    """

    scores: NDArray[np.float32]
    sensitivity: float

    @cached_property
    def candidates(self) -> NDArray[np.int32]:
        """The items that can be shown: those that the user has not rated."""
        return np.flatnonzero(np.isfinite(self.scores)).astype(np.int32)


P = TypeVar("P")

# Trials released at a time by on-demand defenses, so that memory does not grow with the trials.
BLOCK = 2**16


@dataclass(frozen=True, eq=False)
class PredictionPair:
    """Two neighbouring data sets and the predictions that one user is shown.

    Attributes:
        ratings: the data set `D`.
        change: the change that turns `D` into `D'`.
        target: the user to whom predictions are shown.
        items: the items whose predictions are shown together.
        summary: one sentence that describes the pair and names no record.
    """

    ratings: Ratings
    change: RatingChange
    target: int
    items: tuple[int, ...]
    summary: str


@dataclass(frozen=True, eq=False)
class EntryPair:
    """A user's row of the completed matrix in two neighbouring data sets.

    Neighbouring completed matrices differ in one entry. Neighbouring data sets may change several
    entries of the row.

    Attributes:
        before: the row in D.
        after: the row in D'.
        summary: one sentence that describes the pair and names no record.
    """

    before: ExactScores
    after: ExactScores
    summary: str


class Similarities(Protocol):
    """Item similarities, through which other users' ratings affect a user's predictions."""

    def candidates(self, scale: Scale) -> NDArray[np.float32]:
        """Return the values that a hidden rating may have, increasing, `(C,)`."""
        ...

    def pair_floor(self) -> int:
        """Return the largest number of common raters at which a pair's similarity is set to 0."""
        ...

    def pair_similarity(self, pairs: PairCounts) -> Vector:
        """Return `s_jk` of each pair `(P,)`."""
        ...


class Chain(Protocol):
    """A Markov chain whose law after any number of steps can be computed exactly."""

    def laws(self, steps: Sequence[int]) -> Any:
        """Return the law of the state after each of these numbers of steps."""
        ...

    def explored(self, steps: int, top: int) -> NDArray[np.float64]:
        """Return the probability of each number of states visited within `steps`, 1 to `top`."""
        ...

    def divergence_of(self, laws: Any, top: int | None = None) -> NDArray[np.float64]:
        """Return each law's divergence from the stationary law.

        Only the first `top` states are compared; all states if `top` is None.
        """
        ...


@dataclass(frozen=True)
class LaplaceNoise:
    """The Laplace noise on each prediction.

    Attributes:
        sensitivity: Δf, the L1 sensitivity of the released predictions.
        scale: `b = Δf/ε`.
    """

    sensitivity: float
    scale: float


class Defense(Plugin, ABC):
    """A recommender under audit.

    Attributes:
        epsilon: the privacy parameter ε; an audit sweeps over it.
        variant: `published`, `corrected` or `nonprivate`.
        quick: parameters with which a training takes milliseconds, for the contract.
    """

    epsilon: float
    variant: Variant

    quick: ClassVar[Mapping[str, Any]] = {}

    @abstractmethod
    def claim(self) -> Claim | None:
        """Return the privacy guarantee of this variant, or None if it has none."""

    @abstractmethod
    def observers(self) -> Mapping[str, releases.Observer[Any]]:
        """Return the observers by name; `observe` in a config's `[[game]]` selects one.

        The first is the default.
        """

    def noise_of_predictions(self, scale: Scale) -> LaplaceNoise | None:
        """Return the Laplace noise on predictions for this rating scale; None if they have none."""
        return None

    def list_length(self) -> int:
        """Return the length of the list shown to a user, 0 if no list is shown."""
        return 0


class OnDemandDefense(Defense):
    """A recommender that computes a user's predictions on demand.

    Attributes:
        min_ratings: the least number of ratings with which a user is served.
        top_k: the length of the list.
    """

    min_ratings: int
    top_k: int

    @abstractmethod
    def prepare(self, ratings: Ratings) -> ItemModel:
        """Compute what depends neither on randomness nor on the user who is served."""

    @abstractmethod
    def exact(self, model: ItemModel, profile: Profile) -> ExactScores:
        """Compute one user's noiseless predictions."""

    @abstractmethod
    def exact_after(self, model: ItemModel, change: RatingChange, target: int) -> ExactScores:
        """Compute the noiseless predictions of user `target` after one rating has changed."""

    @abstractmethod
    def release_list(self, exact: ExactScores, streams: Streams) -> releases.ItemList:
        """Return the list of each trial, without values."""

    @abstractmethod
    def pairs(self) -> dict[str, str]:
        """Return the constructed pairs of neighbours: a name and a one-sentence description."""

    @abstractmethod
    def similarities(self) -> Similarities | None:
        """Return the item similarities that predictions are computed from, or None."""

    def list_length(self) -> int:
        """Return `top_k`."""
        return self.top_k


class PredictionDefense(OnDemandDefense):
    """A recommender that shows noised predictions, singly or as a ranked list with their values.

    Attributes:
        adjacency: the adjacency relation of the claim.
        outputs: the number of one user's predictions that the claim covers jointly.
    """

    adjacency: RatingAdjacency
    outputs: int

    @abstractmethod
    def pair(self, name: str, scale: Scale) -> PredictionPair:
        """Build one of `pairs` on this rating scale."""

    @abstractmethod
    def release(
        self, exact: ExactScores, streams: Streams, request: releases.Request
    ) -> releases.Predictions | releases.TopList:
        """Return what is shown in each trial."""

    @abstractmethod
    def serving(self, min_ratings: int) -> PredictionDefense:
        """Return the same recommender with another `min_ratings`."""

    @abstractmethod
    def release_items(
        self, exact: ExactScores, streams: Streams, items: NDArray[np.int32]
    ) -> releases.Predictions:
        """Return the noised predictions of `items` `(W, k)`."""

    @abstractmethod
    def exact_held_out(self, model: ItemModel, profile: Profile, item: int) -> float:
        """Compute the noiseless prediction of a rated item from the user's other ratings."""

    @abstractmethod
    def pair_floor(self) -> int:
        """Return the largest number of common raters at which a pair's similarity is set to 0."""

    @abstractmethod
    def side_information(
        self, model: ItemModel, profile: Profile, hidden: NDArray[np.int32]
    ) -> releases.SideInformation:
        """Return the knowledge of an attacker who knows all ratings but that of the hidden item."""

    @abstractmethod
    def noise_of_predictions(self, scale: Scale) -> LaplaceNoise:
        """Return the noise on predictions for this rating scale."""


class ListDefense(OnDemandDefense):
    """A recommender that shows only a list of items, drawn from a known law."""

    @abstractmethod
    def law(self, exact: ExactScores) -> releases.ListLaw:
        """Return the law of the list."""

    @abstractmethod
    def pair(self, name: str, scale: Scale) -> EntryPair:
        """Build one of `pairs` on this rating scale."""

    @abstractmethod
    def is_ordered(self) -> bool:
        """Return whether the list is ordered, best first, rather than a set."""

    def side_information(
        self, model: ItemModel, profile: Profile, hidden: NDArray[np.int32]
    ) -> releases.SideInformation:
        """Return what an attacker knows who knows all ratings but the one on the hidden item.

        Raises:
            ConfigError: the defense does not say how a hidden rating decides the list.
        """
        raise ConfigError(f"{self.name} has no attack on hidden ratings: remove [[attack]]")

    def log_likelihood(
        self, side: releases.SideInformation, shown: releases.ItemList, scale: Scale
    ) -> NDArray[np.float64]:
        """Return `ln P` of each trial's list under each value of the hidden rating `(W, C)`.

        Args:
            side: what is known of the user.
            shown: the lists.
            scale: the rating scale.

        Raises:
            NotImplementedError: the defense has no `side_information`.
        """
        raise NotImplementedError(f"{self.name} has no side_information")

    def pair_epsilon(self, pair: EntryPair) -> float | None:
        """Return the exact ε of the list on this pair, or None if it is not known."""
        return None

    def walks_chain(self) -> bool:
        """Return whether the list is the state of a Markov chain after a finite number of steps."""
        return False

    def chain(self, exact: ExactScores) -> Chain:
        """Return that chain.

        Raises:
            NotImplementedError: the defense runs no chain.
        """
        raise NotImplementedError(f"{self.name} runs no chain")


class Trained(Protocol):
    """The trained models of W trials."""

    def predict(self, users: NDArray[np.int32], items: NDArray[np.int32]) -> NDArray[np.float32]:
        """Predict the ratings of (user, item) pairs, on the rating scale, `(W, n)`."""
        ...


class TrainedSubsets(Trained, Protocol):
    """The trained models of W trials, each trained on a subset of the same ratings."""

    def recommend(self, users: NDArray[np.int32], k: int) -> NDArray[np.int32]:
        """Return each user's `k` best items outside a trial's subset `(W, n, k)`; -1 pads."""
        ...


@dataclass(frozen=True, eq=False)
class Targets:
    """The users who may be the target of a game.

    Attributes:
        rows: mask of the ratings that may change `(R,)`; None for all.
        crowded: whether the target whose items have most raters is the most informative.
        remedy: what to do if there is no possible target, for the error message.
    """

    rows: NDArray[np.bool_] | None = None
    crowded: bool = False
    remedy: str = ""


class TrainedDefense(Defense, Generic[P]):
    """A recommender that trains a model on the ratings, many trials at once."""

    # Whether its models rank items instead of predicting ratings.
    ranks: ClassVar[bool] = False
    # The metrics that `assumptions` yields for the published variant.
    counts: ClassVar[tuple[str, ...]] = ()
    # Whether its private variants have `personal_losses`.
    personal: ClassVar[bool] = False

    @abstractmethod
    def prepare(self, ratings: Ratings, public: Ratings | None = None) -> P:
        """Compute what needs no randomness.

        Args:
            ratings: the training data.
            public: the data whose statistics count as public, so that neighbouring data sets share
                them; `ratings` if None.
        """

    def public_statistics(self, prepared: P) -> Any:
        """Return what the claim takes for public, as an array; None if it takes nothing.

        Neighbouring data sets that are prepared with the same public data share it.

        Args:
            prepared: one of the data sets.
        """
        return None

    @abstractmethod
    def train(self, prepared: P, streams: Streams) -> Any:
        """Train the models of these trials (a `Trained`), each from its own stream alone.

        Raises:
            NoModelError: a training diverged to infinite numbers or NaN.
        """

    def trains_subsets(self) -> bool:
        """Return whether `train_subsets` trains models on several subsets together."""
        return False

    def train_subsets(
        self,
        ratings: Ratings,
        kept: NDArray[np.bool_],
        streams: Streams,
        public: Ratings | None = None,
    ) -> TrainedSubsets:
        """Train a model on each of several subsets of the ratings.

        Each model has the same bits as one that is trained alone, by `train`, on its subset.

        Args:
            ratings: the ratings.
            kept: the rows of each subset `(W, R)`, W at most 16.
            streams: a trial for each.
            public: as in `prepare`, for every subset; the subset itself if None.

        Raises:
            NotImplementedError: the defense trains on one data set at a time.
        """
        raise NotImplementedError(f"{self.name} trains on one data set at a time")

    def least_ratings(self) -> int:
        """Return the number of ratings that a user must exceed to be trained on."""
        return 0

    def check_observed(self, observer: str) -> None:
        """Check that games with this observer of steps can run.

        Raises:
            ConfigError: they cannot; the message names the remedy.
        """

    def steps_mu(self, prepared: P) -> float:
        """Return the largest distance of all steps of a training on two neighbouring data sets.

        That is `√Σ ‖difference‖²/σ²` over the steps that the observer `recommender` sees, if
        clipping bounds it whatever is learned; infinite if nothing does.

        Args:
            prepared: one of the data sets.
        """
        return math.inf

    def separates_ratings(self) -> bool:
        """Return whether each rating has noise of its own, so that a game may test many at once."""
        return False

    def targets(self, ratings: Ratings, observer: str) -> Targets:
        """Return the users who may be the target of a game with this observer.

        Raises:
            ConfigError: the observer sees nothing of known law on these data.
        """
        return Targets()

    def assumptions(self, ratings: Ratings, seed: int) -> Iterator[Assumption]:
        """Measure how often the claim's assumptions fail in trainings on these ratings."""
        yield from ()

    def personal_losses(self, ratings: Ratings, seed: int) -> PersonalLosses:
        """Compute the ε of each user who has ratings, and their losses in trainings on these.

        Raises:
            NotImplementedError: the defense has one ε for all users.
        """
        raise NotImplementedError(f"{self.name} has one ε for all users")


class FederatedDefense(TrainedDefense[P]):
    """A recommender whose users submit real and fake gradients to a server in each round.

    Attributes:
        rounds: the number of training rounds.
        density: the share of fakes among a user's candidates.
        public_share: the share of real submissions if it is public, None if users report it.
    """

    rounds: int
    density: float

    @property
    @abstractmethod
    def public_share(self) -> float | None:
        """The share of real submissions if it is public, None if users report it."""

    @abstractmethod
    def transcript(self, prepared: P, trial: Streams, users: NDArray[np.bool_] | None) -> Any:
        """Return what the server sees of a training."""


class SubmittingDefense(TrainedDefense[P]):
    """A recommender whose users submit a number or vector for every rating in each round.

    Attributes:
        rounds: the number of training rounds.
    """

    rounds: int

    @abstractmethod
    def submissions(
        self, prepared: P, trial: Streams, users: NDArray[np.bool_]
    ) -> tuple[Submissions, Any]:
        """Train; return what the server received from these users (mask `(N,)`) and the model."""

    @abstractmethod
    def check_submissions(self) -> None:
        """Check that the server sees single submissions.

        Raises:
            ConfigError: it sees only sums; the message names the remedy.
        """
