"""Base classes of attacks, one per role: its inputs and its result.

An attack subclasses the role whose methods it implements. The role decides which table of a config
may name the attack; the types in `reads` decide which observers' views it can use.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.membership import Observer
from dpaudit.core.plugin import Plugin
from dpaudit.core.releases import (
    ItemFactors,
    ItemList,
    Predictions,
    Round,
    SideInformation,
    Submissions,
    TopList,
    UserItemPairs,
    Verdicts,
)
from dpaudit.data.ratings import Ratings

Numbers = NDArray[np.float64]
Indices = NDArray[np.int32]
# The type of a release, and the type of the attacker's knowledge.
Readable = tuple[type, type]


class Form(NamedTuple):
    """A form in which an attack is run where a config names none.

    Attributes:
        parameters: its parameters.
        words: what its label says of them after the attack's name; empty for the label that the
            attack has by itself.
    """

    parameters: Mapping[str, Any] = MappingProxyType({})
    words: str = ""


class Attack(Plugin, ABC):
    """An attack: a name, a title, a source and its parameters.

    Attributes:
        usual: the forms in which an audit that names no attack runs it, if there is a default for
            its role; none leaves it out.
        rank: its place among the attacks of its role in such an audit, the least first; those of
            the same rank are ordered by name.
    """

    usual: ClassVar[tuple[Form, ...]] = (Form(),)
    rank: ClassVar[int] = 100


class Inference(Attack):
    """`[[attack]]` on recommenders that predict on demand: recover one hidden rating."""

    @property
    @abstractmethod
    def shown(self) -> Literal["one", "list"]:
        """Whether the attack reads one prediction or the top-k list with its values."""

    @abstractmethod
    def infer(
        self, release: Predictions | TopList, side: SideInformation, noise_scale: float
    ) -> NDArray[np.int64]:
        """Guess an index into `side.candidates` in each trial `(W,)`, −1 for none of them."""


class ListInference(Attack):
    """`[[attack]]` on recommenders that show lists alone: recover one hidden rating."""

    @abstractmethod
    def infer(
        self, log_likelihood: NDArray[np.float64], frequency: NDArray[np.float64]
    ) -> NDArray[np.int64]:
        """Guess an index of the possible values of the hidden rating in each trial `(W,)`.

        Args:
            log_likelihood: `ln P` of the shown list under each value `(W, C)`.
            frequency: how often each value occurs in the population `(C,)`.
        """


class Reads(Attack):
    """An attack on the views of one observer.

    Attributes:
        reads: the supported pairs of a release type and a knowledge type.
    """

    reads: ClassVar[tuple[Readable, ...]]

    @classmethod
    def can_read(cls, shows: Readable) -> bool:
        """Whether the attack supports an observer's types of release and knowledge."""
        return any(
            issubclass(shows[0], release) and issubclass(shows[1], knowledge)
            for release, knowledge in cls.reads
        )


class Distinguisher(Reads):
    """`[[game]]`: distinguish D' from D by one release, or by each round."""

    @abstractmethod
    def score(self, release: Any, knowledge: Any) -> Numbers:
        """Score each trial `(W,)`, larger for D'; scores of several rounds are added."""


class Ratio(Protocol):
    """The log-likelihood ratio of two distributions."""

    def score(self, features: NDArray[Any]) -> Numbers:
        """Return scores `(W,)`, larger where data set D' is more likely."""


class LearnedDistinguisher(Reads):
    """`[[game]]`: distinguish D' from D by features whose distributions are learned from trials."""

    @property
    @abstractmethod
    def fitted_on(self) -> int:
        """Number of trials per data set that the distributions are fitted to."""

    @property
    @abstractmethod
    def list_length(self) -> int:
        """Length of the requested list, for observers who are shown lists."""

    @abstractmethod
    def features(self, release: Any, knowledge: Any) -> NDArray[Any]:
        """Extract the features of each trial `(W, F)`."""

    @abstractmethod
    def fit(self, absent: NDArray[Any], present: NDArray[Any]) -> Ratio:
        """Fit the ratio of the feature distributions of D and D'."""


