"""A recommender that is the user's own Python class."""

from __future__ import annotations

import copy
import sys
import time
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FunctionType, MethodType
from typing import Any

import numpy as np
from pydantic.dataclasses import dataclass as parameters

from dpaudit.core.errors import ConfigError, RunError
from dpaudit.core.foreign import foreign, import_object, raised_at
from dpaudit.core.messages import plain
from dpaudit.core.plugin import STRICT
from dpaudit.data.interactions import Interactions, interactions_of
from dpaudit.data.ratings import Ratings
from dpaudit.recommenders import base
from dpaudit.recommenders.base import Answer, Deletion, Query
from dpaudit.recommenders.checks import checked_answer, checked_scores
from dpaudit.recommenders.forgetting import Forgets, ForgetsUsers
from dpaudit.recommenders.histories import AnswersHistories
from dpaudit.recommenders.saving import Saves, saved


class _UserModel(base.Trainable):
    """Train objects of the user's class; `PythonClass` lists the methods that they need."""

    def answer(self, interactions: Interactions, seed: int, query: Query) -> Answer:
        """Train on interactions, and show what is asked; see `Trainable.answer`.

        Raises:
            ConfigError: the object cannot be made or has no `fit`, or factors are asked of a model
                without `factors`.
            RunError: its code raises an exception, or what it returns cannot be used.
        """
        return self._trained(interactions, seed, query, None)

    def answer_without(
        self, interactions: Interactions, requests: Sequence[Deletion], seed: int, query: Query
    ) -> Answer:
        """Train, forget, and show what is asked; see `Trainable.answer_without`.

        Raises:
            ConfigError: the method is not `own`, or the trained model has neither `forget` nor, for
                whole users alone, `forget_users`.
            RunError: as `answer` does.
        """
        if requests[0].method != "own":
            return super().answer_without(interactions, requests, seed, query)
        return self._trained(interactions, seed, query, None, requests)

    def answer_saved(
        self, interactions: Interactions, seed: int, query: Query, folder: Path
    ) -> Answer:
        """Do as `answer`, and let the trained model write itself to `model` in the folder."""
        return self._trained(interactions, seed, query, folder)

    def _trained(
        self,
        interactions: Interactions,
        seed: int,
        query: Query,
        folder: Path | None,
        requests: Sequence[Deletion] = (),
    ) -> Answer:
        model = self._made()
        if not callable(getattr(model, "fit", None)):
            raise ConfigError(
                f"{self._name} makes {type(model).__name__}, which has no method fit: name a class "
                "with fit(interactions, seed)"
            )
        with self._running(seed):
            start = time.perf_counter()
            given = base.taken_by(model.fit, interactions)
            fitted = _shows(model.fit(given, seed), "fit", "trained")
            trained_at = asked = time.perf_counter()
            before = None
            if query.before:
                before = checked_scores(self._scores(fitted, query), len(query.users))
                asked = time.perf_counter()
            for deletion in requests:
                fitted, interactions = self._forgotten(fitted, deletion, seed), deletion.kept
            took = base.Took(trained_at - start, time.perf_counter() - asked) if requests else None
            answer = self._shown(fitted, interactions.ratings, query)
            shown = answer._replace(before=before, took=took)
            answer = checked_answer(shown, query, interactions.shape)
            if folder is not None:
                if not isinstance(fitted, Saves):
                    raise ConfigError(
                        f"{self._name} keeps no model: remove recommender.save, or give the "
                        "trained model a method save(path)"
                    )
                with saved(folder) as draft:
                    fitted.save(str(draft / "model"))
            return answer

    @property
    @abstractmethod
    def _name(self) -> str:
        """The name of the class in errors."""

    @property
    @abstractmethod
    def _module(self) -> str:
        """The module whose lines the user knows."""

    @abstractmethod
    def _made(self) -> Any:
        """Return a new object."""

    def _shown(self, fitted: Any, ratings: Ratings, query: Query) -> Answer:
        """Ask only for what the query holds, with arrays that the user's code may change."""
        scores = self._scores(fitted, query)
        lists: base.Indices = np.empty((0, query.k), np.int32)
        if len(query.listed):
            # Not what fit got, which it may have changed.
            lister = fitted
            if not hasattr(fitted, "recommend"):
                lister = _ByScores(interactions_of(ratings), fitted)
            lists = lister.recommend(query.listed.copy(), query.k)
        after = self._after(fitted, query)
        if not query.factors:
            return Answer(scores, lists, None, after=after)
        if not hasattr(fitted, "factors"):
            raise ConfigError(
                f"{self._name} publishes no factors: remove the observer 'factors', or give the "
                "trained model a method factors()"
            )
        factors = fitted.factors()
        if not isinstance(factors, tuple) or len(factors) != 2:
            raise RunError(
                "factors() returned no pair: return (items, users), or (items, None) if users' "
                "factors are not published"
            )
        return Answer(scores, lists, base.Factors(*factors), after=after)

    def _after(self, fitted: Any, query: Query) -> Any:
        if query.after is None:
            return None
        if not isinstance(fitted, AnswersHistories):
            raise ConfigError(
                f"{self._name} answers no histories: remove the observer 'asked-histories', or "
                "give the trained model a method scores_after(histories, items)"
            )
        return fitted.scores_after(*(part.copy() for part in query.after))

    def _scores(self, fitted: Any, query: Query) -> base.Scores:
        if not len(query.users):
            return np.empty(0, np.float32)
        return fitted.scores(query.users.copy(), query.items.copy())

    def _forgotten(self, fitted: Any, deletion: Deletion, seed: int) -> Any:
        users = deletion.users
        if users is not None and isinstance(fitted, ForgetsUsers):
            return _shows(fitted.forget_users(users, seed), "forget_users", "remaining")
        if not isinstance(fitted, Forgets):
            what = "single interactions" if isinstance(fitted, ForgetsUsers) else "anything"
            raise ConfigError(
                f"recommender.forget: {self._name} cannot forget {what}: set recommender.forget to "
                "'retrain', or give the trained model a method forget(interactions, seed), beside "
                "or, if only whole users are deleted, instead of which it may have "
                "forget_users(users, seed)"
            )
        return _shows(fitted.forget(deletion.gone.copy(), seed), "forget", "remaining")

    @contextmanager
    def _running(self, seed: int) -> Iterator[None]:
        """Name the class in errors of its code and of what it returns."""
        where = f"{self._name} with seed {seed}"

        def failed(problem: str) -> RunError:
            # The innermost line of the module whose lines the user knows, if there is any.
            error, file = sys.exception(), getattr(sys.modules.get(self._module), "__file__", None)
            line = raised_at(error, file) if error else ""
            return RunError(f"{line}, raised {plain(problem)}: correct it, or params.settings")

        try:
            with foreign(failed):
                yield
        except RunError as error:
            raise type(error)(f"{where}: {error}") from error.__cause__


