"""The subject of trained recommenders: their folds and grids, which the measures share."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Self, TypeVar

import numpy as np

from dpaudit.attacks.base import LearnedDistinguisher
from dpaudit.auditor.context import Context, Subject
from dpaudit.auditor.records import attack_record, data_record, model_record, point_record
from dpaudit.audits.trained.config import Train, TrainedConfig, check_reading
from dpaudit.audits.trained.pairs import PairSearch, check_games
from dpaudit.audits.trained.scores import (
    Numbers,
    ProbedTraining,
    Scores,
    over_trials,
    run_all,
    scores_of,
)
from dpaudit.config.gate import check_rated
from dpaudit.config.model import Model
from dpaudit.config.tables import Attack, Game
from dpaudit.core.errors import DataError
from dpaudit.core.streams import Streams
from dpaudit.data.folds import Fold, active, capped, files_folds, random_folds
from dpaudit.data.ratings import Ratings, Scale
from dpaudit.defenses.base import TrainedDefense
from dpaudit.execution.executor import Executor
from dpaudit.record.result import DataRecord, ModelRecord, PointRecord

# One part in this many of the first fold's training ratings is held out for validation.
_VALIDATION = 10
T = TypeVar("T", bound=TrainedConfig)


@dataclass(frozen=True)
class TrainedModel:
    """One model of a config at all its values of ε, with the settings that its grid search chose.

    Attributes:
        model: the model of the config.
        defenses: the recommender at each ε.
        scale: the rating scale.
    """

    model: Model
    defenses: Sequence[TrainedDefense[Any]]
    scale: Scale

    @property
    def label(self) -> str:
        """The model's label."""
        return self.model.label

    def record(self) -> ModelRecord:
        """Record the recommender, with the values offered by its grid."""
        record = model_record(self.label, self.defenses[0])
        return record.model_copy(update={"params": {**record.params, **self.model.grid}})

    def points(self) -> list[PointRecord]:
        """Record the recommender at each ε, with the values that a grid search chose."""
        return [
            point_record(self.label, defense, self.scale).model_copy(
                update={"chosen": {name: getattr(defense, name) for name in self.model.grid}}
            )
            for defense in self.defenses
        ]


@dataclass(frozen=True)
class TrainedModels(Subject[T]):
    """Trained recommenders.

    Attributes:
        context: inputs that the measures share.
        ratings: the data.
        folds: the folds to run, with training sets reduced to the ratings that models learn from.
        grids: the search of the models' grids.
    """

    context: Context[T]
    ratings: Ratings
    folds: list[Fold]
    grids: Grids

    @classmethod
    def of(cls, context: Context[T], ratings: Ratings | None) -> Self:
        """Check the games and attacks before anything is trained, and split the data into folds.

        Raises:
            DataError: there is no possible target, or there are too few data to split.
            ConfigError: a game does not fit a model's claim, or an attack or gate not the data.
        """
        if ratings is None:
            raise TypeError("recommenders need ratings")
        config = context.config
        check_rated(config.gate, ratings.scale)
        for model in config.model:
            check_games(model, config.game)
        check_reading(config.reading, config.model)
        pairs = PairSearch(_learned(config.training, ratings, config.seed))
        for model in config.model:
            pairs.check(model, config.game)
        folds = _folds(config, ratings)
        grids = Grids(config, folds[0])
        folds = grids.untouched(folds)
        _check_sensitive(folds, config.recovering + config.reading)
        return cls(context, ratings, folds, grids)

    @cached_property
    def learned(self) -> Ratings:
        """The ratings that games train on: of users with enough ratings, capped per user."""
        return _learned(self.context.config.training, self.ratings, self.context.seed)

    def trials(self) -> int:
        """Return the number of trainings, but for those of controls and of laws of noise."""
        config = self.context.config
        train = config.training
        folds = min(len(train.files) or train.folds, train.evaluate_folds or 100)
        points = sum(len(model.epsilon) for model in config.model)
        games = sum(game.trainings + fitting(game) for game in config.game)
        runs = folds * (1 + 3 * bool(config.recovering) + bool(config.reading))
        trainings = runs * train.trials + games
        combinations = sum(
            len(model.epsilon) * math.prod(map(len, model.grid.values()))
            for model in config.model
            if model.grid
        )
        return points * trainings + combinations * train.trials

    def models(self) -> Iterator[TrainedModel]:
        """Yield each model with the settings that its grid search chooses."""
        for model in self.context.config.model:
            stage = f"{model.label}: settings"
            models = self.context.unit(stage, partial(self._model, model))
            if not models and self.context.executor.sampler is not None:
                first = [model.combinations("model", epsilon)[0] for epsilon in model.epsilon]
                models = [TrainedModel(model, first, self.ratings.scale)]
            yield from models

    def _model(self, model: Model) -> Iterator[TrainedModel]:
        executor = self.context.tasks(f"{model.label}: grid", model)
        yield TrainedModel(model, self.grids.chosen(model, executor), self.ratings.scale)

    def data(self) -> DataRecord:
        """Record the sizes of the data; one user is attacked."""
        return data_record(self.ratings, self.learned, attacked=1)

    def attacks(self) -> Mapping[str, dict[str, Any]]:
        """Return the attacks by label, then those of games by name."""
        config = self.context.config
        labelled = (*config.recovering, *config.reading)
        return {
            **{attack.label: attack_record(attack.create("attack")) for attack in labelled},
            **game_attacks(config.game),
        }


