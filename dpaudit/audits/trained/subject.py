"""The subject of trained recommenders: folds, grids, and the scores of what is trained on them.

Scores are errors of ratings, or hits of lists.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from threading import Lock
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpaudit.attacks.base import LearnedDistinguisher
from dpaudit.auditor.measure import (
    Context,
    MetricKey,
    Subject,
    attack_record,
    data_record,
    model_record,
    point_record,
)
from dpaudit.auditor.trainings import (
    joined,
    joint_mean,
    most_popular,
    ndcg,
    outcomes,
    precision_and_recall,
)
from dpaudit.audits.trained.config import Train, TrainedConfig, check_reading
from dpaudit.audits.trained.pairs import PairSearch, check_games
from dpaudit.bounds.frequentist.intervals import student_mean
from dpaudit.config.gate import check_rated
from dpaudit.config.model import Model
from dpaudit.config.tables import Attack, Game
from dpaudit.core.errors import DataError
from dpaudit.core.estimate import Estimate
from dpaudit.core.streams import Streams
from dpaudit.data.folds import Fold, active, capped, files_folds, random_folds
from dpaudit.data.ratings import Ratings, Scale
from dpaudit.defenses.base import TrainedDefense
from dpaudit.defenses.training_checks import lane_blocks
from dpaudit.execution.executor import Executor
from dpaudit.execution.tasks import Task
from dpaudit.kernels.lanes import LANES
from dpaudit.record.result import DataRecord, Family, Measurement, ModelRecord, PointRecord

# One part in this many of the first fold's training ratings is held out for validation.
_VALIDATION = 10
T = TypeVar("T", bound=TrainedConfig)
Indices = NDArray[np.int32]
Numbers = NDArray[np.float64]
# Errors of ratings: root mean squared error, then mean absolute error.
KINDS = ("rmse", "mae")
# A function that computes k numbers from each of W trained models `(W, k)`.
Probe = Callable[[Any], Numbers]


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
        grids = [model for model in config.model if model.grid]
        combinations = sum(len(m.epsilon) * math.prod(map(len, m.grid.values())) for m in grids)
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
        recorded = {attack.label: attack_record(attack.create("attack")) for attack in labelled}
        return recorded | game_attacks(config.game)


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
            remedy = "set data.sensitive"
            if fold.train.sensitive is not None:
                change, number = ("raise", "more") if kept.sum() < 2 else ("lower", "fewer")
                remedy = (
                    f"{change} data.sensitive.share, name {number} data.sensitive.categories, or "
                    f"mark {number} in data.columns.sensitive"
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


@dataclass(frozen=True)
class Scores:
    """The scores of models of one kind.

    Attributes:
        kinds: names of two scores, on test ratings and of recovered ratings or items.
        more: names of further scores on test ratings.
        recovery_kinds: names of further scores of recovered ratings.
        sign: 1 if less is better (errors), −1 if more is better (hits).
        tested: makes the probe of a fold's test ratings, whose numbers are `kinds` and `more`.
        most: computes the largest possible value of each of these numbers.
        recovered: makes the probe of an attack on parts (masks `(R,)`) of the sensitive ratings,
            whose numbers of each part are `kinds` and `recovery_kinds`.
        recoverable: computes the largest possible value of each of these numbers of a part.
        guessed: computes the scores of guessing sensitive ratings without a model.
    """

    kinds: tuple[str, str]
    more: tuple[str, ...]
    recovery_kinds: tuple[str, ...]
    sign: float
    tested: Callable[[Fold], Probe]
    most: Callable[[Fold], Numbers]
    recovered: Callable[[Any, Ratings, Sequence[NDArray[np.bool_]]], Probe]
    recoverable: Callable[[Ratings, NDArray[np.bool_]], Numbers]
    guessed: Callable[[Ratings], Numbers]


def scores_of(defense: TrainedDefense[Any], k: int) -> Scores:
    """Return the scores of a defense: errors, or hits of lists of length k if it ranks."""
    if not defense.ranks:
        of_ratings = errors, largest_errors, recovered, recoverable, guessed
        return Scores(KINDS, (), ("accuracy",), 1.0, *of_ratings)

    def tested(fold: Fold) -> Probe:
        users = np.unique(fold.users)

        def probe(models: Any) -> Numbers:
            lists = models.top(users, k, fold.train.by_user)
            hits = _hits(lists, users, fold.users, fold.items)
            return np.column_stack([hits, ndcg(lists, users, fold.users, fold.items)])

        return probe

    def listed(attack: Any, ratings: Ratings, parts: Sequence[NDArray[np.bool_]]) -> Probe:
        shared, users = ratings.shared, np.unique(ratings.user[np.logical_or.reduce(parts)])
        kept = [ratings.only(mask) for mask in parts]

        def probe(models: Any) -> Numbers:
            release = models.public(np.arange(ratings.n_items, dtype=np.int32))
            lists = attack.lists(release, shared, users, k, held=ratings)
            hits = [_hits(lists, users, part.user, part.item) for part in kept]
            return np.concatenate(hits, axis=1)

        return probe

    def popular(ratings: Ratings) -> Numbers:
        kept = ratings.only(ratings.kept_private)
        users = np.unique(kept.user)
        lists = most_popular(ratings.shared, users, k)[None]
        return _hits(lists, users, kept.user, kept.item)[0]

    of_lists = tested, lambda _: np.ones(3), listed, lambda *_: np.ones(2), popular
    return Scores(("precision", "recall"), ("ndcg",), (), -1.0, *of_lists)


def _hits(
    lists: NDArray[np.int32],
    users: NDArray[np.int32],
    liked_by: NDArray[np.int32],
    liked: NDArray[np.int32],
) -> Numbers:
    return np.stack(precision_and_recall(lists, users, liked_by, liked), axis=1)


def errors(fold: Fold) -> Probe:
    """Return a probe of the root mean squared and mean absolute error on the test ratings."""

    def probe(models: Any) -> Numbers:
        return mean_errors(models.predict(fold.users, fold.items), fold.values)

    return probe


def largest_errors(fold: Fold) -> Numbers:
    """Compute the largest root mean squared and mean absolute error on the fold's test ratings."""
    return _largest(fold.values, fold.train.scale)