class TranscriptReader(Protocol):
    """A test that reads a transcript round by round and can give verdicts at any time."""

    def see(self, round_: Round) -> None:
        """Process one round; must not keep references to its arrays."""

    def verdicts(self) -> Verdicts:
        """Return verdicts on all rounds so far, without changing any state."""


class SubmissionTest(Attack):
    """`[[attack]]` beside `[transcript]`: distinguish real submissions of a training from fakes.

    Attributes:
        baseline: whether it reads no submission, so that it is no leak of the rounds.
    """

    baseline: ClassVar[bool] = False

    @property
    def most_pairs(self) -> int | None:
        """Largest number of pairs, if limited to save memory; None for all."""
        return None

    @abstractmethod
    def reader(self, pairs: UserItemPairs) -> TranscriptReader:
        """Return a new reader of these pairs."""


class Covariates(NamedTuple):
    """What the attacker knows of interactions or users beforehand, the same in every training.

    Attributes:
        targets: of the targets `(m, X)`.
        population: of the population `(p, X)`.
        surrogates: how many of the columns, the last, are of surrogate models.
    """

    targets: Numbers
    population: Numbers
    surrogates: int = 0


class Signals(NamedTuple):
    """What an observer computes about each target in each training.

    A target is an interaction, or a user, whose presence in the training data is inferred.

    Attributes:
        features: numbers that presence may change `(T, m, F)`.
        fit: one number, larger where the model fits the target better `(T, m)`.
        population: the same number for interactions that no model was trained on `(T, p)`; p may
            be 0.
        strangers: the features of these interactions `(T, p, F)`; None if they are not kept.
        covariates: what is known of targets and population beforehand; None if nothing is.
        summaries: how many of the features, the first, sum up the others.
    """

    features: Numbers
    fit: Numbers
    population: Numbers
    strangers: Numbers | None = None
    covariates: Covariates | None = None
    summaries: int = 0

    def of(self, trainings: NDArray[np.bool_]) -> Signals:
        """Return the signals of some trainings (mask `(T,)`)."""
        features, fit, population = (signal[trainings] for signal in self[:3])
        strangers = None if self.strangers is None else self.strangers[trainings]
        return Signals(features, fit, population, strangers, self.covariates, self.summaries)


class MembershipInference(Attack):
    """`[[attack]]` beside `[membership]`: infer from trained models who is in the training data.

    Attributes:
        compares_targets: whether a target is compared with itself in the attacker's trainings, so
            that these have the same targets; else other targets of one training calibrate it too.
        observer: the only observer whose signals it reads; None for any.
    """

    compares_targets: ClassVar[bool] = True
    observer: ClassVar[Observer | None] = None

    @abstractmethod
    def score(self, seen: Signals, reference: Signals, present: NDArray[np.bool_]) -> Numbers:
        """Score each target in each attacked training `(T, m)`, larger for likelier presence.

        Args:
            seen: the signals of the attacked trainings `(T, …)`.
            reference: the signals of the attacker's own trainings `(R, …)`.
            present: whether each target is in the data of each of these `(R, m)`.
        """


class RatingReconstruction(Attack):
    """`[[attack]]` on trained models: recover sensitive ratings from the released model."""

    @abstractmethod
    def reconstruct(
        self, release: ItemFactors, shared: Ratings, users: Indices, items: Indices
    ) -> Numbers:
        """Recover the ratings of (user, item) pairs `(W, n)`."""


class ListReconstruction(Attack):
    """`[[attack]]` on models that rank: recover users' private items, as lists."""

    @abstractmethod
    def lists(
        self,
        release: ItemFactors,
        shared: Ratings,
        users: Indices,
        k: int,
        held: Ratings | None = None,
    ) -> Indices:
        """Return the k most likely private items of each user `(W, n, k)`, best first."""