def _learned(train: Train, ratings: Ratings, seed: int) -> Ratings:
    """Return the ratings of users with enough of them, capped per user."""
    kept = active(ratings, train.more_than) if train.more_than else ratings
    return kept if train.cap is None else capped(kept, train.cap, seed)


def _folds(config: TrainedConfig, ratings: Ratings) -> list[Fold]:
    """Return the folds to run, with training sets reduced to the ratings that models learn from.

    Raises:
        DataError: there are too few files for an interval, or one does not exist.
    """
    train, seed, files = config.training, config.seed, config.files
    if len(files) == 1:
        raise DataError(
            "train.files names 1 file, and the interval over folds needs at least 2: add one, or "
            "use train.folds"
        )
    for path in files:
        if not path.is_file():
            raise DataError(f"train.files names {path}, which is no file: correct the path")
    if files:
        folds = files_folds(ratings, files)
    else:
        folds = random_folds(ratings, train.folds, seed, train.evaluate_folds)
    return [
        Fold(_learned(train, fold.train, seed), fold.users, fold.items, fold.values)
        for fold in folds[: train.evaluate_folds]
    ]


def _check_sensitive(folds: Sequence[Fold], attacks: Sequence[Attack]) -> None:
    """Refuse reconstruction attacks if the data have too few sensitive or shared ratings.

    Args:
        folds: the folds.
        attacks: the reconstruction attacks.

    Raises:
        DataError: a fold's training set has fewer than two sensitive ratings, or no others.
    """
    for attack in attacks:
        for fold in folds:
            kept = fold.train.kept_private
            if 2 <= kept.sum() < len(kept):
                continue
            if fold.train.sensitive is None:
                remedy = "set data.sensitive"
            elif kept.sum() < 2:
                remedy = (
                    "raise data.sensitive.share, name more data.sensitive.categories, or mark more "
                    "in data.columns.sensitive"
                )
            else:
                remedy = (
                    "lower data.sensitive.share, name fewer data.sensitive.categories, or mark "
                    "fewer in data.columns.sensitive"
                )
            raise DataError(
                f"[[attack]] {attack.label!r} recovers sensitive ratings from the others, and "
                f"{int(kept.sum())} of {len(kept)} are sensitive: {remedy}"
            )


def fitting(game: Game) -> int:
    """Return the number of trainings on which a learned attack is fitted."""
    attack = game.create("game")
    return 2 * attack.fitted_on if isinstance(attack, LearnedDistinguisher) else 0


def game_attacks(games: Sequence[Game]) -> dict[str, dict[str, Any]]:
    """Record each game's attack by name; add the game's label if parameters differ by game."""
    tried = [(game, attack_record(game.create("game"))) for game in games]
    attacks = {}
    for game, attack in tried:
        alike = all(other == attack for peer, other in tried if peer.attack == game.attack)
        attacks[game.attack if alike else f"{game.attack}, {game.label}"] = attack
    return attacks


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

        def searched() -> Iterator[ProbedTraining]:
            for epsilon, defenses in zip(model.epsilon, offered, strict=True):
                executor.progress.stage(f"{model.label}: grid at ε = {epsilon:g}")
                for defense in defenses:
                    probes = [scores.tested(self._validation)]
                    yield ProbedTraining("grid", defense, self._validation.train, probes, streams)

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
