"""Grid search for a model's settings, on validation ratings that no fold tests."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dpaudit.audits.trained.config import TrainedConfig
from dpaudit.audits.trained.errors import Numbers, Training, over_trials, run_all
from dpaudit.audits.trained.scores import Scores, scores_of
from dpaudit.config.model import Model
from dpaudit.core.errors import DataError
from dpaudit.core.streams import Streams
from dpaudit.data.folds import Fold, random_folds
from dpaudit.execution.executor import Executor

# One part in this many of the first fold's training ratings is held out for validation.
_VALIDATION = 10


def combinations(config: TrainedConfig) -> int:
    """Count the settings of all grids over every ε of their models."""
    return sum(
        len(model.epsilon) * math.prod(len(values) for values in model.grid.values())
        for model in config.model
        if model.grid
    )


@dataclass(frozen=True)
class Grids:
    """Grid search by the error on a validation tenth of the first fold's training ratings.

    The validation ratings are tested in no fold: if a config has a grid, `untouched` removes them
    from the test ratings of the other folds, for all models, so that no rating that judged a
    setting is tested. The search trains on ratings that later folds test; only the first fold's
    test ratings play no part in it. A removed item does not count as a hit of a list.

    Attributes:
        config: the models with their grids.
        first: the first fold, with a training set reduced to the ratings that models learn from.
    """

    config: TrainedConfig
    first: Fold

    @cached_property
    def _validation(self) -> Fold:
        return random_folds(self.first.train, _VALIDATION, self.config.seed, first=1)[0]

    def untouched(self, folds: list[Fold]) -> list[Fold]:
        """Return the folds without the validation ratings; unchanged if there is no grid.

        Raises:
            DataError: a fold has no other test ratings.
        """
        if not any(model.grid for model in self.config.model):
            return folds
        chosen_on, n_items = self._validation, self.first.train.n_items
        spent = chosen_on.users.astype(np.int64) * n_items + chosen_on.items
        rest = []
        for number, fold in enumerate(folds):
            kept = ~np.isin(fold.users.astype(np.int64) * n_items + fold.items, spent)
            if not kept.any():
                raise DataError(
                    f"every test rating of fold {number + 1} was used to choose from "
                    "model.grid: use fewer folds, or remove the grid"
                )
            rest.append(Fold(fold.train, fold.users[kept], fold.items[kept], fold.values[kept]))
        return rest

    def chosen(self, model: Model, executor: Executor) -> list[Any]:
        """Return the defense at each ε, with the settings of smallest error.

        Settings with which a training ends without a model are chosen only if all are such.

        Args:
            model: a model of the config.
            executor: runs the trainings; the result does not depend on it.
        """
        if not model.grid:
            return model.defenses("model")
        train = self.config.training
        streams = Streams.first(self.config.seed, "grid", train.trials)
        offered = [model.combinations("model", epsilon) for epsilon in model.epsilon]
        scores = scores_of(offered[0][0], train.top_k)

        def searched() -> Iterator[Training]:
            for epsilon, defenses in zip(model.epsilon, offered, strict=True):
                executor.progress.stage(f"{model.label}: grid at ε = {epsilon:g}")
                for defense in defenses:
                    probes = [scores.tested(self._validation)]
                    yield Training("grid", defense, self._validation.train, probes, streams)

        rows = iter(run_all(searched(), train.trials, executor))
        best = []
        for defenses in offered:
            tried = [(_worth(scores, next(rows)), defense) for defense in defenses]
            best.append(min(tried, key=lambda pair: pair[0])[1])
        return best


def _worth(scores: Scores, rows: Numbers) -> tuple[int, float]:
    """Return what the search minimises: trainings without a model, then the score of the others."""
    ended = np.isfinite(rows).all(1)
    score = scores.sign * float(over_trials(rows[ended])[0]) if ended.any() else 0.0
    return int((~ended).sum()), score