def _largest(values: NDArray[Any], scale: Scale) -> Numbers:
    """Compute the largest root mean squared and mean absolute error of guesses on the scale.

    A rating's largest error is its distance from the farther end of the scale.

    Args:
        values: the ratings, at least one `(n,)`.
        scale: the rating scale.

    Returns:
        Both `(2,)`; no guesses on the scale err by more.
    """
    values = values.astype(np.float64)
    ends = np.stack([np.full_like(values, scale.minimum), np.full_like(values, scale.maximum)])
    farther = np.abs(ends - values).max(0)
    return np.array([np.sqrt(np.mean(farther**2)), np.mean(farther)])


def recovered(attack: Any, ratings: Ratings, parts: Sequence[NDArray[np.bool_]]) -> Probe:
    """Return a probe of an attack's errors and accuracy on parts of `ratings`.

    Guesses off the rating scale are moved to its end, which is never a worse guess.

    Args:
        attack: reconstructs ratings from the released model and the shared ratings.
        ratings: the ratings.
        parts: masks of the ratings to reconstruct, each `(R,)`, with three numbers for each.
    """
    shared, wanted = ratings.shared, np.logical_or.reduce(parts)
    users, items = ratings.user[wanted], ratings.item[wanted]

    def probe(models: Any) -> Numbers:
        release = models.public(np.arange(ratings.n_items, dtype=np.int32))
        guesses = attack.reconstruct(release, shared, users, items)
        guesses = np.clip(guesses, ratings.scale.minimum, ratings.scale.maximum)
        values = ratings.value[wanted]
        masks = [mask[wanted] for mask in parts]
        numbers = [_recovered(guesses[:, rows], values[rows], ratings.scale) for rows in masks]
        return np.concatenate(numbers, axis=1)

    return probe


def recoverable(ratings: Ratings, mask: NDArray[np.bool_]) -> Numbers:
    """Compute the largest possible errors and accuracy of an attack on a part `(R,)`, `(3,)`."""
    return np.append(_largest(ratings.value[mask], ratings.scale), 1.0)


def guessed(ratings: Ratings, wanted: NDArray[np.bool_] | None = None) -> Numbers:
    """Compute both errors and the accuracy of guessing the items' means `(3,)`.

    Args:
        ratings: the ratings.
        wanted: mask of the ratings to guess; all sensitive ones by default.
    """
    rows = ratings.kept_private if wanted is None else wanted
    means = guess_means(ratings.shared, ratings.item[rows])
    return _recovered(means[None], ratings.value[rows], ratings.scale)[0]


