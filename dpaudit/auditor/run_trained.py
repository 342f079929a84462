"""Plays an audit of models that are trained: their error against ε, and their games."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from dpaudit import __version__
from dpaudit.auditor.describe import attack_record, data_record, model_record, point_record
from dpaudit.auditor.gate import judge
from dpaudit.auditor.measures.assumptions import assumptions
from dpaudit.auditor.measures.grids import Grids, Progress, combinations
from dpaudit.auditor.measures.pairs import Pairs
from dpaudit.auditor.measures.recovery import check_kept
from dpaudit.auditor.measures.scores import scores_of
from dpaudit.auditor.measures.submissions import Reading, check_reading
from dpaudit.auditor.measures.trained_games import TrainedGames, check_games, trainings
from dpaudit.auditor.measures.trained_utility import Utility
from dpaudit.auditor.measures.transcripts import Transcripts, check_transcript
from dpaudit.config import schema as configs
from dpaudit.core.errors import DataError
from dpaudit.core.provenance import environment
from dpaudit.data.folds import Fold, active, capped, files_folds, random_folds
from dpaudit.data.ratings import Ratings, Scale
from dpaudit.data.readers.load import load
from dpaudit.data.source import DataSource
from dpaudit.record import result as records


def run_trained(config: configs.Config, *, threads: int, progress: Progress) -> records.AuditResult:
    """Train every model of the config on every fold, play its games, judge its gates.

    Args:
        config: a checked config whose models are trained.
        threads: number of threads; the numbers do not depend on it.
        progress: told what is being done.

    Raises:
        DataError: the data cannot be read or are too few.
        ConfigError: a model does not fit the data, or a game its claim.
        RunError: a training diverged.
    """
    from threadpoolctl import threadpool_limits

    # Trainings share the threads. Threads of linear algebra would only wait for one another, and
    # add sums in another order.
    with threadpool_limits(1):
        return _run(config, threads, progress)


def _run(config: configs.Config, threads: int, progress: Progress) -> records.AuditResult:
    started, clock = datetime.now(UTC), time.perf_counter()
    progress.stage("reading the data")
    ratings = load(config.data)
    for model in config.model:
        check_games(model, config.game)
    check_transcript(config)
    check_reading(config)
    family = records.Family.of(config.audit.confidence, max(1, len(config.measured())))
    play = _Play(config, ratings, family, threads, progress)
    games = TrainedGames(
        play.learned, play.family, config.seed, threads, progress.advance, config.gate
    )
    for model in config.model:
        Pairs(play.learned).check(model, config.game)
    progress.start(play.trainings())
    measurements: list[records.Measurement] = []
    pairs: list[records.PairRecord] = []
    models, points = [], []
    folds = play.folds()
    grids = Grids(config, folds[0], threads, progress)
    folds = grids.untouched(folds)
    utility = play.utility(folds)
    check_kept(folds, [attack.label for attack in config.recovering + config.reading])
    reading = play.reading(folds)
    by_fold: dict[tuple[str, float], Any] = {}
    for model in config.model:
        defenses = grids.chosen(model)
        models.append(_model_record(model, defenses[0]))
        points += [_point_record(model, defense, ratings.scale) for defense in defenses]
        errors, each = utility.play(model.label, defenses, progress.stage)
        measurements += errors
        by_fold |= each
        measurements += assumptions(model.label, defenses, play.learned, config.seed)
        measurements += play.transcripts(model.label, defenses, folds[0])
        measurements += reading.play(model.label, defenses)
        for game in config.game:
            progress.stage(f"{model.label}: game {game.label}")
            record, found = games.play(model.label, defenses, game)
            pairs.append(record)
            measurements += found
    kinds = scores_of(config.model[0].defenses("model")[0], config.training.top_k).kinds
    measurements += utility.compared(by_fold, config.training.against, kinds)
    gates = [judge(gate, points, measurements) for gate in config.gate]
    return records.AuditResult(
        tool=__version__,
        environment=environment(),
        config=config.model_copy(update={"train": config.training}).model_dump(
            mode="json", exclude={"defense", "split"}
        ),
        data=data_record(ratings, play.learned, attacked=1),
        family=play.family,
        models=models,
        attacks={
            **{
                label: attack_record(attack)
                for label, attack in (play.watching | play.recovering | reading.attacks).items()
            },
            **_attack_records(config.game),
        },
        pairs=pairs,
        points=points,
        measurements=measurements,
        gates=gates,
        outcome=records.worst([gate.outcome for gate in gates]),
        timing=records.Timing.since(started, clock),
    )


@dataclass(frozen=True)
class _Play:
    """Plays the parts of an audit."""

    config: configs.Config
    ratings: Ratings
    family: records.Family
    threads: int
    progress: Progress

    @cached_property
    def learned(self) -> Ratings:
        """The ratings that games train on: those of users with enough, at most so many each."""
        return self._kept(self.ratings)

    @cached_property
    def watching(self) -> dict[str, Any]:
        """The attackers who read submissions, by label."""
        return {attack.label: attack.create("attack") for attack in self.config.watching}

    @cached_property
    def recovering(self) -> dict[str, Any]:
        """The attackers who recover sensitive ratings, by label."""
        return {attack.label: attack.create("attack") for attack in self.config.recovering}

    def _kept(self, ratings: Ratings) -> Ratings:
        train = self.config.training
        kept = active(ratings, train.more_than) if train.more_than else ratings
        return kept if train.cap is None else capped(kept, train.cap, self.config.seed)

    def folds(self) -> list[Fold]:
        """The folds that are played, their training cut to what models learn from."""
        train = self.config.training
        if train.files:
            found = files_folds(self.ratings, _test_files(train.files))
        else:
            found = random_folds(self.ratings, train.folds, self.config.seed)
        return [
            Fold(self._kept(fold.train), fold.users, fold.items, fold.values)
            for fold in found[: train.play]
        ]

    def trainings(self) -> int:
        """The number of trainings that the progress counts."""
        train = self.config.training
        tried = combinations(self.config)
        folds = min(len(train.files) or train.folds, train.play or 100)
        points = sum(len(model.epsilon) for model in self.config.model)
        games = sum(trainings(game) for game in self.config.game)
        watched = self.config.transcript.worlds if self.config.transcript else 0
        plays = folds * (1 + 3 * bool(self.recovering) + bool(self.config.reading))
        return points * (plays * train.worlds + games + watched) + tried * train.worlds

    def transcripts(
        self, label: str, defenses: Sequence[Any], first: Fold
    ) -> list[records.Measurement]:
        """What the server sees of trainings on the first fold."""
        if self.config.transcript is None:
            return []
        self.progress.stage(f"{label}: transcripts")
        played = Transcripts(
            self.config.transcript,
            self.watching,
            first,
            self.family,
            any(gate.metric == "attack.auc" for gate in self.config.gate),
            self.config.seed,
            self.threads,
            self.progress.advance,
        )
        return played.play(label, defenses)

    def reading(self, folds: Sequence[Fold]) -> Reading:
        """What lets recommenders read submissions."""
        return Reading(
            folds,
            {attack.label: attack.create("attack") for attack in self.config.reading},
            self.config.training.worlds,
            self.config.seed,
            self.config.audit.confidence,
            self.threads,
            self.progress.advance,
        )

    def utility(self, folds: Sequence[Fold]) -> Utility:
        """What plays the models on the folds."""
        return Utility(
            folds,
            self.recovering,
            self.config.training.worlds,
            self.config.seed,
            self.config.audit.confidence,
            self.threads,
            self.config.training.top_k,
            self.progress.advance,
        )


def _test_files(files: Sequence[str]) -> list[Path]:
    """Where the published test files lie.

    Raises:
        DataError: there are too few for an interval, or one does not exist.
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


def _attack_records(games: Sequence[configs.Game]) -> dict[str, dict[str, Any]]:
    """Each attack by its name; with its game where games give it different parameters."""
    tried = [(game, attack_record(game.create("game"))) for game in games]
    found = {}
    for game, attack in tried:
        alike = all(other == attack for each, other in tried if each.attack == game.attack)
        found[game.attack if alike else f"{game.attack}, {game.label}"] = attack
    return found


def _model_record(model: configs.Model, defense: Any) -> records.ModelRecord:
    """The recommender; where a grid was searched, what was offered."""
    found = model_record(model.label, defense)
    return found.model_copy(update={"params": {**found.params, **model.grid}})


def _point_record(model: configs.Model, defense: Any, scale: Scale) -> records.PointRecord:
    """The recommender at its ε, with what a grid search chose."""
    chosen = {name: getattr(defense, name) for name in model.grid}
    return point_record(model.label, defense, scale).model_copy(update={"chosen": chosen})
