"""Plays a whole audit: from a checked config to its record."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

import numpy as np

from dpaudit import __version__
from dpaudit import config as configs
from dpaudit.attacks.likelihood_ratio import LikelihoodRatio
from dpaudit.attacks.linear import LinearIdeal
from dpaudit.auditor import result as records
from dpaudit.auditor.describe import attack_record, data_record, model_record, point_record
from dpaudit.auditor.game import play_game, search_pair
from dpaudit.auditor.risk import play_risk
from dpaudit.auditor.trials import eligible
from dpaudit.auditor.utility import play_held_out, play_overlap
from dpaudit.bounds.accounting import laplace_vector_epsilon
from dpaudit.bounds.estimate import Estimate
from dpaudit.bounds.intervals import proportion
from dpaudit.bounds.labels import label_epsilon
from dpaudit.bounds.means import betting_mean
from dpaudit.bounds.power import detectable_on_pair
from dpaudit.data.ratings import Profile, Ratings
from dpaudit.data.readers import load
from dpaudit.data.split import split_users
from dpaudit.defenses.base import WorldPair
from dpaudit.defenses.item_item import ItemItem
from dpaudit.defenses.item_model import ItemModel
from dpaudit.errors import ConfigError, DataError
from dpaudit.gate import judge
from dpaudit.provenance import environment


class Progress:
    """Told what is being done; the command line shows it, nothing else reads it."""

    def start(self, total: int) -> None:
        """The number of trials to come."""

    def stage(self, text: str) -> None:
        """What is done now."""

    def advance(self, trials: int) -> None:
        """So many trials are done."""


@dataclass(frozen=True)
class Sweep:
    """One model of a config at all its ε, with what its parts share.

    Attributes:
        model: the model of the config.
        train: the ratings that its similarity is built from.
        attacked: the users who are attacked.
    """

    model: configs.Model
    train: Ratings
    attacked: Sequence[Profile]

    @classmethod
    def of(cls, config: configs.Config, ratings: Ratings) -> list[Sweep]:
        """The sweeps of all models, which share the split of the users."""
        train, attacked = split_users(ratings, config.split.test_share, config.seed)
        return [cls(model, train, attacked) for model in config.model]

    @cached_property
    def defenses(self) -> list[ItemItem]:
        """The recommender at each ε."""
        return self.model.defenses("model")

    @cached_property
    def prepared(self) -> ItemModel:
        """Its statistics of the data, whatever the ε."""
        return self.defenses[0].prepare(self.train)

    def users(self, extra: int = 0) -> list[Profile]:
        """The attacked users with enough ratings, and enough items left to be shown."""
        defense = self.defenses[0]
        least, most = defense.min_ratings + extra, self.train.n_items - defense.top_k - 1
        if most < least:
            raise DataError(
                f"the data have {self.train.n_items} items, too few for params.min_ratings = "
                f"{defense.min_ratings} and params.top_k = {defense.top_k} of model "
                f"{self.model.label!r}: lower one of them"
            )
        users = eligible(self.attacked, least, most)
        if not users:
            raise DataError(
                f"none of the {len(self.attacked)} attacked users has {least} to {most} ratings "
                f"(min_ratings, and top_k items left to show): lower params.min_ratings or "
                f"params.top_k of model {self.model.label!r}, or use more data"
            )
        return users


def run_audit(
    config: configs.Config,
    *,
    threads: int = 1,
    progress: Progress | None = None,
    allow_code: bool = False,
) -> records.AuditResult:
    """Attack every model of the config, measure its utility, play its games, judge its gates.

    The record depends on the config and its data alone, but for `timing`.

    Args:
        config: a checked config.
        threads: number of threads.
        progress: told what is being done.
        allow_code: whether the code that the config names may be run.

    Raises:
        DataError: the data cannot be read or are too few.
        ConfigError: a model does not fit the data, or code is named and not allowed.
        RunError: the named code failed.
    """
    progress = progress or Progress()
    if config.defense:
        if not allow_code:
            raise ConfigError(
                f"defense.target = {config.defense.target!r} is code that this config would run: "
                "give --allow-code (allow_code=True) if you trust it"
            )
        from dpaudit.run_python import run_python

        return run_python(config, config.defense, progress.stage)
    started, clock = datetime.now(UTC), time.perf_counter()
    progress.stage("reading the data")
    ratings = load(config.data)
    sweeps = Sweep.of(config, ratings)
    train, attacked = sweeps[0].train, sweeps[0].attacked
    family = family_of(config, ratings)
    play = _Play(config, family, threads, progress)
    progress.start(play.trials(sweeps))
    measurements: list[records.Measurement] = []
    pairs = []
    for sweep in sweeps:
        measurements += play.risk(sweep)
        measurements += play.utility(sweep)
        for game in config.game:
            pair, scores = play.game(sweep, game)
            pairs.append(pair)
            measurements += scores
    points = [
        point_record(sweep.model.label, defense, train.scale)
        for sweep in sweeps
        for defense in sweep.defenses
    ]
    gates = [judge(gate, points, measurements) for gate in config.gate]
    return records.AuditResult(
        tool=__version__,
        environment=environment(),
        config=config.model_dump(mode="json", exclude={"defense"}),
        data=data_record(ratings, train, attacked),
        family=family,
        models=[model_record(sweep.model.label, sweep.defenses[0]) for sweep in sweeps],
        attacks={label: attack_record(attack) for label, attack in play.attacks.items()},
        pairs=pairs,
        points=points,
        measurements=measurements,
        gates=gates,
        outcome=records.worst([gate.outcome for gate in gates]),
        timing=records.Timing.since(started, clock),
    )


@dataclass(frozen=True)
class _Play:
    """Plays the parts of an audit with the run's seed and its family's level."""

    config: configs.Config
    family: records.Family
    threads: int
    progress: Progress

    @cached_property
    def attacks(self) -> dict[str, LinearIdeal]:
        return {attack.label: attack.create("attack") for attack in self.config.attack}

    def trials(self, sweeps: Sequence[Sweep]) -> int:
        """The number of trials that the progress counts."""
        rated = [sweep for sweep in sweeps if sweep.train.scale.width > 0]
        plays = len(sweeps) * (len(self.config.attack) + 1) + len(rated)
        return plays * self.config.audit.trials

    def _options(self) -> dict[str, Any]:
        return {
            "trials": self.config.audit.trials,
            "seed": self.config.seed,
            "threads": self.threads,
            "advance": self.progress.advance,
        }

    def risk(self, sweep: Sweep) -> Iterator[records.Measurement]:
        """The accuracy of every attack at every ε."""
        for label, attack in self.attacks.items():
            self.progress.stage(f"{sweep.model.label}: attack {label}")
            correct = play_risk(
                sweep.defenses, sweep.prepared, sweep.users(), attack, **self._options()
            )
            for epsilon, row in zip(sweep.model.epsilon, correct, strict=True):
                yield records.Measurement(
                    metric="attack.accuracy",
                    model=sweep.model.label,
                    epsilon=epsilon,
                    attack=label,
                    estimate=proportion(
                        int(row.sum()), len(row), self.family.alpha, self.family.confidence
                    ),
                )

    def utility(self, sweep: Sweep) -> Iterator[records.Measurement]:
        """What is kept of the list, and the error on held-out ratings, at every ε."""
        self.progress.stage(f"{sweep.model.label}: utility")
        kept = play_overlap(sweep.defenses, sweep.prepared, sweep.users(), **self._options())
        for epsilon, row in zip(sweep.model.epsilon, kept, strict=True):
            yield self._mean("utility.overlap", sweep, epsilon, row)
        width = sweep.train.scale.width
        if width > 0:
            errors = play_held_out(
                sweep.defenses, sweep.prepared, sweep.users(extra=1), **self._options()
            )
            for epsilon, row in zip(sweep.model.epsilon, errors, strict=True):
                square = self._mean("utility.rmse", sweep, epsilon, row)
                yield square.model_copy(update={"estimate": _root(square.estimate, width)})

    def _mean(
        self, metric: records.Metric, sweep: Sweep, epsilon: float, row: Any
    ) -> records.Measurement:
        estimate = betting_mean(row, self.family.alpha, self.family.confidence)
        return records.Measurement(
            metric=metric, model=sweep.model.label, epsilon=epsilon, estimate=estimate
        )

    def game(
        self, sweep: Sweep, game: configs.Game
    ) -> tuple[records.PairRecord, list[records.Measurement]]:
        """The certified lower bound on ε of one pair at every ε."""
        self.progress.stage(f"{sweep.model.label}: game {game.pair}")
        pair, model = pair_of(sweep, game, self.config.seed)
        attack: LikelihoodRatio = game.create("game")
        measurements = []
        for defense in sweep.defenses:
            scores = play_game(
                defense, model, pair, attack, trials=game.trials, seed=self.config.seed
            )
            claim = defense.claim()
            delta = claim.delta if claim else 0.0
            estimate, event = label_epsilon(
                scores.absent,
                scores.present,
                delta=delta,
                alpha=self.family.alpha,
                confidence=self.family.confidence,
                seed=self.config.seed,
            )
            detectable = claim and detectable_on_pair(
                claim.epsilon,
                estimate.n,
                self.family.alpha,
                scores.shift,
                defense.sensitivity(pair.ratings.scale),
                delta=delta,
            )
            measurements.append(
                records.Measurement(
                    metric="epsilon",
                    model=sweep.model.label,
                    epsilon=defense.epsilon,
                    attack=attack.name,
                    pair=game.pair,
                    estimate=estimate,
                    detectable=detectable,
                    event=str(event),
                    shift=scores.shift,
                    theory=laplace_vector_epsilon(scores.shifts, scores.noise_scale, delta=delta),
                )
            )
        record = records.PairRecord(model=sweep.model.label, pair=game.pair, summary=pair.summary)
        return record, measurements


def pair_of(sweep: Sweep, game: configs.Game, seed: int) -> tuple[WorldPair, ItemModel]:
    """The neighbouring data sets of a game, with the prepared statistics of D.

    Raises:
        DataError: the data are too few for a pair.
    """
    defense = sweep.defenses[0]
    if game.pair != "data":
        pair = defense.pair(game.pair, sweep.train.scale)
        return pair, defense.prepare(pair.ratings)
    counts = np.diff(sweep.train.by_user.start)
    users = np.flatnonzero(counts >= defense.min_ratings)
    if len(users) < 2:
        raise DataError(
            f"{len(users)} of the users that the similarity is built from have "
            f"{defense.min_ratings} ratings and a pair needs 2: use more data"
        )
    pair = search_pair(defense, sweep.prepared, users, candidates=game.candidates, seed=seed)
    return pair, sweep.prepared


def family_of(config: configs.Config, ratings: Ratings) -> records.Family:
    """Every interval of the run gets the same share of the error probability (Bonferroni)."""
    rated = ratings.scale.width > 0  # a file of purchases alone has no rmse
    size = sum(rated or point["metric"] != "utility.rmse" for point in config.measured())
    return records.Family(
        confidence=config.audit.confidence,
        size=size,
        alpha=(1 - config.audit.confidence) / size,
    )


def _root(square: Estimate, width: float) -> Estimate:
    """The interval of `width · √mean` from that of the mean."""
    return square.model_copy(
        update={
            field: width * math.sqrt(getattr(square, field))
            for field in ("value", "lower", "upper")
        }
    )
