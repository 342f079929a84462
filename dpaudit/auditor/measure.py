"""What all measures of a run share: its context, what is audited, their base class, and records."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from dpaudit.config.gate import NEXT, Gate
from dpaudit.config.model import Table
from dpaudit.config.schema import Config
from dpaudit.core.estimate import Estimate
from dpaudit.core.plugin import Plugin
from dpaudit.data.ratings import Ratings, Scale
from dpaudit.defenses.base import Defense
from dpaudit.execution.executor import Executor, UnfinishedError
from dpaudit.execution.tasks import Progress
from dpaudit.record import result as records
from dpaudit.record.metrics import entry, field_names, table

T = TypeVar("T")
C = TypeVar("C", bound=Config)
M = TypeVar("M")


@dataclass(frozen=True)
class Context(Generic[C]):
    """Inputs that all measures of a run share.

    Attributes:
        config: the checked config.
        family: the family-wise confidence and the level of each joint interval.
        executor: runs the tasks; the results do not depend on it.
        waiting: the stages that need results of other shards.
    """

    config: C
    family: records.Family
    executor: Executor
    waiting: list[str] = field(default_factory=list)

    @property
    def seed(self) -> int:
        """Seed of every random stream."""
        return self.config.seed

    @property
    def progress(self) -> Progress:
        """Receives progress reports."""
        return self.executor.progress

    def tasks(
        self, stage: str, *tables: BaseModel, of: Sequence[Any] = (), controlled: bool = False
    ) -> Executor:
        """Return the executor of a stage, whose results depend on these inputs.

        Data, seed and code are not named, as a store holds the results of one of each. Nor are
        numbers of trials: the trials' indices identify a task, so more trials extend a run. Nor is
        what only judges results.

        Args:
            stage: the words under which its results are listed.
            tables: the repeatable tables of the config that this stage reads. It may read all
                other tables, but for what only judges.
            of: other values that decide its results, by their `repr`.
            controlled: whether positive controls run the stage again on mutants.
        """
        settings = map(_settings, (_config_read(self.config), *map(_read, tables)))
        return self.executor.within(stage, *settings, *map(repr, of), controlled=controlled)

    def unit(self, stage: str, measured: Callable[[], Iterable[T]]) -> list[T]:
        """Return what a stage of a measure yields; nothing if it needs results of other shards."""
        self.progress.stage(stage)
        try:
            return list(measured())
        except UnfinishedError:
            self.waiting.append(stage)
            return []


# Numbers of trials: their indices identify a task.
_COUNTS = ("trials", "trainings")


def without_counts(table: dict[str, Any]) -> dict[str, Any]:
    """Return a table, and those in it but for parameters, without numbers of trials."""
    none = dict.fromkeys(_COUNTS)
    kept = {
        name: {**value, **none} if isinstance(value, dict) and name != "params" else value
        for name, value in table.items()
    }
    return {**kept, **none}


def judging(config: Config) -> dict[str, frozenset[str]]:
    """Return the keys of each table of a config that judge results, and decide none."""
    keys = {}
    for name in type(config).model_fields:
        value = getattr(config, name)
        tables = value if isinstance(value, list) else [value]
        judging_keys = (table.judging for table in tables if isinstance(table, Table))
        keys[name] = frozenset[str]().union(*judging_keys)
    return {name: here for name, here in keys.items() if here}


def _config_read(config: Config) -> dict[str, Any]:
    """Return what tasks may read of a config: no repeatable table, and nothing that judges."""
    exclude: dict[str, Any] = {name: set(keys) for name, keys in judging(config).items()}
    exclude |= dict.fromkeys(("seed", "keep_seed", *config.judging), True)
    tables = config.model_dump(mode="json", exclude=exclude)
    return {name: value for name, value in tables.items() if not isinstance(value, list)}


def _read(table: BaseModel) -> dict[str, Any]:
    """Return what tasks may read of a table of the config."""
    unread = set(table.judging) if isinstance(table, Table) else set()
    return table.model_dump(mode="json", exclude=unread)


def _settings(table: dict[str, Any]) -> str:
    return json.dumps(without_counts(table), sort_keys=True)


class Audited(Protocol):
    """One model of a run, at all its values of ε."""

    @property
    def label(self) -> str:
        """The model's label."""

    @property
    def defenses(self) -> Sequence[Any]:
        """The recommender at each ε."""

    def record(self) -> records.ModelRecord:
        """Return the part of the model's record that is the same at every ε."""

    def points(self) -> list[records.PointRecord]:
        """Return the model's record at each ε."""


