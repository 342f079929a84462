"""What a run is: its config, the numbers that it emits, and its output folder.

The folder says what the run may replace, and holds the store of its finished tasks.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from dpaudit.auditor.gate import check_ids, identifier
from dpaudit.auditor.kind import AuditKind, kind_of
from dpaudit.auditor.measure import Measure, MetricKey, judging, picking, without_counts
from dpaudit.config.gate import Gate, rated
from dpaudit.config.schema import Config
from dpaudit.core import registry
from dpaudit.core.errors import ConfigError, DataError
from dpaudit.core.messages import place
from dpaudit.data.ratings import Ratings
from dpaudit.data.readers.load import load
from dpaudit.execution.store import NAME, Store, opened, others_results, seed_in
from dpaudit.execution.tasks import Progress, digest_of, identity_of, tool_version
from dpaudit.record import metrics, storage, verdicts
from dpaudit.record.result import Family

# What a run may change without a word, besides numbers of trials.
_OPEN = {"audit", "seed", "keep_seed"}


@dataclass(frozen=True)
class RunFolder:
    """Where a run keeps the results of finished tasks.

    Attributes:
        path: the output folder.
        fresh: whether to drop the results that it holds.
        force: whether to replace another run that it holds; results that fit are used.
    """

    path: Path
    fresh: bool = False
    force: bool = False

    def check(self, config: Config) -> str:
        """Refuse to replace the record of another run: one of another config or seed.

        Other numbers of trials are no other run; nor are other claims, gates, observers and what
        else only judges, and a seed that the config leaves to chance.

        Returns:
            A sentence if a record will be replaced that was judged otherwise; else empty.

        Raises:
            ConfigError: the folder holds the record of another run, or one that cannot be read.
        """
        path = self.path / storage.NAME
        if self.fresh or self.force or not path.exists():
            return ""
        try:
            recorded = storage.load(path).config
        except ConfigError as error:
            raise ConfigError(
                f"{place(path)} is no record that this dpaudit can read: --force replaces it, and "
                "-o names another folder"
            ) from error
        deciding, judged = _differing(recorded, config)
        if deciding:
            raise ConfigError(
                f"{place(self.path)} holds the record of another run ({_others(deciding)}): "
                "--force replaces it and uses the finished tasks that fit, and -o names another "
                "folder"
            )
        if not judged:
            return ""
        return (
            f"{place(path)} is replaced, as it was judged otherwise ({_others(judged)}); finished "
            "tasks are used"
        )


def _differing(recorded: dict[str, Any], config: Config) -> tuple[list[str], list[str]]:
    """Name the keys of a config whose values differ from the recorded ones.

    Returns:
        The keys that decide results, and those that only judge or report them.
    """
    new = json.loads(config.recorded().model_dump_json())
    common = recorded.keys() & new.keys()
    keys = judging(config)
    deciding = [
        name
        for name in common - _OPEN - config.judging
        if _deciding(recorded[name], keys.get(name)) != _deciding(new[name], keys.get(name))
    ]
    # A table that only one of them has is of another kind of audit; empty, it asks for nothing.
    single = (recorded.keys() ^ new.keys()) - _OPEN - config.judging
    deciding += [name for name in single if recorded.get(name) or new.get(name)]
    judged = [name for name in common & config.judging if recorded[name] != new[name]]
    for name in common & keys.keys():
        for key in sorted(keys[name]):
            old, now = (
                [table.get(key) for table in _tables(values[name])] for values in (recorded, new)
            )
            judged += [f"{name}.{key}"] if old != now else []
    named = "seed" in config.model_fields_set or config.keep_seed is False
    if named and recorded.get("seed") != new["seed"]:
        deciding.append("seed")
    return sorted(deciding), sorted(judged)


def _tables(value: Any) -> list[dict[str, Any]]:
    """Return the tables that stand under one key of a config: several, one or none."""
    return value if isinstance(value, list) else [value] if value else []


def _deciding(value: Any, left_out: frozenset[str] | None = None) -> Any:
    """Return the value of a key without numbers of trials, and what only judges in its tables."""
    if left_out:
        value = [
            {key: entry for key, entry in table.items() if key not in left_out}
            for table in _tables(value)
        ]
    if isinstance(value, list):
        return [_deciding(item) for item in value]
    return without_counts(value) if isinstance(value, dict) else value


def _others(names: Iterable[str]) -> str:
    return ", ".join(f"other {name}" for name in names)


def identity(config: Config, ratings: Ratings | None) -> dict[str, str]:
    """Return what the results of a config's tasks depend on besides its tables."""
    files = filter(Path.is_file, config.files)
    return {
        "tool": tool_version(),
        **identity_of(config.plugins),
        "files": digest_of(*(hashlib.blake2b(file.read_bytes()).hexdigest() for file in files)),
        "data": "" if ratings is None else ratings.digest,
        "seed": str(config.seed),
    }


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
        trained = [key for key in keys if key.census and not metrics.entry(key.metric).derived]
        size = sum(key.counted for key in keys)
        size += sum(key.statement == "this-model" for key in trained)
        # All gates about the next training count as one.
        size += any(key.statement is None and picking(self.config, key) for key in trained)
        return Family.of(self.config.audit.confidence, max(1, size))

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
            claims = (verdicts.claim_id(key.model, key.epsilon) for key in self.keys)
            known = {*claims, *map(identifier, self.config.gate)}
            check_ids(self.config.waiver, known, prefix)

    def resumed(self) -> Self:
        """Return the plan with the seed that the run in its folder drew, if it had this code.

        A seed that the config names stays.
        """
        config, folder = self.config, self.folder
        if folder is None or folder.fresh or "seed" in config.model_fields_set:
            return self
        secret = config.keep_seed is False
        seed = seed_in(folder.path / NAME, identity_of(config.plugins), secret=secret)
        drawn = {} if seed is None else {"seed": seed}
        return replace(self, config=config.model_copy(update=drawn))

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

        if self.config.code and not self.allow_code:
            raise ConfigError(
                f"this config would run the code named by {self.config.code[0]}: give --allow-code "
                "(allow_code=True) if you trust it"
            )
        self.check_gates()
        self.check_waivers()
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
        needed = " or ".join(metrics.entry(gate.metric).sources)
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
    if gate.of and not any(key.census for key in keys):
        raise ConfigError(
            f"{table}.of = {gate.of!r} is for numbers that each training of [membership] has, and "
            f"{gate.metric} is none here: remove it"
        )
    if not picked:
        raise ConfigError(f"{table}.where picks no point: no point has all these values")
    if gate.detectable and gate.judged != "epsilon" and not any(key.census for key in picked):
        raise ConfigError(
            f"{table}.detectable = {gate.detectable:g} is the size of a leak to plant, and none is "
            f"planted for {gate.metric} here: remove it"
        )
