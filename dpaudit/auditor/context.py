"""The context that all measures of a run share, and the base class of what is audited."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, Self, TypeVar

from pydantic import BaseModel

from dpaudit.config.model import Table
from dpaudit.config.schema import Config
from dpaudit.data.ratings import Ratings
from dpaudit.execution.executor import Executor, UnfinishedError
from dpaudit.execution.tasks import Progress
from dpaudit.record.result import DataRecord, Family, ModelRecord, PointRecord

T = TypeVar("T")
C = TypeVar("C", bound=Config)


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
    family: Family
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

    def record(self) -> ModelRecord:
        """Return the part of the model's record that is the same at every ε."""

    def points(self) -> list[PointRecord]:
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
    def data(self) -> DataRecord | None:
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
