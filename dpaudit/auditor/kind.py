"""What a kind of audit offers: its config, what it audits, measures and reports."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, ClassVar, cast

from dpaudit.auditor.gate import Trainings
from dpaudit.auditor.measure import Measure, Subject
from dpaudit.config.gate import Gate
from dpaudit.config.schema import Audit, Config
from dpaudit.config.tables import Game
from dpaudit.core import registry
from dpaudit.execution.sampling import Cost
from dpaudit.record.metrics import entry
from dpaudit.record.result import AuditResult, Measurement

if TYPE_CHECKING:
    from dpaudit.reports.sections.base import Sections


@dataclass(frozen=True)
class Forecast:
    """What one game at one ε can detect.

    Attributes:
        model: the model's label.
        pair: the game's pair.
        claimed: the claimed ε.
        trials: trials of both data sets together.
        detectable: an optimistic forecast: the least true ε that is found to exceed the claim with
            95 % power, if the pair shows the violation in an event that half of the outputs fall
            into. A run measures its power on mutants instead.
        needed: number of trials needed to detect a violation by the given factor; infinite if the
            pair cannot show it or more than 1e9 are needed, None if no factor is given.
        seconds: approximate duration of the game.
    """

    model: str
    pair: str
    claimed: float
    trials: int
    detectable: float
    needed: float | None
    seconds: float


class AuditKind(ABC):
    """A kind of audit, registered under `dpaudit.audits`; its heavy parts are imported on demand.

    Attributes:
        name: its name in the registry.
        config: its config.
        words: what messages call what it audits; its title if empty.
        samples: the key of its config that narrows intervals, if it has one for most metrics.
        games: the key that narrows those of its distinguishing games.
    """

    name: ClassVar[str]
    config: ClassVar[type[Config]]
    words: ClassVar[str] = ""
    samples: ClassVar[str] = "trials"
    games: ClassVar[str] = "game.trials"

    def __init__(self) -> None:
        """Refuse a kind that says too little to be registered."""
        kind = type(self)
        for attribute in ("name", "config"):
            if not hasattr(kind, attribute):
                raise TypeError(f"{kind.__name__} has no {attribute}")
        marks = getattr(kind.config, "marks", None)
        if not isinstance(kind.config, type) or not isinstance(marks, frozenset):
            raise TypeError(f"{kind.__name__}.config needs to be a Config whose marks are frozen")

    @property
    def title(self) -> str:
        """What is audited, in one line."""
        return self.config.title

    @property
    def names(self) -> set[str]:
        """Its name, with those of the kinds whose audits it extends."""
        return {vars(kind)["name"] for kind in type(self).__mro__ if "name" in vars(kind)}

    @abstractmethod
    def subject(self) -> type[Subject[Any]]:
        """Return the class of what is audited."""

    @abstractmethod
    def measures(self) -> Sequence[type[Measure[Any, Any]]]:
        """Return the measures of each model, in the order in which they run."""

    def sections(self) -> type[Sections]:
        """Return what reports show of its records; by default, what the metrics describe."""
        from dpaudit.reports.sections.base import Sections

        return Sections

    def remedy(self, number: Measurement) -> str:
        """Say what decides a number whose interval is too wide, or whose game finds no control.

        Gates, reports and the next step say it alike, as all have it from here.

        Args:
            number: the number.
        """
        key = self.games if number.pair else entry(number.metric).samples or self.samples
        other = ", or a pair that shows more" if number.metric == "epsilon" else ""
        return f"use more {key}{other}"

    def trainings(self, result: AuditResult, gates: Sequence[Gate]) -> Trainings:
        """Return what judges numbers that each of several trainings has; by default nothing does.

        Args:
            result: the record.
            gates: the gates to judge.
        """
        return Trainings()

    def about(self, result: AuditResult, number: Measurement) -> dict[str, Any]:
        """Return what a number is about besides data, seed and model, by tables of the config.

        Two runs are compared by it only if all of this is equal. By default it is all of the config
        but the models, what judges and reports, attacks and games other than the number's own, and
        the number of trials: it narrows an interval, whose number is a mean over all that could be
        drawn. The lists that utility is about are as long as the model shows.

        Args:
            result: the record, perhaps of an older version that has other keys.
            number: one of its numbers.
        """
        metric = entry(number.metric)
        apart = {"seed", "keep_seed", "data", "attack", "sybil", *Config.judging}
        facts = without(result.config, *apart, *self.config.differing)
        facts["audit"] = without(facts.get("audit"), *Audit.judging)
        games = [
            without(table, *Game.judging)
            for table in listed(facts.get("game"))
            if number.pair in (table.get("pair"), f"{table.get('pair')} ({table.get('observe')})")
        ]
        facts["game"] = {number.pair: games}
        attacks = result.attacks if number.effort is None else result.sybil_attacks
        attack = without(attacks.get(number.attack or ""), "title", "source")
        table, _, key = (metric.samples or self.samples).partition(".")
        if key:
            facts[table] = without(facts.get(table), key)
            attack = without(attack, key if table == "sybil" else "")
        facts["attack"] = {number.attack: attack}
        if number.metric == "epsilon":
            at = {(point.model, point.epsilon): point.claim for point in result.points}
            claim = at.get((number.model, number.epsilon))
            facts["delta"] = claim and claim.delta
        if metric.role == "utility" and metric.unit == "share":
            facts["top_k"] = [m.top_k for m in result.models if m.label == number.model]
        return facts

    def forecast(
        self, config: Any, *, factor: float | None = None, minutes: float | None = None
    ) -> Sequence[Forecast]:
        """Forecast what each game at each claimed ε can detect; empty if the kind cannot.

        Args:
            config: a checked config of the kind.
            factor: the violation to detect, as a multiple of the claim.
            minutes: total time for all games, instead of their numbers of trials.

        Raises:
            ConfigError: the mechanism is planned without its config; names the command.
            InputError: `factor` or `minutes` is out of range.
        """
        return ()

    def decisions(self, config: Any) -> Iterable[str]:
        """Say what the trials or trainings of a config can decide of its gates; empty if unknown.

        Args:
            config: a checked config of the kind.
        """
        return ()

    def cost(self, config: Any, sampled: Callable[[], Cost]) -> Cost:
        """Estimate what a run costs, by default from the first task of each stage.

        Args:
            config: a checked config of the kind.
            sampled: reads the data, prepares the models, and runs the first task of each stage.

        Raises:
            ConfigError: the cost cannot be estimated; names the remedy.
        """
        return sampled()


class NamedKind(AuditKind):
    """A kind whose parts are named, as `package.module:Name`, and imported when they are asked for.

    Attributes:
        audited: the class of what is audited.
        measured: the measures of each model, in the order in which they run.
        shown: what reports show of its records.
    """

    audited: ClassVar[str]
    measured: ClassVar[Sequence[str]]
    shown: ClassVar[str] = "dpaudit.reports.sections.base:Sections"

    def subject(self) -> type[Subject[Any]]:
        """Return the class of what is audited."""
        return cast(type[Subject[Any]], resolve_name(self.audited))

    def measures(self) -> Sequence[type[Measure[Any, Any]]]:
        """Return the measures of each model."""
        return [resolve_name(name) for name in self.measured]

    def sections(self) -> type[Sections]:
        """Return what reports show of its records."""
        return cast("type[Sections]", resolve_name(self.shown))


def without(table: Any, *keys: str) -> dict[str, Any]:
    """Return a table of a recorded config without some keys; an empty one if there is none."""
    whole = table if isinstance(table, Mapping) else {}
    return {name: value for name, value in whole.items() if name not in keys}


def listed(tables: Any) -> list[dict[str, Any]]:
    """Return the repeated tables of a recorded config; none if there are none."""
    return [without(table) for table in tables] if isinstance(tables, list) else []


def kind_of(config: Config) -> AuditKind:
    """Return the kind of audit that a config is of.

    Raises:
        TypeError: no registered kind has this class of config.
    """
    for kind in registry.every("audits").values():
        if kind.config is type(config):
            return cast(AuditKind, kind)
    raise TypeError(
        f"{type(config).__name__} is the config of no registered kind of audit: make one by "
        "Config.model_validate, or register the kind under dpaudit.audits"
    )
