"""What a run is: its config, the numbers that it emits, and what follows from these beforehand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

from dpaudit.auditor.folder import RunFolder, identity, resumed
from dpaudit.auditor.gate import identifier
from dpaudit.auditor.judgement import check_ids
from dpaudit.auditor.kind import AuditKind, kind_of
from dpaudit.auditor.measure import NEXT, Measure, MetricKey, picked
from dpaudit.config.gate import Gate, rated
from dpaudit.config.schema import Config
from dpaudit.core import registry
from dpaudit.core.errors import ConfigError, DataError
from dpaudit.data.ratings import Ratings
from dpaudit.data.readers.load import load
from dpaudit.execution.store import NAME, Store, opened, others_results
from dpaudit.execution.tasks import Progress
from dpaudit.record.metrics import entry
from dpaudit.record.result import Family
from dpaudit.record.verdicts import claim_id


@dataclass(frozen=True)
class Plan:
    """A run that is decided and not begun.

    Attributes:
        config: a checked config.
        folder: where results are kept, so that the same run goes on where a killed one was; None
            keeps nothing. Of a black box nothing is kept, as its calls may depend on each other.
        allow_code: whether code that the config names may be run.
        ratings: the data; None for a black box, or before they are read.
    """

    config: Config
    folder: RunFolder | None = None
    allow_code: bool = False
    ratings: Ratings | None = None

    @cached_property
    def kind(self) -> AuditKind:
        """The kind of audit."""
        return kind_of(self.config)

    @cached_property
    def measures(self) -> Sequence[type[Measure[Any, Any]]]:
        """The measures of the kind, then those that packages register for it."""
        others = registry.every("measures").values()
        return [*self.kind.measures(), *(one for one in others if one.audit in self.kind.names)]

    @cached_property
    def keys(self) -> Sequence[MetricKey]:
        """Every number that the run emits, in the order of the measures."""
        return [key for measure in self.measures for key in measure.plan(self.config)]

    @cached_property
    def family(self) -> Family:
        """The family of joint intervals, which share the error probability equally."""
        # Purchases have no errors of ratings, and the config may not reveal that a file holds some.
        has_ratings = self.ratings is None or self.ratings.scale.width > 0
        keys = [key for key in self.keys if has_ratings or not rated(key.metric)]
        trained = [key for key in keys if key.census and not entry(key.metric).derived]
        size = sum(key.counted for key in keys)
        size += sum(picked(self.config, key, "this-model") for key in trained)
        # All gates about the next training count as one.
        size += any(picked(self.config, key, *NEXT) for key in trained)
        return Family.of(self.config.audit.confidence, max(1, size))

    def check(self) -> Self:
        """Refuse gates that pick no planned number, waivers of nothing, and code without leave.

        Raises:
            ConfigError: names the gate, the waiver or the key of the code, and the remedy.
        """
        if self.config.code and not self.allow_code:
            raise ConfigError(
                f"this config would run the code named by {self.config.code[0]}: give --allow-code "
                "(allow_code=True) if you trust it"
            )
        self.check_gates()
        self.check_waivers()
        return self

    def check_named(self) -> None:
        """Refuse a config that does not say what is audited, or has gates on nothing.

        Raises:
            ConfigError: names the key and the remedy.
        """
        self.config.check_named()
        self.check_gates()

    def check_gates(self) -> None:
        """Refuse gates that pick none of the planned measurements.

        Raises:
            ConfigError: a gate picks nothing; names the gate and the remedy.
        """
        planned = self.keys if self.config.gate else []
        keys = [key for key in planned if key.joint or key.census]
        for index, gate in enumerate(self.config.gate):
            _check_gate(f"gate.{index}", gate, keys)

    def check_waivers(self, prefix: str = "") -> None:
        """Refuse waivers of what the run does not judge.

        Args:
            prefix: prefix of the message, such as the file of the waivers.

        Raises:
            ConfigError: a waiver names no claim and no gate of the run; names those that it may
                mean.
        """
        if self.config.waiver:
            claims = (claim_id(key.model, key.epsilon) for key in self.keys)
            known = {*claims, *map(identifier, self.config.gate)}
            check_ids(self.config.waiver, known, prefix)

    def replaced(self) -> str:
        """Refuse to replace another run's record in the folder, as `RunFolder.check` does."""
        return "" if self.folder is None else self.folder.check(self.config)

    def resumed(self) -> Self:
        """Return the plan with the seed that the run in its folder drew, if it had this code."""
        if self.folder is None:
            return self
        return replace(self, config=resumed(self.config, self.folder))

    @contextmanager
    def begun(self, progress: Progress) -> Iterator[Self]:
        """Check the plan, read its data and fit the defaults of its config to these.

        Linear algebra has one thread meanwhile: more would change the order of summation, and the
        workers use all cores.

        Raises:
            ConfigError: the config cannot be audited.
            DataError: the data cannot be read, or hold nothing.
        """
        from threadpoolctl import threadpool_limits

        self.check()
        # Every attack and every measure that fits takes part, so one that cannot is missed.
        for fault in (*registry.broken("attacks"), *registry.broken("measures")):
            progress.note(f"left out: {fault}")
        if self.config.source is None:
            yield self
            return
        with threadpool_limits(1):
            progress.stage("reading the data")
            ratings = load(self.config.source) if self.ratings is None else self.ratings
            if not len(ratings):
                raise DataError("the data hold no ratings: give some")
            fitted = replace(self, config=self.config.fitted(ratings), ratings=ratings)
            fitted.check_gates()
            yield fitted


@contextmanager
def opened_store(plan: Plan, progress: Progress, name: str = NAME) -> Iterator[Store]:
    """Open the store of a run that has begun, and tell what was found in it.

    Raises:
        ConfigError: it holds results of a run with another seed or other data, which would be lost;
            or as `opened`.
        RunError: as `opened`.
    """
    folder = plan.folder
    if folder is None:
        raise TypeError("a run that keeps nothing has no store")
    whose = identity(plan.config, plan.ratings)
    others = others_results(folder.path / name, whose)
    if others and not (folder.fresh or folder.force):
        raise ConfigError(f"{others}: --force drops them, and -o names another folder")
    with opened(folder.path, whose, name=name, fresh=folder.fresh, note=progress.note) as store:
        store.set("secret", "yes" if plan.config.keep_seed is False else "no")
        yield store


def _check_gate(table: str, gate: Gate, keys: Sequence[MetricKey]) -> None:
    keys = [key for key in keys if gate.about(key.picked_by, key.traits)]
    if not keys:
        needed = " or ".join(entry(gate.metric).sources)
        broken = "".join(f"; {fault}" for fault in registry.broken("measures"))
        said = f"{table}.metric = {gate.metric!r} is not measured: it needs {needed}{broken}"
        raise ConfigError(said)
    for name, value in gate.where.items():
        known = list(dict.fromkeys(key.picked_by.get(name) for key in keys))
        if value not in known:
            choices = ", ".join(f"{choice}" for choice in known if choice is not None)
            raise ConfigError(
                f"{table}.where.{name} = {value!r} is not measured"
                + (f"; there is {choices}" if choices else f" for {gate.metric}: remove it")
            )
    picked = [key for key in keys if gate.picks(key.picked_by, key.traits)]
    if gate.of and not any(key.census for key in picked):
        raise ConfigError(
            f"{table}.of = {gate.of!r} is for numbers that each training of [membership] has, and "
            f"{gate.metric} is none here: remove it"
        )
    if not picked:
        raise ConfigError(f"{table}.where picks no point: no point has all these values")
