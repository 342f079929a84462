"""Plays a whole audit: from a checked config to its record."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from dpaudit import __version__
from dpaudit.attacks.base import Inference
from dpaudit.auditor.describe import attack_record, data_record, model_record, point_record
from dpaudit.auditor.gate import judge
from dpaudit.auditor.measures.convergence import chosen_users, mean_divergence
from dpaudit.auditor.measures.games import measure
from dpaudit.auditor.measures.risk import play_risk
from dpaudit.auditor.measures.sybil import measure_campaign
from dpaudit.auditor.measures.utility import play_held_out, play_overlap
from dpaudit.auditor.sweep import Sweep
from dpaudit.bounds.frequentist.intervals import proportion
from dpaudit.bounds.frequentist.means import betting_mean
from dpaudit.config import schema as configs
from dpaudit.core.errors import ConfigError
from dpaudit.core.estimate import Estimate
from dpaudit.core.provenance import environment
from dpaudit.data.ratings import Ratings
from dpaudit.data.readers.load import load
from dpaudit.record import result as records


class Progress:
    """Told what is being done; the command line shows it, nothing else reads it."""

    def start(self, total: int) -> None:
        """The number of trials to come."""

    def stage(self, text: str) -> None:
        """What is done now."""

    def advance(self, trials: int) -> None:
        """So many trials are done."""


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
        from dpaudit.auditor.black_box.run import run_python

        return run_python(config, config.defense, progress.stage)
    if config.trains:
        from dpaudit.auditor.run_trained import run_trained

        return run_trained(config, threads=threads, progress=progress)
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
        measurements += play.convergence(sweep)
        for game in config.game:
            progress.stage(f"{sweep.model.label}: game {game.label}")
            pair, scores = measure(sweep, game, family, config.seed, config.gate)
            pairs.append(pair)
            measurements += scores
        for campaign in config.campaign:
            progress.stage(f"{sweep.model.label}: campaign {campaign.label}")
            measurements += measure_campaign(
                sweep,
                campaign,
                family,
                seed=config.seed,
                threads=threads,
                advance=progress.advance,
            )
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
        data=data_record(ratings, train, attacked=len(attacked)),
        family=family,
        models=[model_record(sweep.model.label, sweep.defenses[0]) for sweep in sweeps],
        attacks={
            each.label: {**attack_record(play.attacks[each.label]), **each.played}
            for each in config.attack
        },
        campaigns={
            each.label: {**attack_record(each.create("campaign")), **each.played}
            for each in config.campaign
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
    """Plays the parts of an audit with the run's seed and its family's level."""

    config: configs.Config
    family: records.Family
    threads: int
    progress: Progress

    @cached_property
    def attacks(self) -> dict[str, Inference]:
        return {attack.label: attack.create("attack") for attack in self.config.attack}

    def trials(self, sweeps: Sequence[Sweep]) -> int:
        """The number of trials that the progress counts."""
        rated = [sweep for sweep in sweeps if sweep.has_rmse]
        plays = len(sweeps) * (len(self.config.attack) + 1) + len(rated)
        campaigns = sum(campaign.trials for campaign in self.config.campaign)
        attacked = sum(len(sweep.defenses) for sweep in sweeps)
        return plays * self.config.audit.trials + attacked * campaigns

    def _options(self) -> dict[str, Any]:
        return {
            "trials": self.config.audit.trials,
            "seed": self.config.seed,
            "threads": self.threads,
            "advance": self.progress.advance,
        }

    def risk(self, sweep: Sweep) -> Iterator[records.Measurement]:
        """The accuracy of every attack at every ε."""
        for asked in self.config.attack:
            self.progress.stage(f"{sweep.model.label}: attack {asked.label}")
            correct = play_risk(
                sweep.predicting,
                sweep.prepared,
                sweep.users(),
                self.attacks[asked.label],
                draw=asked.draw,
                **self._options(),
            )
            for epsilon, row in zip(sweep.model.epsilon, correct, strict=True):
                yield records.Measurement(
                    metric="attack.accuracy",
                    model=sweep.model.label,
                    epsilon=epsilon,
                    attack=asked.label,
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
        if sweep.has_rmse:
            width = sweep.train.scale.width
            errors = play_held_out(
                sweep.predicting, sweep.prepared, sweep.users(extra=1), **self._options()
            )
            for epsilon, row in zip(sweep.model.epsilon, errors, strict=True):
                square = self._mean("utility.rmse", sweep, epsilon, row)
                yield square.model_copy(update={"estimate": _root(square.estimate, width)})

    def convergence(self, sweep: Sweep) -> Iterator[records.Measurement]:
        """How far a published chain is from its stationary law, computed at every ε."""
        wanted = self.config.convergence
        if wanted is None or not sweep.chains:
            return
        self.progress.stage(f"{sweep.model.label}: convergence")
        users = chosen_users(sweep.users(), wanted.users, self.config.seed)
        method = f"law of the chain, mean of {len(users)} users"
        for defense in sweep.chains:
            found = mean_divergence(
                defense, sweep.prepared, users, wanted.steps, threads=self.threads
            )
            for states, row in found.items():
                for step, value in zip(wanted.steps, row, strict=True):
                    yield records.Measurement(
                        metric="chain.divergence",
                        model=sweep.model.label,
                        epsilon=defense.epsilon,
                        estimate=Estimate.exact(float(value), method),
                        step=step,
                        states=states,
                    )

    def _mean(
        self, metric: records.Metric, sweep: Sweep, epsilon: float, row: Any
    ) -> records.Measurement:
        estimate = betting_mean(row, self.family.alpha, self.family.confidence)
        return records.Measurement(
            metric=metric, model=sweep.model.label, epsilon=epsilon, estimate=estimate
        )


def family_of(config: configs.Config, ratings: Ratings) -> records.Family:
    """Every interval of the run gets the same share of the error probability (Bonferroni)."""
    rated = ratings.scale.width > 0  # a file of purchases alone has no rmse
    size = sum(rated or point["metric"] != "utility.rmse" for point in config.measured())
    return records.Family.of(config.audit.confidence, size)


def _root(square: Estimate, width: float) -> Estimate:
    """The interval of `width · √mean` from that of the mean."""
    return square.changed(
        **{
            field: width * math.sqrt(getattr(square, field))
            for field in ("value", "lower", "upper")
        }
    )
