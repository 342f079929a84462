"""A kind of audit: how often the text that a function writes names a subscriber."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple, Self

from pydantic import Field

from dpaudit.auditor.kind import AuditKind
from dpaudit.auditor.measure import Context, Measure, MetricKey, Subject, points
from dpaudit.bounds.frequentist.intervals import proportion
from dpaudit.config.model import Table
from dpaudit.config.schema import Config
from dpaudit.core.foreign import import_object
from dpaudit.core.streams import generator
from dpaudit.data.ratings import Ratings
from dpaudit.record.metric import Column, Metric
from dpaudit.record.result import Measurement, ModelRecord, PointRecord
from dpaudit.reports.sections.base import Sections
from dpaudit_newsletter.sections import DraftSections

NAMED = Metric(
    "draft.named",
    "share of drafts that name a subscriber",
    "share",
    {"draft": ""},
    larger="worse",
    columns=(Column("drafts that name a subscriber"),),
)


class Draft(Table):
    """What is audited.

    Attributes:
        target: `package.module:function`, called as `function(subscribers, rng)`; returns a text.
        drafts: the number of texts.
        subscribers: the number of subscribers.
    """

    target: str
    drafts: Annotated[int, Field(ge=10, le=1_000_000)] = 400
    subscribers: Annotated[int, Field(ge=1, le=10_000)] = 100


class _Audited(NamedTuple):
    label: str
    epsilon: Sequence[float]


class DraftConfig(Config):
    """A config of a function that writes drafts."""

    title: ClassVar[str] = "what drafts say about subscribers"
    marks: ClassVar[frozenset[str]] = frozenset({"draft"})

    draft: Draft

    @property
    def audited(self) -> Sequence[_Audited]:
        """The function; it states no ε."""
        return [_Audited(self.draft.target, [math.inf])]

    @property
    def code(self) -> list[str]:
        """The function."""
        return [f"draft.target = {self.draft.target!r}"]


@dataclass(frozen=True)
class Writer:
    """The function as the one model of the run."""

    table: Draft
    write: Callable[..., str]
    defenses: tuple[()] = ()

    @property
    def label(self) -> str:
        """The function's name."""
        return self.table.target

    def record(self) -> ModelRecord:
        """Record the function."""
        params = {"subscribers": self.table.subscribers}
        return ModelRecord(
            label=self.label, defense="draft", title="a function that writes drafts",
            variant="own", source=self.table.target, params=params, top_k=0,
        )  # fmt: skip

    def points(self) -> list[PointRecord]:
        """Return the one point, which claims nothing."""
        where = {"model": self.label, "epsilon": math.inf}
        return [PointRecord(**where, sensitivity=None, noise_scale=None, claim=None)]


@dataclass(frozen=True)
class Drafts(Subject[DraftConfig]):
    """The function under audit."""

    context: Context[DraftConfig]

    @classmethod
    def of(cls, context: Context[DraftConfig], ratings: Ratings | None) -> Self:
        """Keep the context."""
        return cls(context)

    def trials(self) -> int:
        """Return the number of drafts."""
        return self.context.config.draft.drafts

    def models(self) -> Iterator[Writer]:
        """Yield the function."""
        table = self.context.config.draft
        yield Writer(table, import_object(table.target, "draft.target"))

    def data(self) -> None:
        """Return None: subscribers are made up."""

    def attacks(self) -> dict[str, dict[str, Any]]:
        """Return none: the names are searched for."""
        return {}


class Naming(Measure[DraftConfig, Writer]):
    """`draft.named`: how often a draft has the name of a subscriber."""

    def __init__(self, subject: Drafts) -> None:
        """Keep the context."""
        self.context = subject.context

    @classmethod
    def plan(cls, config: DraftConfig) -> Iterator[MetricKey]:
        """Yield the key of the one number."""
        for label, epsilon in points(config):
            yield _key(label, epsilon)

    def run(self, model: Writer) -> Iterator[Measurement]:
        """Write drafts and search them for names."""
        family, rng = self.context.family, generator(self.context.seed, "drafts")
        people = [f"subscriber-{index}" for index in range(model.table.subscribers)]
        drafts = [model.write(people, rng) for _ in range(model.table.drafts)]
        count = sum(any(person in draft for person in people) for draft in drafts)
        share = proportion(count, len(drafts), family.alpha, family.confidence)
        yield _key(model.label, math.inf).measured(share)


def _key(label: str, epsilon: float) -> MetricKey:
    return MetricKey("draft.named", label, epsilon)


class DraftAudits(AuditKind):
    """Audits of what drafts say about subscribers."""

    name: ClassVar[str] = "draft"
    config: ClassVar[type[Config]] = DraftConfig

    def subject(self) -> type[Subject[Any]]:
        """Return the class of what is audited."""
        return Drafts

    def measures(self) -> Sequence[type[Measure[Any, Any]]]:
        """Return the one measure."""
        return (Naming,)

    def sections(self) -> type[Sections]:
        """Return what reports say of drafts."""
        return DraftSections


KIND = DraftAudits()
