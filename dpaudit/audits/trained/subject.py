"""The subject of trained recommenders, with the folds and data that their measures share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Self, TypeVar

from dpaudit.attacks.base import LearnedDistinguisher
from dpaudit.auditor.context import Context, Subject
from dpaudit.auditor.records import attack_record, data_record, model_record, point_record
from dpaudit.audits.trained.config import Train, TrainedConfig, check_reading
from dpaudit.audits.trained.grids import Grids, combinations
from dpaudit.audits.trained.pairs import Pairs, check_games
from dpaudit.audits.trained.recovery import check_kept
from dpaudit.config.compatibility.gates import check_rated
from dpaudit.config.model import Model
from dpaudit.config.tables import Game
from dpaudit.core.errors import DataError
from dpaudit.data.folds import Fold, active, capped, files_folds, random_folds
from dpaudit.data.ratings import Ratings, Scale
from dpaudit.data.source import DataSource
from dpaudit.defenses.base import TrainedDefense
from dpaudit.record.result import DataRecord, ModelRecord, PointRecord

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
        pairs = Pairs(_learned(config.training, ratings, config.seed))
        for model in config.model:
            pairs.check(model, config.game)
        folds = _folds(config.training, ratings, config.seed)
        grids = Grids(config, folds[0])
        folds = grids.untouched(folds)
        check_kept(folds, [attack.label for attack in config.recovering + config.reading])
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
        return points * trainings + combinations(config) * train.trials

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


def _learned(train: Train, ratings: Ratings, seed: int) -> Ratings:
    kept = active(ratings, train.more_than) if train.more_than else ratings
    return kept if train.cap is None else capped(kept, train.cap, seed)


def _folds(train: Train, ratings: Ratings, seed: int) -> list[Fold]:
    """Return the folds to run, with training sets reduced to the ratings that models learn from."""
    if train.files:
        folds = files_folds(ratings, _test_files(train.files))
    else:
        folds = random_folds(ratings, train.folds, seed, train.evaluate_folds)
    return [
        Fold(_learned(train, fold.train, seed), fold.users, fold.items, fold.values)
        for fold in folds[: train.evaluate_folds]
    ]


def _test_files(files: Sequence[str]) -> list[Path]:
    """Return the paths of the published test files.

    Raises:
        DataError: there are too few files for an interval, or one does not exist.
    """
    if len(files) < 2:
        raise DataError(
            f"train.files names {len(files)} file, and the interval over folds needs at least 2: "
            "add one, or use train.folds"
        )
    places = [DataSource(format="movielens-100k", path=file).file() for file in files]
    for place in places:
        if not place.is_file():
            raise DataError(f"train.files names {place}, which is no file: correct the path")
    return places