@parameters(frozen=True, config=STRICT)
class PythonClass(_UserModel):
    """Train the user's own class, which runs in this process with this environment.

    Each training makes an object and calls `fit(interactions, seed)`, where `interactions` is a
    `csr_array` of float32 ratings `(N, M)`, a copy of its own; or `dpaudit.Interactions`, with
    times, features and ids, if the parameter is annotated so. What `fit` returns has

    - `scores(users, items)`: the scores of pairs `(n,)`; NaN for what it does not know;
    - `recommend(users, k)`: the lists, best first `(l, k)`; -1 pads. Without this method, lists are
      made from the scores of all items, and leave out those that the user has interacted with;
    - `factors()`: the factors of items `(M, d)`, and those of users `(N, d)` or None. Only the
      observer `factors` needs this method;
    - `scores_after(histories, items)`: the scores of items `(n, q)` as those that come next after
      histories `(n, h)`, the items of each in order, filled up in front with -1. Only the observer
      `asked-histories` needs this method;
    - `forget(interactions, seed)`: returns the model without these pairs (user, item) `(n, 2)`.
      Only `recommender.forget = "own"` needs this method;
    - `forget_users(users, seed)`: returns the model without these users `(n,)`. It is called in the
      place of `forget` where the whole histories of users go, and nothing else;
    - `save(path)`: writes the model to a file or folder of this path, which does not exist yet.
      Only `recommender.save` needs this method.

    Attributes:
        target: the class, or a function that returns an object, as `package.module:name`.
        settings: the arguments of its constructor.
        predicts_ratings: whether scores are predicted ratings; otherwise only their order counts.
    """

    target: str
    settings: base.Settings = field(default_factory=dict)
    predicts_ratings: bool = False

    @property
    def _name(self) -> str:
        return self.target

    @property
    def _module(self) -> str:
        return self.target.partition(":")[0]

    def _made(self) -> Any:
        factory = import_object(self.target, "recommender.target")
        if not callable(factory):
            raise ConfigError(
                f"recommender.target = {self.target!r} cannot be called: name a class"
            )
        return base.built(self.target, factory, **self.settings)


@dataclass(frozen=True, eq=False)
class GivenModel(_UserModel):
    """Train a class, or copies of an object, that a Python program passes.

    Attributes:
        model: a class or a function that makes an object and can be called without arguments, or
            an object with `fit`, of which each training has a copy; as in `PythonClass`.
        predicts_ratings: whether scores are predicted ratings.
        arguments: what a class or a function is called with.
    """

    model: Any
    predicts_ratings: bool = False
    arguments: Mapping[str, Any] = field(default_factory=dict)

    @property
    def definition(self) -> Any:
        """The class of the objects, or the function that makes them."""
        makes = isinstance(self.model, type | FunctionType | MethodType)
        return self.model if makes else type(self.model)

    @property
    def _name(self) -> str:
        return self.definition.__qualname__

    @property
    def _module(self) -> str:
        return self.definition.__module__

    def _made(self) -> Any:
        if self.model is self.definition:
            return base.built(self._name, self.model, **self.arguments)
        with foreign(
            lambda said: ConfigError(
                f"{self._name} cannot be copied for each training ({said}): give the class, or a "
                "function that makes the object"
            )
        ):
            return copy.deepcopy(self.model)


@dataclass(frozen=True, eq=False)
class _ByScores(base.RowModel):
    """Lists from the scores of all items.

    Attributes:
        fitted: the user's trained model.
    """

    fitted: Any

    def rows(self, users: base.Indices) -> base.Scores:
        n_items = self.seen.shape[1]
        items = np.tile(np.arange(n_items, dtype=np.int32), len(users))
        scores = self.fitted.scores(np.repeat(users, n_items), items)
        return checked_scores(scores, len(items)).reshape(len(users), n_items)


def _shows(returned: Any, method: str, kind: str) -> Any:
    """Return what a method of the user's returned, if it is a model."""
    if not hasattr(returned, "scores"):
        raise RunError(
            f"{method} returned {type(returned).__name__}, which has no method scores: return the "
            f"{kind} model"
        )
    return returned