class SubmissionReconstruction(Attack):
    """`[[attack]]` on trained models: recover sensitive ratings from users' submissions.

    Attributes:
        users: the number of users it attacks.
    """

    users: int

    def check_rounds(self, rounds: int) -> None:
        """Check that the attack can read a training of this many rounds.

        Raises:
            ConfigError: it cannot.
        """

    @abstractmethod
    def read(self, seen: Submissions, release: ItemFactors, shared: Ratings) -> Numbers:
        """Recover ratings from the model alone, and also from the submissions `(2, kept)`."""


Category = Literal["immediate", "dynamic", "combined"]


class SybilAttack(Attack):
    """`[[sybil]]`: recover a hidden rating by accounts; see `attacks.inference`.

    Attributes:
        category: whether accounts are created before the learning phase, or rows change after it.
        observe: what the accounts are shown: noised predictions, or lists alone.
        fake_accounts: the largest number of accounts created before the learning phase.
        calibration: trials per candidate value that the distribution of a list is learned from.
    """

    category: Category
    observe: Literal["values", "list"]
    fake_accounts: int
    calibration: int

    @property
    @abstractmethod
    def creates_accounts(self) -> bool:
        """Whether fake accounts may be created before the learning phase."""

    @abstractmethod
    def on_sets(self) -> Self:
        """Return the attack on lists without order."""

    @abstractmethod
    def outcomes(self, items: Indices, item: int) -> NDArray[np.int64]:
        """Return what is read of `item` from each list `(W, k)`, as an integer `(W,)`."""

    @abstractmethod
    def row(
        self,
        scores: NDArray[np.float32],
        item: int,
        threshold: float,
        count: int,
        ends: tuple[float, float],
    ) -> NDArray[np.float32]:
        """Return a row in which `item` competes for `count` places with rivals at `threshold`."""

    @abstractmethod
    def thresholds(self, exact: Numbers) -> Numbers:
        """Return the entries of rivals that separate the candidates' predictions `(C,)`."""

    @abstractmethod
    def laplace_log_likelihood(self, shown: Numbers, exact: Numbers, noise_scale: float) -> Numbers:
        """Return the log-likelihood of shown values `(W,)` under each candidate `(W, C)`."""

    @abstractmethod
    def learned_log_likelihood(self, seen: NDArray[np.int64], trials: NDArray[np.int64]) -> Numbers:
        """Return log-likelihoods `(W, C)` of outcomes `(W,)`, from trials `(C, N)`."""

    @abstractmethod
    def guess(
        self, log_likelihood: Numbers, releases: NDArray[np.int64], draw: float
    ) -> NDArray[np.int64]:
        """Return the most likely candidate after each number of releases `(E,)`."""


class PassiveAttack(Attack):
    """`[[sybil]]`: infer a purchase from public lists at two times.

    They are the related-items lists of items that the target user is known to have.
    """

    @abstractmethod
    def scores(self, before: ItemList, after: ItemList, item: int) -> NDArray[np.int64]:
        """Score a candidate item from the first 0, 1, …, A observed lists `(A + 1,)`."""

    @abstractmethod
    def guess(
        self, first: NDArray[np.int64], second: NDArray[np.int64], draw: float
    ) -> NDArray[np.bool_]:
        """Whether to guess the first of two candidates, given their scores."""


def places(items: Indices, item: int) -> NDArray[np.int64]:
    """Return the place of an item in each list `(W, k)`, k where it is absent, `(W,)`."""
    hits = items == item
    return np.where(hits.any(1), hits.argmax(1), items.shape[1])


# The roles for `[[game]]`, and those that recover sensitive ratings from a model.
GAME_ROLES = (Distinguisher, LearnedDistinguisher)
RECONSTRUCTIONS = (RatingReconstruction, ListReconstruction)