def _recovered(guesses: NDArray[Any], values: NDArray[Any], scale: Scale) -> Numbers:
    """Compute both errors, and the share of guesses nearest to the true rating `(W, 3)`."""
    near = 2 * abs(guesses.astype(np.float64) - values) < scale.step
    return np.column_stack([mean_errors(guesses, values), near.mean(axis=1)])


def mean_errors(predictions: NDArray[Any], values: NDArray[Any]) -> Numbers:
    """Compute the root mean squared and mean absolute errors `(W, 2)` of predictions `(W, n)`."""
    # Trial by trial, which saves memory, where that keeps the order of the sums.
    by_trial = predictions.flags.c_contiguous and len(predictions)
    means = []
    for piece in np.split(predictions, len(predictions)) if by_trial else [predictions]:
        away = piece.astype(np.float64) - values
        squares = np.sqrt(np.mean(away**2, axis=1))
        means.append(np.stack([squares, np.mean(abs(away), axis=1)], axis=1))
    return np.concatenate(means)


def guess_means(shared: Ratings, items: Indices) -> NDArray[np.float64]:
    """Return the mean shared rating of each item `(n,)`.

    For an item without shared ratings it is the mean of all shared ratings, without any rating the
    middle of the scale.
    """
    counts = np.bincount(shared.item, minlength=shared.n_items)
    sums = np.bincount(shared.item, shared.value, shared.n_items)
    middle = (shared.scale.minimum + shared.scale.maximum) / 2
    everything = shared.value.mean(dtype=np.float64) if len(shared) else middle
    means = np.where(counts > 0, sums / np.maximum(counts, 1), everything)
    return np.asarray(means[items], np.float64)


@dataclass(eq=False)
class ProbedTraining:
    """A defense to train on ratings and to probe, in pieces of up to 16 trials.

    Attributes:
        words: which training it is: what decides its ratings and probes, beside the run's config.
        defense: the defense.
        ratings: the training ratings.
        probes: the functions that are applied to its models.
        streams: the trials.
    """

    words: str
    defense: Any
    ratings: Ratings
    probes: Sequence[Probe]
    streams: Streams
    _prepared: Any = None
    _lock: Any = field(default_factory=Lock)

    def __call__(self, piece: Streams) -> Numbers:
        """Train a piece and return the probes' numbers `(W, k)`, NaN without a model."""
        with self._lock:  # the first piece prepares the data for all pieces
            if self._prepared is None:
                self._prepared = self.defense.prepare(self.ratings)
        return outcomes(self._probed, piece, np.full((1, 1), np.nan))

    def _probed(self, piece: Streams) -> Numbers:
        models = self.defense.train(self._prepared, piece)
        return np.concatenate([probe(models) for probe in self.probes], axis=1)

    def __getstate__(self) -> dict[str, Any]:
        """Return what is sent to another process, which prepares the data itself."""
        return {**vars(self), "_prepared": None, "_lock": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=Lock())


def run_all(trainings: Iterable[ProbedTraining], trials: int, executor: Executor) -> list[Numbers]:
    """Run trainings, created lazily, and return each one's probes `(W, k)`."""
    parts = executor.run(
        Task(training, piece, len(piece), f"{training.words}, {training.defense!r}")
        for training in trainings
        for piece in lane_blocks(training.streams)
    )
    blocks = -(-trials // LANES)
    return [joined(parts[k : k + blocks]) for k in range(0, len(parts), blocks)]


def over_trials(rows: Numbers) -> Numbers:
    """Average probes `(W, k)` over trials `(k,)`."""
    return np.array([math.fsum(column) / len(rows) for column in rows.T])


def over_folds(errors: Sequence[float], confidence: float) -> Estimate:
    """Compute the mean over folds with Student's interval.

    The folds share training data, so their errors are not independent, and they are too few to
    establish normality. The interval therefore only shows scatter and cannot gate. It is not part
    of the family of joint intervals.
    """
    return student_mean(errors, 1 - confidence, "folds")


def mean_measured(
    key: MetricKey, numbers: Numbers, least: float, most: float, family: Family
) -> Measurement:
    """Measure the mean of a number over folds, jointly over trainings if a gate judges it.

    Args:
        key: the key, which says whether a gate judges it.
        numbers: the number in each trial on each fold `(W, F)`.
        least: the least possible number.
        most: the largest possible number.
        family: the family of the run's intervals.
    """
    if key.joint:
        return key.measured(joint_mean(numbers, family, least=least, most=most))
    return key.measured(over_folds(over_trials(numbers).tolist(), family.confidence))