class Subject(ABC, Generic[C]):
    """What is audited: the data, what is prepared from them, and the models.

    Attributes:
        context: inputs that the measures share.
    """

    context: Context[C]

    @classmethod
    @abstractmethod
    def of(cls, context: Context[C], ratings: Ratings | None) -> Self:
        """Check that the config fits the data, and prepare what all models share.

        Args:
            context: inputs that the measures share.
            ratings: the data; None for a black-box mechanism.

        Raises:
            DataError: there are too few data.
            ConfigError: a model does not fit the data, or a game its claim.
        """

    @abstractmethod
    def trials(self) -> int:
        """Return the number of trials that the progress counts."""

    @abstractmethod
    def models(self) -> Iterator[Audited]:
        """Yield the models in the order of the config, each prepared on demand."""

    @abstractmethod
    def data(self) -> records.DataRecord | None:
        """Return the sizes of the audited data; None for a black-box mechanism."""

    def settings(self) -> dict[str, Any]:
        """Return the config as it is recorded."""
        return self.context.config.recorded().model_dump(mode="json")

    @abstractmethod
    def attacks(self) -> Mapping[str, dict[str, Any]]:
        """Return the attacks by label, with their parameters."""

    def sybil_attacks(self) -> Mapping[str, dict[str, Any]]:
        """Return the Sybil attacks by label, with their parameters."""
        return {}


RecordPart = records.Measurement | records.PairRecord | records.FindingRecord


@dataclass(init=False)
class MetricKey:
    """The key of a number that a run emits.

    A metric that cannot gate has one key for all numbers that the run may emit at a point.

    Attributes:
        metric: the metric.
        model: the model's label.
        epsilon: the ε of the sweep.
        fields: the fields of the metric that are known beforehand, by name.
        traits: the names of the model's traits, such as a deletion, that decide which gates
            judge it.
        joint: whether its interval holds jointly with all others, so that it may gate; never if
            the metric may not gate.
        census: whether each training has the number, so that gates may judge trainings one by one.
    """

    metric: str
    model: str
    epsilon: float
    fields: dict[str, Any]
    traits: frozenset[str]
    joint: bool
    census: bool

    def __init__(
        self,
        metric: str,
        model: str,
        epsilon: float,
        *,
        traits: Collection[str] = (),
        joint: bool = True,
        census: bool = False,
        **fields: Any,
    ) -> None:
        """Create the key of a number with these fields; None is a field that is not known yet."""
        self.metric, self.model, self.epsilon = metric, model, epsilon
        self.traits, self.census = frozenset(traits), census
        # A number of a metric that may not gate stands by itself.
        self.joint = joint and entry(metric).gateable
        self.fields = {name: value for name, value in fields.items() if value is not None}
        described = entry(metric)
        foreign = self.fields.keys() - {field.name for field in described.known}
        if foreign and described.described:
            raise TypeError(f"{metric} has no field {min(foreign)!r}")

    def __hash__(self) -> int:
        """Return a hash of what identifies its point."""
        return hash((self.metric, self.model, self.epsilon))

    def __getattr__(self, name: str) -> Any:
        """Return a field; None if it is not known yet, or only other metrics have it."""
        if name in field_names():
            return self.fields.get(name)
        raise AttributeError(f"the key of a number has no {name!r}")

    def changed(self, **changes: Any) -> Self:
        """Return the key with other fields or attributes."""
        own = {name: value for name, value in vars(self).items() if name != "fields"}
        return type(self)(**{**own, **self.fields, **changes})

    @property
    def picked_by(self) -> dict[str, Any]:
        """What gates pick it by: its metric, model, ε and fields."""
        return {
            "metric": self.metric, "model": self.model, "epsilon": self.epsilon, **self.fields
        }  # fmt: skip

    @property
    def counted(self) -> bool:
        """Whether the interval is one of the family that shares the run's error probability."""
        return self.joint and not entry(self.metric).derived

    def measured(
        self, estimate: Estimate, *, detail: str | None = None, **fields: Any
    ) -> records.Measurement:
        """Return the measurement of this number.

        Args:
            estimate: the number.
            detail: the value of the field that the metric names for it.
            fields: what else is recorded of it, and fields of the key that it leaves open.
        """
        name = entry(self.metric).detail
        if detail is not None and name is not None:
            fields[name] = detail
        return records.Measurement(estimate=estimate, **{**self.picked_by, **fields})


class Measure(ABC, Generic[C, M]):
    """A measure that is applied to every model of a run.

    It is constructed from the audited `Subject` and lives for one run. Each number has a key:
    `plan` yields it before the run, and `run` the measurement that the key makes of an estimate. A
    package adds a measure under the entry point group `dpaudit.measures`.

    Attributes:
        subject: what is audited.
        context: inputs that the measures share.
        audit: the kind of audit to which a measure of another package belongs, by its name
            (`dpaudit list audits`).
    """

    audit: ClassVar[str] = ""

    def __init__(self, subject: Any) -> None:
        """Keep what is audited; a measure may prepare more that its models share."""
        self.subject, self.context = subject, subject.context

    @classmethod
    @abstractmethod
    def plan(cls, config: C) -> Iterator[MetricKey]:
        """Yield the keys that the measure emits for this config, before the data are read."""

    @abstractmethod
    def run(self, model: M) -> Iterator[RecordPart]:
        """Measure one model at all its values of ε."""

    def compared(self) -> Iterator[records.Measurement]:
        """Yield comparisons between models, after all have run."""
        yield from ()


