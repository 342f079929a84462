"""Search the settings of one model, and judge at most three: a stage over runs.

All trainings of a search are kept in one store. All settings have the same targets and the same
held-out interactions, by the run's seed, and each has coins and seeds of its own, by its values. So
given the targets the trainings of different settings are independent, and those of one setting are
the first of any longer run of it. Trainings that were seen calibrate, and none of them is judged.

Gates about the next training are judged by new trainings of these targets. Gates by an interval,
about this model, the average or ε, are judged by a run with a seed of its own: its targets are
drawn anew, as an interval about this model holds for targets that did not choose the setting. There
each of m listed candidates has the error probability α/m of what the config states, so all of them
together have α.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from dpaudit.auditor.gate import rule
from dpaudit.auditor.measure import Context
from dpaudit.auditor.plan import Plan, RunFolder
from dpaudit.auditor.run import measured, run
from dpaudit.audits.membership.calibration import Division
from dpaudit.audits.membership.config import MembershipConfig
from dpaudit.audits.membership.decisions import left_for_next
from dpaudit.audits.membership.survey import Survey
from dpaudit.audits.membership.training import Utility
from dpaudit.audits.membership.trainings import trainings_for
from dpaudit.bounds.frequentist.intervals import draws_needed
from dpaudit.config.gate import NEXT, Gate, picked_by
from dpaudit.core.errors import ConfigError
from dpaudit.core.streams import generator
from dpaudit.data.ratings import Ratings
from dpaudit.execution.executor import Executor
from dpaudit.execution.store import Store
from dpaudit.execution.tasks import Progress
from dpaudit.execution.workers import Pool
from dpaudit.record.metrics import entry
from dpaudit.record.result import AuditResult, Measurement
from dpaudit.tuning.result import CandidateRecord, Fate, Leak, Price, SettingRecord
from dpaudit.tuning.search import Trained
from dpaudit.tuning.settings import Setting, Tuned

# After how many judged trainings it is looked whether one exceeds.
_LOOKS = (1, 2, 4, 8, 12, 16)
# The largest share of the data that targets and held-out interactions may be.
_SHARE = 0.5
# The level of the interval of a price.
_ALPHA = 0.05


@dataclass(frozen=True)
class _Part(Progress):
    """Passes on what runs of a search do; their trainings are counted once, by the search.

    Attributes:
        whole: the receiver.
    """

    whole: Progress

    def stage(self, text: str) -> None:
        """Pass the stage on."""
        self.whole.stage(text)

    def workers(self, text: str, count: int = 1) -> None:
        """Pass the workers on."""
        self.whole.workers(text, count)

    def note(self, text: str) -> None:
        """Pass the sentence on."""
        self.whole.note(text)


def by_interval(gate: Gate) -> bool:
    """Whether a gate is judged by an interval, and not by the share of trainings that exceed."""
    return gate.of not in NEXT or gate.judged == "epsilon"


def on_utility(gate: Gate) -> bool:
    """Whether a gate limits a utility."""
    return gate.metric.startswith("utility.")


def doubled(config: MembershipConfig, ratings: Ratings) -> MembershipConfig:
    """Return a config with twice the held-out interactions: half for the search, half for a price.

    If the data have too few, or the config holds out all since a day, it stays as it is; so it does
    if a gate limits a utility, which is larger where more is held out.
    """
    table = config.membership
    targets = table.targets("interaction") * ("interaction" in table.units)
    room = 2 * table.held_out + targets <= _SHARE * len(ratings)
    gated = any(map(on_utility, config.gate))
    if table.held_out_from is not None or table.hold != "random" or not room or gated:
        return config
    changed = table.model_copy(update={"held_out": 2 * table.held_out})
    return config.model_copy(update={"membership": changed})


def judged_by(plan: Plan) -> int:
    """Return how many new trainings judge a candidate of a membership audit.

    Raises:
        ConfigError: no number does.
    """
    config = plan.config
    if not isinstance(config, MembershipConfig):
        raise TypeError("only membership audits are tuned")
    if any(map(by_interval, config.gate)):
        return config.membership.trainings
    left = left_for_next(config, plan.family)
    if left <= 0:
        raise ConfigError(
            "no error probability is left to gates about the next training, as claims and other "
            "gates take it: remove some, or lower audit.confidence"
        )
    return draws_needed(0, left)


@dataclass(eq=False)
class Tuner:
    """The trainings of a search.

    Attributes:
        tuned: the model, with its config.
        plan: the plan of its run, with the data; `plan.config` fits them.
        pool: the workers.
        progress: receives the finished trainings.
        store: keeps them.
        settings: the settings; TPE adds to them.
        before: how many trainings of a setting earlier searches have seen, by its key.
        used: how many trainings each setting has, by its place.
    """

    tuned: Tuned
    plan: Plan
    pool: Pool
    progress: Progress
    store: Store
    settings: list[Setting]
    before: dict[str, int]
    used: dict[int, int] = field(default_factory=dict)
    shown: dict[int, SettingRecord] = field(default_factory=dict)
    trained: dict[int, Trained] = field(default_factory=dict)

    @property
    def config(self) -> MembershipConfig:
        """The config of the unchanged setting."""
        if not isinstance(self.plan.config, MembershipConfig):
            raise TypeError("only membership audits are tuned")
        return self.plan.config

    @property
    def ratings(self) -> Ratings:
        """The data."""
        if self.plan.ratings is None:
            raise TypeError("a search that has begun has data")
        return self.plan.ratings

    @cached_property
    def intervals(self) -> bool:
        """Whether some gate is judged by an interval."""
        return any(map(by_interval, self.config.gate))

    @cached_property
    def judged(self) -> int:
        """How many new trainings judge a candidate, none of which may exceed."""
        return judged_by(self.plan)

    @property
    def total(self) -> int:
        """How many trainings there are."""
        return sum(self.used.values())

    def of(self, setting: int, trainings: int, calibrating: int, seen: int) -> MembershipConfig:
        """Return the config of the trainings of a setting."""
        chosen = self.settings[setting]
        config = self.tuned.with_setting(chosen)
        coins = generator((self.config.seed,), f"tune coins {chosen.key}").integers(2**63)
        table = self.config.membership.model_copy(
            update={
                "trainings": trainings,
                "calibrating": calibrating,
                "seen": seen,
                "coins": int(coins),
                "stop": "at-end",
            }
        )
        models = {self.tuned.table: getattr(config, self.tuned.table)}
        return self.config.model_copy(update={"membership": table, **models})

    def survey(self, setting: int, trainings: int) -> Survey:
        """Train a setting up to so many times."""
        config = self.of(setting, trainings, max(0, trainings - 1), 0)
        about_next = [
            gate.model_copy(update={"of": None}) for gate in config.gate if gate.judged != "epsilon"
        ]
        config = config.model_copy(update={"gate": about_next})
        self.progress.stage(f"{self.settings[setting].words}: trainings")
        executor = Executor(self.pool, _Part(self.progress), self.store)
        family = replace(self.plan, config=config).family
        survey = Survey.of(Context(config, family, executor), self.ratings)
        new = trainings - self.used.get(setting, 0)
        if new > 0:
            self.used[setting] = trainings
            self.progress.advance(new)
        return survey

    def train(self, setting: int, trainings: int) -> Trained:
        """Train a setting up to so many times, and read what these trainings show.

        The first shows utility alone. Of more each is attacked with the help of all others.

        Raises:
            ConfigError: the unchanged setting has no utility, so that none would be searched for.
        """
        survey = self.survey(setting, trainings)
        name = self.tuned.tune.utility
        utility = _even(survey, name)
        if not setting and not survey.lost and not np.isfinite(utility).any():
            fields = [f"utility.{field}" for field in Utility._fields]
            known = [one for one in fields if np.isfinite(_even(survey, one)).any()]
            remedy = f"use {' or '.join(known)}" if known else "show lists or predicted ratings"
            raise ConfigError(
                f"tune.utility = {name!r} has no number for {self.tuned.model.label}, by whose "
                f"utility settings are chosen: {remedy}"
            )
        record = SettingRecord(
            values=self.settings[setting].values,
            words=self.settings[setting].words,
            trainings=trainings,
            utility=tuple(utility.tolist()),
        )
        trained = Trained((), worth(name, record.utility), trainings)
        if trainings > 1:
            every = np.arange(trainings)
            parts = [Division(np.delete(every, one), every[one : one + 1]) for one in every]
            leaks = self.leaks(survey, parts)
            about = {"leak": furthest(leaks), "relative": over(leaks)}
            if survey.lost:
                about["relative"] = (math.inf,) * trainings
            else:
                trained = _trained(leaks, trained.utility)
            about["chance"] = trained.passing(self.judged)
            record = record.model_copy(update=about)
        self.shown[setting], self.trained[setting] = record, trained
        return trained

    def leaks(self, survey: Survey, parts: Sequence[Division]) -> list[Leak]:
        """Return the numbers that gates limit, in the judged trainings of each division."""
        values: dict[tuple[Any, ...], list[float]] = {}
        about: dict[tuple[Any, ...], tuple[Gate, Measurement]] = {}
        for part in parts:
            numbers = survey.numbers(part)
            for gate in survey.measure.context.config.gate:
                for number in picked_by(gate, numbers, survey.model.points()):
                    if number.census is None:
                        continue
                    # The place of a leak says who finds most, which differs between trainings.
                    leak = number.metric == "leak"
                    key = rule(gate), number.attacker if leak else number.place
                    about[key] = gate, number
                    mirror = entry(number.metric).mirror if gate.min is None else None
                    shown = number.census.worst
                    if mirror is not None:
                        shown = tuple(max(value, mirror - value) for value in shown)
                    values.setdefault(key, []).extend(shown)
        return [
            Leak(
                rule=key[0],
                metric=number.metric,
                at=number.at,
                limit=gate.threshold,
                lower=gate.min is not None,
                values=tuple(values[key]),
            )
            for key, (gate, number) in about.items()
        ]

    def judge(self, setting: int, left: int) -> tuple[CandidateRecord, AuditResult | None]:
        """Judge a setting by new trainings, and end at the first look at which one exceeds.

        Args:
            setting: its place.
            left: how many trainings there are for it.

        Returns:
            What became of it, and the record of its run if that has all trainings.
        """
        seen = max(self.used[setting], self.before.get(self.settings[setting].key, 0))
        survey = self.survey(setting, seen)
        self.progress.stage(f"{self.settings[setting].words}: what a pass needs")
        needed = survey.calibrating_needed(self.judged)
        if needed is None:
            return CandidateRecord(setting=setting, fate="too weak", seen=seen, judged=0), None
        if needed - seen + self.judged > left:
            return _unjudged(setting, seen, needed - seen + self.judged, left), None
        looks = [0, *(look for look in _LOOKS if look < self.judged), self.judged]
        leaks: list[Leak] = []
        for before, look in pairwise(looks):
            survey = self.survey(setting, needed + look)
            new = np.arange(needed + before, needed + look)
            leaks = _joined(leaks, self.leaks(survey, [Division(np.arange(needed), new)]))
            if survey.lost or max(over(leaks)) > 1:
                worst = max(leaks, key=lambda leak: max(leak.relative))
                about = {"seen": needed, "judged": look, "leak": worst, "relative": over(leaks)}
                return CandidateRecord(setting=setting, fate="exceeded", **about), None
        config = self.of(setting, needed + self.judged, needed, needed)
        result = self.recorded(config)
        about = {"leak": furthest(leaks), "relative": over(leaks)}
        again = replace(_trained(leaks, 0.0), drawn=self._drawn(survey))
        about["chance"] = again.passing(self.judged)
        return _candidate(setting, needed, self.judged, result, **about), result

    def _drawn(self, survey: Survey) -> float:
        """Return how gated utilities deviate between draws of held-out interactions, as a share.

        It is the standard error of the mean over the twenty folds, which have different users.
        """
        shares = [0.0]
        for gate in filter(on_utility, self.config.gate):
            folds = _means(survey.utility(gate.metric.rpartition(".")[2]), 0)
            folds = folds[np.isfinite(folds)]
            if len(folds) > 1 and folds.mean() > 0:
                shares.append(float(folds.std(ddof=1) / math.sqrt(len(folds)) / folds.mean()))
        return max(shares)

    def judge_nearest(self, setting: int) -> tuple[CandidateRecord, AuditResult]:
        """Judge a setting without a chance to pass, until it surely fails."""
        seen = self.used[setting]
        config = self.of(setting, seen + self.judged, seen, seen)
        table = config.membership.model_copy(update={"stop": "when-decided"})
        result = self.recorded(config.model_copy(update={"membership": table}))
        counts = (len(one.census.values) for one in result.measurements if one.census)
        judged = min(counts, default=0)
        self.used[setting] += judged
        shown = self.shown[setting]
        about = {"leak": shown.leak, "relative": shown.relative}
        return _candidate(setting, seen, judged, result, **about), result

    def recorded(self, config: MembershipConfig) -> AuditResult:
        """Return the record of a run whose trainings are in the store."""
        started, clock = datetime.now(UTC), time.perf_counter()
        executor = Executor(self.pool, _Part(self.progress), self.store)
        return measured(replace(self.plan, config=config), executor).record(started, clock)

    def afresh(self, setting: int, candidates: int) -> MembershipConfig:
        """Return the config of a run with targets of its own, for gates by an interval.

        Args:
            setting: its place.
            candidates: how many settings are listed.
        """
        config = self.tuned.with_setting(self.settings[setting])
        alpha = (1 - config.audit.confidence) / candidates
        audit = config.audit.model_copy(update={"confidence": 1 - alpha})
        config = config.model_copy(
            update={"audit": audit, "seed": self.fresh_seed(setting, "judged")}
        )
        table, next_gates = config.membership, [g for g in config.gate if g.of in NEXT]
        needed = table.trainings
        if next_gates:
            free = left_for_next(config, Plan(config).family)
            needed = max(needed, trainings_for(draws_needed(0, max(free, 1e-6)), table.calibrating))
        table = table.model_copy(update={"trainings": needed})
        return config.model_copy(update={"membership": table})

    def judge_afresh(
        self, setting: int, candidates: int, left: int, folder: RunFolder
    ) -> tuple[CandidateRecord, AuditResult | None]:
        """Judge a setting by a run of its own, for gates by an interval.

        Args:
            setting: its place.
            candidates: how many settings are listed.
            left: how many trainings there are for it.
            folder: keeps the run.
        """
        config = self.afresh(setting, candidates)
        needed = config.membership.trainings
        if needed > left:
            return _unjudged(setting, 0, needed, left), None
        self.used[setting] += needed
        plan = Plan(config, folder, allow_code=True, ratings=self.ratings)
        result = run(plan, self.pool.workers, _Part(self.progress))
        judged = needed - config.membership.calibrating_trainings
        return _candidate(setting, needed - judged, judged, result), result

    def judging(self, order: Sequence[int]) -> int:
        """Return how many trainings a run takes that judges one of so many listed settings."""
        return self.afresh(order[0], len(order)).membership.trainings

    @cached_property
    def more(self) -> int:
        """How many trainings one candidate takes beside `judged` new ones, if a run judges it."""
        if not self.intervals:
            return 0
        return self.judging([0]) - self.judged

    def fresh_seed(self, setting: int, purpose: str) -> int:
        """Return a seed of no training of the search, another one for each purpose."""
        key = f"tune {purpose} {self.settings[setting].key}"
        return int(generator((self.config.seed,), key).integers(2**63))

    def prices(self, chosen: int) -> list[Price]:
        """Return the utility of a setting beside the unchanged one, on odd folds, and by group.

        The interval is that of the ratio by leaving out one fold after the other (jackknife, Efron
        & Stein 1981, doi:10.1214/aos/1176345462), by Student's law, on a logarithmic scale. Folds
        have different users, so it is about the users, and the trainings at hand.
        """
        from scipy.stats import t

        name = self.tuned.tune.utility
        surveys = [self.survey(one, self.used[one]) for one in (chosen, 0)]
        folds = np.array([_odd(survey, name) for survey in surveys])
        folds = folds[:, np.isfinite(folds).all(0)]
        count = folds.shape[1]
        if count < 2 or (folds.sum(1) <= 0).any():
            return []
        means = folds.mean(1)
        without = np.log((folds.sum(1, keepdims=True) - folds) / (count - 1))
        ratios = without[0] - without[1]
        error = math.sqrt((count - 1) / count * float(((ratios - ratios.mean()) ** 2).sum()))
        away = float(t.isf(_ALPHA / 2, count - 1)) * error
        ratio = float(means[0] / means[1])
        ends = {"lower": ratio * math.exp(-away), "upper": ratio * math.exp(away)}
        prices = [Price(chosen=float(means[0]), unchanged=float(means[1]), **ends)]
        both = [survey.by_group() for survey in surveys]
        for group in both[0]:
            one, other = (float(np.nanmean(shown[group])) for shown in both)
            if math.isfinite(one) and other > 0:
                prices.append(Price(group=group, chosen=one, unchanged=other))
        return prices


def _unjudged(setting: int, seen: int, needed: int, left: int) -> CandidateRecord:
    reason = f"it takes {needed} new trainings, and {left} were left"
    fate: Fate = "no trainings left"
    return CandidateRecord(setting=setting, fate=fate, seen=seen, judged=0, reason=reason)


def _candidate(
    setting: int, seen: int, judged: int, result: AuditResult, **about: Any
) -> CandidateRecord:
    open_ = [gate for gate in result.gates if gate.outcome != "pass"]
    open_.sort(key=lambda gate: gate.outcome != "fail")
    return CandidateRecord(
        setting=setting,
        fate="go" if result.outcome == "go" else "undecided",
        seen=seen,
        judged=judged,
        **about,
        reason=f"{open_[0].reason} (gate {open_[0].rule})" if open_ else "",
        outcome=result.outcome,
    )


def over(leaks: Sequence[Leak]) -> tuple[float, ...]:
    """Return in each training the largest number in units of its limit."""
    return tuple(map(max, zip(*(leak.relative for leak in leaks), strict=True)))


def _trained(leaks: Sequence[Leak], utility: float) -> Trained:
    """Return what trainings show, by their numbers that gates limit."""
    steady, others = (
        over([leak for leak in leaks if leak.utility is useful]) for useful in (True, False)
    )
    return Trained(others, utility, len(leaks[0].values), steady)


def furthest(leaks: Sequence[Leak]) -> Leak:
    """Return what leaks furthest beyond its limit in the mean."""
    return max(leaks, key=lambda leak: (not leak.utility and not leak.lower, leak.over))


def _joined(first: Sequence[Leak], second: Sequence[Leak]) -> list[Leak]:
    if not first:
        return list(second)
    return [
        one.model_copy(update={"values": one.values + other.values})
        for one, other in zip(first, second, strict=True)
    ]


def _even(survey: Survey, metric: str) -> np.ndarray:
    """Return a utility on the held-out interactions of the search, in each training `(T,)`."""
    folds = survey.utility(metric.rpartition(".")[2])[:, ::2]
    means: np.ndarray = _means(folds, 1)
    return means


def _odd(survey: Survey, metric: str) -> np.ndarray:
    """Return a utility in each fold that the search leaves, the mean over trainings `(10,)`."""
    return _means(survey.utility(metric.rpartition(".")[2])[:, 1::2], 0)


def _means(folds: np.ndarray, axis: int) -> np.ndarray:
    """Return means over the folds, or trainings, that have a number; NaN without any."""
    counts = np.isfinite(folds).sum(axis)
    sums = np.nansum(folds, axis)
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


def worth(metric: str, utility: Sequence[float]) -> float:
    """Return the mean utility, larger for better; no model has none."""
    mean = float(np.mean(utility))
    if not math.isfinite(mean):
        return -math.inf
    return mean if entry(metric).larger == "better" else 1 / max(mean, 1e-12)
