"""Chooses what a grid offers, on ratings that no fold tests."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dpaudit.auditor.progress import Progress
from dpaudit.auditor.trained.errors import Training, played
from dpaudit.auditor.trained.scores import Scores, scores_of
from dpaudit.config import schema as configs
from dpaudit.core.errors import DataError, RunError
from dpaudit.core.streams import Streams
from dpaudit.data.folds import Fold, random_folds

# One part in so many of the first fold's training is held back to choose from grids.
_VALIDATION = 10


def combinations(config: configs.Config) -> int:
    """The number of settings that all grids offer, at every ε of their model."""
    return sum(
        len(model.epsilon) * math.prod(len(values) for values in model.grid.values())
        for model in config.model
        if model.grid
    )


@dataclass(frozen=True)
class Grids:
    """Chooses from each model's grid by its error on a tenth of the first fold's training.

    That tenth is tested in no fold: where a config has a grid, `untouched` takes it from the test
    of the others, of all models alike: no rating by which a setting was judged is tested. Those
    that later folds test were trained on in the search; only the first fold's took no part in it.
    An item that is taken so counts as no hit of a list.

    Attributes:
        config: the models with their grids.
        first: the first fold, its training cut to what models learn from.
        threads: number of threads; the numbers do not depend on it.
        progress: told what is being done.
    """

    config: configs.Config
    first: Fold
    threads: int
    progress: Progress

    @cached_property
    def _validation(self) -> Fold:
        return random_folds(self.first.train, _VALIDATION, self.config.seed)[0]

    def untouched(self, folds: list[Fold]) -> list[Fold]:
        """The folds without test ratings that choose; as they are where there is no grid.

        Raises:
            DataError: a fold has no other test ratings.
        """
        if not any(model.grid for model in self.config.model):
            return folds
        chosen_on, n_items = self._validation, self.first.train.n_items
        spent = chosen_on.users.astype(np.int64) * n_items + chosen_on.items
        found = []
        for number, fold in enumerate(folds):
            kept = ~np.isin(fold.users.astype(np.int64) * n_items + fold.items, spent)
            if not kept.any():
                raise DataError(
                    f"every test rating of fold {number + 1} is among those that chose from "
                    "model.grid: use fewer folds, or remove the grid"
                )
            found.append(Fold(fold.train, fold.users[kept], fold.items[kept], fold.values[kept]))
        return found

    def chosen(self, model: configs.Model) -> list[Any]:
        """The defense at each ε, with the settings of the least error.

        Raises:
            RunError: every combination diverges.
        """
        if not model.grid:
            return model.defenses("model")
        train = self.config.training
        streams = Streams.first(self.config.seed, "grid", train.worlds)
        offered = [model.combinations("model", epsilon) for epsilon in model.epsilon]
        scores = scores_of(offered[0][0], train.top_k)

        def searched() -> Iterator[Training]:
            for epsilon, defenses in zip(model.epsilon, offered, strict=True):
                self.progress.stage(f"{model.label}: grid at ε = {epsilon:g}")
                for defense in defenses:
                    # A combination that diverges is not chosen.
                    probes = [scores.tested(self._validation)]
                    yield Training(defense, self._validation.train, probes, streams, math.inf)

        errors = iter(played(searched(), train.worlds, self.threads, self.progress.advance))
        found = []
        for epsilon, defenses in zip(model.epsilon, offered, strict=True):
            tried = [(_worth(scores, next(errors)), defense) for defense in defenses]
            error, best = min(tried, key=lambda pair: pair[0])
            if error == math.inf:
                raise RunError(
                    f"{model.label}: every combination of model.grid diverges at ε = {epsilon:g}: "
                    "offer smaller steps"
                )
            found.append(best)
        return found


def _worth(scores: Scores, read: Any) -> float:
    """What a grid search wants small; infinite of a training that diverged."""
    return float(read[0]) if math.isinf(read[0]) else scores.sign * float(read[0])