def metric_of(group: str, kind: str) -> str:
    """Return the metric named `group.kind`.

    Raises:
        ValueError: there is no such metric.
    """
    name = f"{group}.{kind}"
    if name not in table():
        raise ValueError(f"there is no metric {name!r}")
    return name


def gated(config: Config, *metrics: str) -> bool:
    """Return whether a gate names one of the metrics.

    Numbers that are seldom judged have joint intervals only then, as each widens all others.
    """
    return any(gate.metric in metrics for gate in config.gate)


def picking(config: Config, key: MetricKey) -> list[Gate]:
    """Return the gates that judge a number; a gate on a model's leak judges its advantages."""
    keys = [key]
    if key.metric == "attack.advantage":
        keys.append(key.changed(metric="leak"))
    return [g for g in config.gate if any(g.picks(one.picked_by, one.traits) for one in keys)]


def of_trainings(config: Config, key: MetricKey) -> list[MetricKey]:
    """Return the keys of a number that each training has, one for each statement about it.

    The first is about the next training. Others are there if a gate names them: two gates that
    state other things never share an interval. The mean is joint if a gate judges it.
    """
    known = {field.name for field in entry(key.metric).known}
    abouts = {(None if gate.of in NEXT else gate.of, gate.attacker) for gate in config.gate}
    others = (
        key.changed(statement=statement, attacker=attacker, joint=statement == "average")
        for statement, attacker in sorted(abouts - {(None, None)}, key=str)
        if attacker is None or "attacker" in known
    )
    base = key.changed(joint=False, census=True)
    return [base, *(one.changed(census=True) for one in others if picking(config, one))]


def judged_bases(config: Config, metric: str) -> set[str]:
    """Return the bases of a metric that gates of the config name; only these are joint."""
    return {gate.wanted["basis"] for gate in config.gate if gate.metric == metric}


def points(config: Config) -> Iterator[tuple[str, float]]:
    """Yield the label and ε of every point of the sweep."""
    for model in config.audited:
        for epsilon in model.epsilon:
            yield model.label, epsilon


# The fewest users whose quantiles are recorded.
_FEWEST = 20


def data_record(ratings: Ratings, train: Ratings, *, attacked: int) -> records.DataRecord:
    """Record the sizes of the data and of its two groups of users: trained on, and attacked."""
    scale = ratings.scale
    counts = np.diff(train.by_user.start)
    counts = counts[counts > 0]
    return records.DataRecord(
        digest=ratings.digest,
        users=ratings.n_users,
        items=ratings.n_items,
        ratings=len(ratings),
        scale=(scale.minimum, scale.maximum, scale.step),
        trained=len(counts),
        attacked=attacked,
        links=None if ratings.friends is None else len(ratings.friends),
        sensitive=None if ratings.sensitive is None else int(ratings.sensitive.sum()),
        repairs={repair.what: repair.count for repair in ratings.repairs},
        per_user=_quantiles(counts),
    )


def _quantiles(counts: NDArray[np.int64]) -> tuple[int, int] | None:
    """Return the median and the 90 % quantile of users' numbers of ratings."""
    if len(counts) < _FEWEST:
        return None
    median, high = np.quantile(counts, (0.5, 0.9), method="inverted_cdf")
    return int(median), int(high)


def model_record(label: str, defense: Defense) -> records.ModelRecord:
    """Record a recommender with its hyper-parameters, without its ε."""
    return records.ModelRecord(
        label=label,
        defense=defense.name,
        title=defense.title,
        variant=defense.variant,
        source=defense.source,
        params={key: value for key, value in _parameters(defense).items() if key != "epsilon"},
        top_k=defense.list_length(),
    )


def point_record(label: str, defense: Defense, scale: Scale) -> records.PointRecord:
    """Record a recommender at its ε; sensitivity and scale are None without prediction noise."""
    claim, noise = defense.claim(), defense.noise_of_predictions(scale)
    return records.PointRecord(
        model=label,
        epsilon=defense.epsilon,
        sensitivity=noise.sensitivity if noise else None,
        noise_scale=noise.scale if noise else None,
        claim=claim and records.ClaimRecord(**asdict(claim)),
    )


def attack_record(attack: Plugin) -> dict[str, Any]:
    """Record an attack with its parameters."""
    return {
        "name": attack.name,
        "title": attack.title,
        "source": attack.source,
        **_parameters(attack),
    }


def _parameters(plugin: Any) -> dict[str, Any]:
    return asdict(plugin)
