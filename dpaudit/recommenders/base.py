"""The protocol of recommenders, and base classes of the adapters to libraries.

An adapter pins the shape of the data, so that no user or item vanishes with its last interaction.
"""

from __future__ import annotations

import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field, replace
from inspect import Parameter, signature
from pathlib import Path
from threading import RLock
from typing import Any, NamedTuple, Protocol, get_args

import numpy as np
from numpy.typing import NDArray
from pydantic.dataclasses import dataclass as parameters
from scipy.sparse import csr_array

from dpaudit.core.errors import ConfigError, DpauditError, NoModelError, RunError, installing, said
from dpaudit.core.foreign import foreign
from dpaudit.core.knobs import Knob
from dpaudit.core.messages import show
from dpaudit.core.plugin import STRICT, Plugin
from dpaudit.core.registry import suggestion
from dpaudit.data.interactions import Interactions
from dpaudit.data.ratings import Ratings
from dpaudit.recommenders.histories import AnswersHistories, Histories

Scores = NDArray[np.float32]
Indices = NDArray[np.int32]
_Setting = bool | int | float | str | list[int] | list[float] | list[str]
# The arguments of a library's constructor, such as a number or a table of options.
Settings = Mapping[str, _Setting | dict[str, _Setting]]

# The lock of all that the threads of the process share, such as numpy's random state. Without it,
# trainings in several threads would draw from one state, in an order that varies.
PROCESS_WIDE = RLock()

# Arguments of documentations that an audit decides, for every training alike.
_SEEDS = frozenset({"random_state", "seed", "random_seed"})
_CPU = "dpaudit trains on the CPU"
_THREADS = "dpaudit trains on one thread, as several would make the numbers vary"
_QUIET = "dpaudit trains quietly"
# Why such a value changes nothing, and the value that says what an audit does anyway.
_DECIDED: Mapping[str, tuple[str, object]] = {
    **dict.fromkeys(("use_gpu", "use_cuda", "gpu", "cuda"), (_CPU, False)),
    "device": (_CPU, "cpu"),
    **dict.fromkeys(("num_threads", "n_threads", "n_jobs", "num_workers"), (_THREADS, 1)),
    **dict.fromkeys(("verbose", "show_progress", "progress"), (_QUIET, False)),
}
# The number of scores that are computed at a time.
_TOGETHER = 2**24


class Factors(NamedTuple):
    """The published factors of a model.

    Attributes:
        items: one row for each item `(M, d)`; the inner product with a user's row is their score,
            up to numbers that do not depend on the item.
        users: one row for each user `(N, d)`; None if they are not published.
    """

    items: Scores
    users: Scores | None = None


@dataclass(frozen=True, eq=False)
class Query:
    """What observers ask of a trained recommender.

    Attributes:
        users: the users of the pairs whose scores are asked `(n,)`.
        items: the items of these pairs `(n,)`.
        listed: the users whose lists are asked, without repetition `(l,)`.
        k: the length of the lists.
        factors: whether the published factors are asked.
        before: whether the scores before a deletion are asked too.
        after: the histories that are sent, and the items that are asked after them, if any.
    """

    users: Indices
    items: Indices
    listed: Indices
    k: int
    factors: bool = False
    before: bool = False
    after: Histories | None = None


class Took(NamedTuple):
    """How long a deletion took, and the training before it, in seconds."""

    training: float
    deletion: float


class Answer(NamedTuple):
    """What a trained recommender shows.

    Attributes:
        scores: scores of the pairs `(n,)`; NaN for a user or item that the model does not know.
        lists: the lists, best first `(l, k)`; -1 pads.
        factors: the published factors; None if they were not asked.
        before: the scores before the deletion `(n,)`; None if they were not asked.
        took: how long the model took to forget; None if it forgets nothing, or that is not known.
        after: the scores after the histories that were sent `(n, q)`; None without such.
    """

    scores: Scores
    lists: Indices
    factors: Factors | None
    before: Scores | None = None
    took: Took | None = None
    after: Scores | None = None


class Deletion(NamedTuple):
    """A request: what a trained recommender is to forget, and how.

    Attributes:
        method: `own`, the model's own method, or one of the adapter's.
        kept: the interactions that stay, after this request and those before.
        gone: the pairs (user, item) that are forgotten `(n, 2)`.
    """

    method: str
    kept: Interactions
    gone: Indices

    @property
    def users(self) -> Indices | None:
        """The users whose pairs these are, if nothing of any of them stays; None otherwise."""
        users = np.unique(self.gone[:, 0])
        return None if np.isin(users, self.kept.ratings.user).any() else users


