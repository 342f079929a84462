"""What all measures of a run share, and what is audited."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, Self

from dpaudit.auditor.progress import Progress
from dpaudit.config.schema import Config
from dpaudit.data.ratings import Ratings
from dpaudit.record.result import DataRecord, Family, ModelRecord, PointRecord


@dataclass(frozen=True)
class Context:
    """What all measures of a run share.

    Attributes:
        config: the config as checked.
        family: the level of each interval that holds together with the others.
        threads: number of threads; the numbers do not depend on it.
        progress: told what is being done.
    """

    config: Config
    family: Family
    threads: int
    progress: Progress

    @property
    def seed(self) -> int:
        """Decides every stream."""
        return self.config.seed


class Audited(Protocol):
    """One model of a run at all its ε."""

    @property
    def label(self) -> str:
        """The model's label."""
        ...

    @property
    def defenses(self) -> Sequence[Any]:
        """The recommender at each ε."""
        ...

    def record(self) -> ModelRecord:
        """The model, whatever its ε."""
        ...

    def points(self) -> list[PointRecord]:
        """The model at each ε."""
        ...


class Subject(ABC):
    """What is audited: the data with what is prepared of them, and the models.

    Attributes:
        context: what the measures share.
        one_thread: whether linear algebra has to keep to one thread. Trainings share the threads:
            those of linear algebra would only wait for one another, and add sums in another order.
    """

    one_thread: ClassVar[bool] = False
    context: Context

    @classmethod
    @abstractmethod
    def of(cls, context: Context, ratings: Ratings | None) -> Self:
        """Check that the config fits the data, and prepare what all models share.

        Args:
            context: what the measures share.
            ratings: the data; None where a mechanism's outputs alone are seen.

        Raises:
            DataError: the data are too few.
            ConfigError: a model does not fit the data, or a game its claim.
        """

    @abstractmethod
    def trials(self) -> int:
        """The number of trials that the progress counts."""

    @abstractmethod
    def models(self) -> Iterator[Audited]:
        """The models in the order of the config, each prepared when it is asked for."""

    @abstractmethod
    def data(self) -> DataRecord | None:
        """The audited data in numbers; None where outputs alone are seen."""

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """The config as it stands in the record."""

    @abstractmethod
    def attacks(self) -> Mapping[str, dict[str, Any]]:
        """The attacks by label, with their parameters."""

    def campaigns(self) -> Mapping[str, dict[str, Any]]:
        """The Sybil attacks by label, with their parameters."""
        return {}
