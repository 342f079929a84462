"""The context that all measures of a run share, and the base class of what is audited."""

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
    """Inputs that all measures of a run share.

    Attributes:
        config: the checked config.
        family: the family-wise confidence and the level of each joint interval.
        threads: number of threads; the results do not depend on it.
        progress: receives progress reports.
    """

    config: Config
    family: Family
    threads: int
    progress: Progress

    @property
    def seed(self) -> int:
        """Seed of every random stream."""
        return self.config.seed


class Audited(Protocol):
    """One model of a run, at all its values of ε."""

    @property
    def label(self) -> str:
        """The model's label."""
        ...

    @property
    def defenses(self) -> Sequence[Any]:
        """The recommender at each ε."""
        ...

    def record(self) -> ModelRecord:
        """Return the part of the model's record that is the same at every ε."""
        ...

    def points(self) -> list[PointRecord]:
        """Return the model's record at each ε."""
        ...


class Subject(ABC):
    """What is audited: the data, what is prepared from them, and the models.

    Attributes:
        context: inputs that the measures share.
        one_thread: whether linear algebra must run on one thread. Trainings already use all
            threads; further threads of linear algebra would only wait, and would change the order
            of summation.
    """

    one_thread: ClassVar[bool] = False
    context: Context

    @classmethod
    @abstractmethod
    def of(cls, context: Context, ratings: Ratings | None) -> Self:
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

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """Return the config as it is recorded."""

    @abstractmethod
    def attacks(self) -> Mapping[str, dict[str, Any]]:
        """Return the attacks by label, with their parameters."""

    def sybil_attacks(self) -> Mapping[str, dict[str, Any]]:
        """Return the Sybil attacks by label, with their parameters."""
        return {}