class Fitted(Protocol):
    """A trained recommender."""

    def scores(self, users: Indices, items: Indices) -> Scores:
        """Score (user, item) pairs `(n,)`: finite, or NaN for a user or item it does not know."""
        ...

    def recommend(self, users: Indices, k: int) -> Indices:
        """Return each user's list of `k` items, best first `(n, k)`; -1 pads a shorter list."""
        ...


class Trainable(ABC):
    """What the auditor trains repeatedly: a library's model, a user's class or a command."""

    @property
    def predicts_ratings(self) -> bool:
        """Whether scores are predicted ratings; otherwise only their order has a meaning."""
        return False

    @property
    def leaves_out(self) -> Collection[str]:
        """What it is known not to show: `scores`, `lists` or `factors`.

        The auditor asks for scores and lists that no observer sees only if they are not in it.
        """
        return ()

    @property
    def answers_histories(self) -> bool:
        """Whether its trained models may be able to score what follows a history; see `Query`."""
        return True

    @property
    def trains(self) -> bool:
        """Whether it can train on any data; else it has what trainings elsewhere gave."""
        return True

    @property
    def knobs(self) -> Mapping[str, Knob]:
        """The parameters that decide most of leaks and utility, with ranges to search.

        Keys are as in `params`, with dots between tables. None are known of a user's own code.
        """
        return {}

    @abstractmethod
    def answer(self, interactions: Interactions, seed: int, query: Query) -> Answer:
        """Train on interactions, and show what is asked.

        Args:
            interactions: what to train on; they belong to this training alone.
            seed: as in `Recommender.fit`.
            query: what is asked.

        Raises:
            ConfigError: a setting is refused, or factors are asked of a model that has none.
            RunError: the training fails, or what it shows cannot be used.
        """

    def answer_saved(
        self, interactions: Interactions, seed: int, query: Query, folder: Path
    ) -> Answer:
        """Do as `answer`, and keep the trained model in a folder, which is there whole or not.

        Args:
            interactions: as in `answer`.
            seed: as in `answer`.
            query: as in `answer`.
            folder: the folder; replaced if it exists.

        Raises:
            ConfigError: the model cannot be kept, the folder cannot be written, or as in `answer`.
            RunError: as in `answer`.
        """
        raise ConfigError(
            "recommender.save is for models of a class or a command: remove it, or give target or "
            "command"
        )

    def answer_without(
        self, interactions: Interactions, requests: Sequence[Deletion], seed: int, query: Query
    ) -> Answer:
        """Train on interactions, forget some of them, and show what is asked.

        Args:
            interactions: as in `answer`, with what is to be forgotten.
            requests: what the trained model forgets, one after the other; at least one.
            seed: as in `answer`.
            query: what is asked of the model that has forgotten.

        Raises:
            ConfigError: the model cannot forget by this method, or as in `answer`.
            RunError: as in `answer`.
        """
        raise ConfigError(
            f"recommender.forget = {requests[0].method!r} needs a model of a library, without "
            "shards: set recommender.forget to 'retrain', or to 'own' with a class or a command "
            "that can forget"
        )

    def scored(self, interactions: Interactions, seed: int, query: Query) -> Scores:
        """Train on interactions, and return the scores alone; errors as in `answer`."""
        alone = replace(query, listed=query.listed[:0], factors=False, before=False, after=None)
        return self.answer(interactions, seed, alone).scores

    @property
    def together(self) -> int:
        """The number of trainings that `answers` runs together in the least time per training."""
        return 1

    def answers(
        self, ratings: Ratings, kept: NDArray[np.bool_], seeds: Sequence[int], query: Query
    ) -> Iterator[Answer]:
        """Train on each of up to `together` subsets of the ratings, and show what is asked.

        Each answer is that of `answer` with the subset and its seed. What trains several with less
        work than one by one overrides it.

        Args:
            ratings: the ratings.
            kept: the rows of each subset `(W, R)`.
            seeds: the seed of each training `(W,)`.
            query: what is asked of each.

        Raises:
            ConfigError: as `answer` does.
            RunError: as `answer` does.
        """
        for rows, seed in zip(kept, seeds, strict=True):
            yield self.answer(Interactions.of(ratings, rows), seed, query)


class Recommender(Plugin, Trainable):
    """The adapter to a library's recommenders.

    It is a frozen dataclass of what the library's constructor takes.
    """

    @property
    def answers_histories(self) -> bool:
        """Whether what `fit` returns is `AnswersHistories`; not by default."""
        return False

    @abstractmethod
    def fit(self, interactions: Any, seed: int) -> Fitted:
        """Train on interactions.

        Args:
            interactions: users × items `(N, M)`, float32 ratings, 1 for purchases, as a
                `csr_array`; or `Interactions`, with times, features and ids, if the parameter is
                annotated so. The shape is that of the whole data set, so rows and columns may be
                empty. It belongs to this training alone.
            seed: decides everything that is random; 0 to 2^31 - 1.

        Raises:
            ConfigError: the library refuses a setting.
            RunError: the library fails.
        """

    def factors(self, fitted: Any) -> Factors | None:
        """Return the factors that may be published with a trained model; None without such."""
        if isinstance(fitted, FactorModel):
            return Factors(fitted.items, fitted.users)
        return None

    def answer(self, interactions: Interactions, seed: int, query: Query) -> Answer:
        """Train on interactions, and show what is asked; see `Trainable.answer`."""
        return self._shown(self.fit(taken_by(self.fit, interactions), seed), query)

    def answer_without(
        self, interactions: Interactions, requests: Sequence[Deletion], seed: int, query: Query
    ) -> Answer:
        """Train, forget, and show what is asked; see `Trainable.answer_without`."""
        start = time.perf_counter()
        fitted = self.fit(taken_by(self.fit, interactions), seed)
        trained_at = time.perf_counter()
        with trained(self.name):
            before = fitted.scores(query.users, query.items) if query.before else None
        asked = time.perf_counter()
        for deletion in requests:
            with trained(self.name):
                forgotten = self.forgotten(fitted, deletion, seed)
            if forgotten is None:
                raise ConfigError(
                    f"recommender.forget: {self.name} does not forget by {deletion.method!r}: set "
                    "recommender.forget to 'retrain', or to another method"
                )
            fitted = forgotten
        took = Took(trained_at - start, time.perf_counter() - asked)
        return self._shown(fitted, query)._replace(before=before, took=took)

    def forgotten(self, fitted: Any, deletion: Deletion, seed: int) -> Fitted | None:
        """Return a trained model that has forgotten; None if it cannot by this method.

        By `filter`, lists no longer leave out what is forgotten, and all parameters stay. So do
        they by `drop-rows`, but that the table of users has rows for users with interactions alone:
        all others, deleted or never there, have zeros.

        Args:
            fitted: what `fit` returned; it may be changed.
            deletion: what is forgotten, and how.
            seed: as in `fit`.
        """
        seen = deletion.kept.matrix
        if deletion.method == "filter" and isinstance(fitted, RowModel):
            return replace(fitted, seen=seen)
        if deletion.method == "drop-rows" and isinstance(fitted, FactorModel):
            known = np.diff(seen.indptr) > 0
            constants = None if fitted.constants is None else fitted.constants * known
            return replace(
                fitted, seen=seen, users=fitted.users * known[:, None], constants=constants
            )
        return None

    def _shown(self, fitted: Fitted, query: Query) -> Answer:
        published = self.factors(fitted) if query.factors else None
        if query.factors and published is None:
            raise ConfigError(f"{self.name} publishes no factors: remove the observer 'factors'")
        with trained(self.name):
            scores = fitted.scores(query.users, query.items)
            answer = Answer(scores, fitted.recommend(query.listed, query.k), published)
        if query.after is None:
            return answer
        if not isinstance(fitted, AnswersHistories):
            raise ConfigError(
                f"{self.name} answers no histories: remove the observer 'asked-histories'"
            )
        with trained(self.name):
            return answer._replace(after=fitted.scores_after(*query.after))


@parameters(frozen=True, config=STRICT)
class Library(Recommender):
    """An adapter to models of a library, which the user names and sets.

    Attributes:
        model: the name of the model.
        settings: arguments of its constructor.
    """

    model: str = ""
    settings: Settings = field(default_factory=dict)

    @property
    def label(self) -> str:
        """The adapter's name and its model, for errors."""
        return f"{self.name} ({self.model})"

    def built(
        self, factory: Callable[..., Any], fixed: Mapping[str, Any], *others: str, **quiet: Any
    ) -> Any:
        """Call the constructor with the user's settings.

        Args:
            factory: the constructor.
            fixed: arguments that no setting changes.
            others: what a user may set besides the names that it knows.
            quiet: arguments that a setting may change.

        Raises:
            ConfigError: the constructor does not know a setting, or refuses one.
        """
        settings = usable(self.label, self.settings, factory, *others)
        return built(self.label, factory, **{**quiet, **settings, **fixed})


def taken_by(fit: Callable[..., Any], interactions: Interactions) -> Interactions | csr_array:
    """Return what a method `fit` takes: interactions if it is annotated so, else their matrix."""
    try:
        parameters = signature(fit, eval_str=True).parameters
    except (NameError, AttributeError, SyntaxError, TypeError, ValueError):
        # A name that only type checkers import; builtins have no signature.
        try:
            parameters = signature(fit).parameters
        except (TypeError, ValueError):
            return interactions.matrix
    annotation: Any = next(iter(parameters.values())).annotation if parameters else Parameter.empty
    if isinstance(annotation, str):
        asked = "Interactions" in re.split(r"\W+", annotation)
    else:
        asked = annotation is Interactions or Interactions in get_args(annotation)
    return interactions if asked else interactions.matrix


@dataclass(frozen=True, eq=False)
class RowModel(ABC):
    """A trained recommender that scores all items of a user at once.

    Attributes:
        seen: the interactions that it was trained on; lists leave them out.
        state: what its adapter needs to let it forget, such as the library's model.
    """

    seen: csr_array
    state: Any = field(default=None, kw_only=True)

    @abstractmethod
    def rows(self, users: Indices) -> Scores:
        """Score every item for each user `(n, M)`; NaN for what the model does not know."""

    def scores(self, users: Indices, items: Indices) -> Scores:
        """Score (user, item) pairs `(n,)`."""
        distinct, inverse = np.unique(users, return_inverse=True)
        scores = np.empty(len(users), np.float32)
        for start, rows in self._blocks(distinct.astype(np.int32)):
            here = np.flatnonzero((inverse >= start) & (inverse < start + len(rows)))
            scores[here] = rows[inverse[here] - start, items[here]]
        return scores

    def recommend(self, users: Indices, k: int) -> Indices:
        """Return each user's `k` best items that they have not seen `(n, k)`; -1 pads."""
        lists = np.full((len(users), k), -1, np.int32)
        for start, rows in self._blocks(users):
            lists[start : start + len(rows)] = top_lists(
                rows, self.seen[users[start : start + len(rows)]], k
            )
        return lists

    def _blocks(self, users: Indices) -> Iterator[tuple[int, Scores]]:
        size = max(1, _TOGETHER // max(1, self.seen.shape[1]))
        for start in range(0, len(users), size):
            yield start, self.rows(users[start : start + size])


@dataclass(frozen=True, eq=False)
class FactorModel(RowModel):
    """A trained factorisation.

    Attributes:
        users: factors of the users `(N, d)`.
        items: factors of the items `(M, d)`.
        constants: what is added to every score of a user `(N,)`; nothing if None.
    """

    users: Scores
    items: Scores
    constants: Scores | None = None

    def rows(self, users: Indices) -> Scores:
        """Score every item for each user `(n, M)`."""
        scores: Scores = self.users[users] @ self.items.T
        return scores if self.constants is None else scores + self.constants[users, None]

    def scores(self, users: Indices, items: Indices) -> Scores:
        """Score (user, item) pairs `(n,)`."""
        scores = np.empty(len(users), np.float32)
        size = max(1, _TOGETHER // max(1, self.items.shape[1]))
        for start in range(0, len(users), size):
            part = slice(start, start + size)
            rows = self.users[users[part]], self.items[items[part]]
            scores[part] = np.einsum("nd,nd->n", *rows)
        return scores if self.constants is None else scores + self.constants[users]


def with_biases(
    seen: csr_array,
    users: NDArray[np.floating],
    items: NDArray[np.floating],
    biases: NDArray[np.floating],
    constants: NDArray[np.floating],
) -> FactorModel:
    """Return a factorisation whose last factor is the bias of an item, and 1 for each user.

    Args:
        seen: the interactions that it was trained on.
        users: factors of the users `(N, d)`.
        items: factors of the items `(M, d)`.
        biases: what is added to every score of an item `(M,)`.
        constants: what is added to every score of a user `(N,)`.
    """
    return FactorModel(
        seen,
        np.column_stack([users, np.ones(len(users))]).astype(np.float32),
        np.column_stack([items, biases]).astype(np.float32),
        constants.astype(np.float32),
    )


def top_lists(rows: Scores, seen: csr_array, k: int) -> Indices:
    """Return the `k` items with the largest scores that are not in `seen` `(n, k)`.

    Equal scores are ordered by the item's index; items without a score are left out, -1 pads.

    Args:
        rows: scores of every item `(n, M)`; NaN for none.
        seen: the items to leave out `(n, M)`.
        k: the length of the lists.
    """
    left = np.where(np.isnan(rows), -np.inf, rows)
    if seen.nnz:
        left[np.repeat(np.arange(len(rows)), np.diff(seen.indptr)), seen.indices] = -np.inf
    width = min(k, rows.shape[1])
    # The k-th largest score; ties at it are resolved by index, which a partition does not do.
    least = np.partition(left, rows.shape[1] - width, axis=1)[:, rows.shape[1] - width]
    lists = np.full((len(rows), k), -1, np.int32)
    for row, (scored, bar) in enumerate(zip(left, least, strict=True)):
        able = np.flatnonzero((scored >= bar) & (scored > -np.inf))
        best = able[np.argsort(-scored[able], kind="stable")][:k]
        lists[row, : len(best)] = best
    return lists


def usable(
    name: str, settings: Mapping[str, Any], factory: Callable[..., Any] | None, *others: str
) -> dict[str, Any]:
    """Return the settings that a library's constructor takes.

    An argument of another of its classes or methods that asks for what an audit does anyway, such
    as `use_gpu = false`, is left out, and so is a seed: every training has one of its own.

    Args:
        name: the adapter's name and its model, for the error.
        settings: the user's settings.
        factory: the constructor; None if it refuses names that it does not know.
        others: what a user may set besides its arguments.

    Raises:
        ConfigError: a setting is not known, or asks for what no audit does.
    """
    known = {*signature(factory).parameters, *others} if factory else {*others}
    chosen = {}
    for key, value in settings.items():
        if key in known:
            chosen[key] = value
        elif key in _DECIDED:
            why, anyway = _DECIDED[key]
            if value != anyway:
                raise ConfigError(
                    f"recommender.params.settings.{key} = {show(value)} of {name}: {why}: remove "
                    f"{key}"
                )
        elif key in _SEEDS:
            continue
        elif factory is None:
            chosen[key] = value
        else:
            near = suggestion(key, known - {"kwargs", *_SEEDS})
            raise ConfigError(
                f"recommender.params.settings.{key}: {name} refuses its settings (there is no "
                f"{key!r}{near}): correct params.settings"
            )
    return chosen


def built(name: str, factory: Callable[..., Any], /, **arguments: Any) -> Any:
    """Call a library's constructor with the user's settings.

    Args:
        name: the adapter's name and its model, for the error.
        factory: the constructor.
        arguments: its arguments.

    Raises:
        ConfigError: the library refuses an argument.
    """

    def refused(problem: str) -> ConfigError:
        return ConfigError(f"{name} refuses its settings ({problem}): correct params.settings")

    with _calling(name, refused):
        # Copies: a library may change a table or a list that it is given.
        return factory(**deepcopy(arguments))


def taken(factory: Callable[..., Any], /, **offered: Any) -> dict[str, Any]:
    """Return those of the offered arguments whose names a library's constructor knows."""
    known = signature(factory).parameters
    return {name: value for name, value in offered.items() if name in known}


@contextmanager
def trained(name: str) -> Iterator[None]:
    """Convert a library's exceptions into an error that names the adapter.

    Raises:
        ConfigError: the library lacks a module that it imports only now.
        NoModelError: it says that the training diverged, as LightFM does.
        RunError: it raises anything else.
    """

    def failed(said: str) -> RunError:
        kind = NoModelError if "diverged" in said else RunError
        return kind(f"{name} failed to train ({said}): correct params.settings, or the data")

    with _calling(name, failed):
        yield


@contextmanager
def _calling(name: str, failed: Callable[[str], DpauditError]) -> Iterator[None]:
    with foreign(failed):
        try:
            yield
        except ImportError as error:
            raise ConfigError(
                f"{name} needs a module that cannot be imported ({said(error)}): install it beside "
                "dpaudit, or choose another model"
            ) from error


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed numpy's global random state for the calls inside, and restore it afterwards.

    Other threads that ask for it, or for `PROCESS_WIDE` themselves, wait.
    """
    # Some libraries draw from the global state, or seed it, whatever seed they are given.
    with PROCESS_WIDE:
        state = np.random.get_state()  # noqa: NPY002
        np.random.seed(seed)  # noqa: NPY002
        try:
            yield
        finally:
            np.random.set_state(state)  # noqa: NPY002


def required(name: str, module: str, extra: str) -> Any:
    """Import a library.

    Raises:
        ConfigError: it is not installed; says which command installs it.
    """
    from importlib import import_module

    try:
        return import_module(module)
    except ImportError as error:
        raise ConfigError(
            f"recommender {name!r} needs {module.partition('.')[0]} ({error}): {installing(extra)}"
        ) from error
