"""Run an audit: from a checked config to its record, at once or in shards.

Each shard runs its part of the tasks, and a merge makes the record of all.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from dpaudit.auditor.gate import judge_run
from dpaudit.auditor.measure import Audited, Context, MetricKey, RecordPart, Subject
from dpaudit.auditor.plan import Plan, RunFolder, opened_store
from dpaudit.config.gate import judgeable
from dpaudit.config.origin import Origin
from dpaudit.config.schema import Config
from dpaudit.core.errors import ConfigError, RunError
from dpaudit.core.memory import peak_memory
from dpaudit.data.ratings import Ratings
from dpaudit.execution.executor import Executor
from dpaudit.execution.sampling import Cost, Sampler
from dpaudit.execution.store import NAME, Contents, differences, read
from dpaudit.execution.tasks import MACHINE, NOTHING, Progress, Shard, environment, tool_version
from dpaudit.execution.workers import ONE_THREAD, Workers, started
from dpaudit.record import result as records
from dpaudit.record import verdicts as decisions


def run_audit(
    config: Config,
    *,
    workers: Workers = ONE_THREAD,
    progress: Progress | None = None,
    allow_code: bool = False,
    folder: RunFolder | None = None,
    ratings: Ratings | None = None,
) -> records.AuditResult:
    """Measure every model of the config and judge its gates.

    Except for `timing`, the record depends only on the config and its data.

    Args:
        config: a checked config.
        workers: where tasks run.
        progress: receives progress reports.
        allow_code: whether code that the config names may be run.
        folder: where results are kept, so that the same call goes on where a killed run was; None
            keeps nothing. Of a black box nothing is kept, as its calls may depend on each other.
            A seed that the config leaves to chance is that of the folder's run, if its code was the
            same.
        ratings: the data, instead of those that the config names.

    Raises:
        DataError: the data cannot be read, or there are too few.
        ConfigError: a model does not fit the data, a gate picks nothing, the config names code that
            is not allowed, or another run works in the folder.
        RunError: a training diverged, the named code failed, workers were lost, or results cannot
            be kept.
    """
    return run(Plan(config, folder, allow_code, ratings), workers, progress or Progress())


def run(plan: Plan, workers: Workers, progress: Progress) -> records.AuditResult:
    """Carry out a plan; arguments and errors are as in `run_audit`."""
    started_at, clock = datetime.now(UTC), time.perf_counter()
    given = plan.ratings is not None
    with plan.resumed().begun(progress) as begun, ExitStack() as stack:
        store = None
        if begun.folder is not None and not begun.config.ordered:
            store = stack.enter_context(opened_store(begun, progress))
        executor = Executor(stack.enter_context(started(workers)), progress, store)
        numbers = measured(begun, executor)
        record = numbers.record(started_at, clock)
    if given:
        record.config["data"] = {"format": "given in Python"}
    if store is not None and begun.config.keep_seed is False:
        store.path.unlink()  # it holds the seed, which is a secret
    return record


def measured(plan: Plan, executor: Executor) -> Measured:
    """Apply the measures of a plan that has begun.

    Args:
        plan: the plan.
        executor: runs the tasks. With a shard, results of other shards may be missing.
    """
    subject = plan.kind.subject().of(Context(plan.config, plan.family, executor), plan.ratings)
    trials = subject.trials()
    executor.progress.start(trials)
    executor.progress.workers(executor.pool.alive(), executor.pool.workers.count)
    if executor.store is not None:
        executor.store.set("trials", str(trials))
    measures = [measure(subject) for measure in plan.measures]
    audited: list[Audited] = []
    emitted: list[RecordPart] = []
    for model in subject.models():
        audited.append(model)
        with _about(plan.config, model.label):
            for measure in measures:
                emitted += list(measure.run(model))
    if not subject.context.waiting:
        for measure in measures:
            emitted += list(measure.compared())
    _check_planned(plan, [part for part in emitted if isinstance(part, records.Measurement)])
    return Measured(plan.kind.name, subject, audited, emitted)


def _check_planned(plan: Plan, measurements: Sequence[records.Measurement]) -> None:
    """Refuse numbers that gates may judge and no measure plans: no family counts them.

    Raises:
        RunError: names the number and the remedy.
    """
    planned: dict[tuple[str, str, float], list[MetricKey]] = {}
    for key in plan.keys:
        planned.setdefault((key.metric, key.model, key.epsilon), []).append(key)
    for number in filter(judgeable, measurements):
        fields, point = number.fields, (number.metric, number.model, number.epsilon)
        if number.estimate.kind == "frequentist" and not any(
            key.picked_by.items() <= fields.items() for key in planned.get(point, ())
        ):
            name = " ".join(str(value) for value in fields.values() if value is not None)
            raise RunError(
                f"{name} is measured and not planned, so that joint intervals do not count it: let "
                "the plan of its measure yield its key"
            )


@contextmanager
def _about(config: Config, label: str) -> Iterator[None]:
    """Begin an error about a model with its key in the file of the config, if it has one."""
    try:
        yield
    except ConfigError as error:
        named = [(name, labels) for name, labels in config.labels.items() if label in labels]
        if not named or config.origin is None or error.where:
            raise
        table, labels = named[0]
        message = f": {error}"
        if str(error).startswith(f"{table}."):
            message = str(error).removeprefix(table)
        raise ConfigError(f"{table}.{labels.index(label)}{message}") from error


def cost_of(plan: Plan, progress: Progress, timing: float) -> Cost:
    """Estimate what a run costs, as its kind of audit does.

    A grid's first combination stands for the chosen one.

    Args:
        plan: the run.
        progress: receives the stages.
        timing: the seconds in which the first tasks of the stages are timed.

    Raises:
        ConfigError: the kind cannot estimate it, or as in `run_audit`.
        DataError: as in `run_audit`.
    """

    def sampled() -> Cost:
        sampler = Sampler()
        with plan.begun(progress) as begun:
            measured(begun, Executor(progress=progress, sampler=sampler))
            base = peak_memory()
            progress.stage("timing the first tasks")
            stages, task = sampler.timed(timing)
        return Cost(stages, base, task, list(plan.kind.decisions(begun.config)))

    return plan.kind.cost(plan.config, sampled)


@dataclass(frozen=True)
class Measured:
    """What the measures of a run found.

    Attributes:
        kind: the name of the kind of audit.
        subject: what is audited.
        models: its models.
        emitted: the measurements, the games' pairs, and findings.
    """

    kind: str
    subject: Subject[Any]
    models: Sequence[Audited]
    emitted: Sequence[RecordPart]

    @property
    def waiting(self) -> list[str]:
        """The stages that need results of other shards; without them there is no record."""
        return self.subject.context.waiting

    def record(self, started: datetime, clock: float) -> records.AuditResult:
        """Make the record, and judge its gates and waivers on the day on which the run began.

        Args:
            started: the moment in UTC at which the run began.
            clock: the `time.perf_counter()` of that moment.
        """
        subject, context = self.subject, self.subject.context
        config, spent = context.config, context.executor.clock
        timing = records.Timing.since(started, clock, spent.seconds, spent.deletions)
        result = records.AuditResult(
            tool=tool_version(),
            kind=self.kind,
            environment=environment(),
            config=subject.settings(),
            data=subject.data(),
            family=context.family,
            models=[model.record() for model in self.models],
            attacks=dict(subject.attacks()),
            sybil_attacks=dict(subject.sybil_attacks()),
            pairs=[one for one in self.emitted if isinstance(one, records.PairRecord)],
            findings=[one for one in self.emitted if isinstance(one, records.FindingRecord)],
            points=[point for model in self.models for point in model.points()],
            measurements=[one for one in self.emitted if isinstance(one, records.Measurement)],
            fail_on_false_claim=config.audit.fail_on_false_claim,
            require_decision=config.audit.require_decision,
            timing=timing,
        )
        findings = [*result.findings, *decisions.beside(result)]
        stated = {"findings": findings, "verdicts": decisions.verdicts(result)}
        result = result.model_copy(update=stated)
        judged = judge_run(result, started.date(), gates=config.gate, waivers=config.waiver)
        origin = config.origin and config.origin.places(judged.verdicts, judged.gates)
        return judged.model_copy(update={"origin": origin or {}})


def run_shard(
    plan: Plan, shard: Shard, *, workers: Workers = ONE_THREAD, progress: Progress | None = None
) -> list[str]:
    """Run one shard's part of the tasks, and keep their results in the folder.

    What depends on results of other shards, such as the choice of a control, waits until these are
    merged into the same folder.

    Args:
        plan: the run, whose config names its seed; several shards may share its folder.
        shard: the part.
        workers: where tasks run.
        progress: receives progress reports.

    Returns:
        The stages that wait for other shards.

    Raises:
        ConfigError: the config names no seed or a black box, or as in `run_audit`.
        DataError: as in `run_audit`.
        RunError: as in `run_audit`.
    """
    config, folder = plan.config, plan.folder
    _check_shards(config)
    if folder is None:
        raise TypeError("a shard is kept in a folder")
    if "seed" not in config.model_fields_set:
        raise ConfigError("shards share a seed: write seed in the config, or give each --seed")
    progress = progress or Progress()
    with plan.begun(progress) as begun, ExitStack() as stack:
        store = stack.enter_context(opened_store(begun, progress, store_name(shard)))
        store.set("shard", str(shard))
        store.set("config", config.model_dump_json())
        if config.origin is not None:
            store.set("origin", config.origin.model_dump_json())
        store.set("finished", "no")
        whole = folder.path / NAME
        if whole.exists():
            store.read_also(whole)
        pool = stack.enter_context(started(workers))
        results = measured(begun, Executor(pool, progress, store, shard))
        store.flush()
        store.set("finished", "yes")
    return results.waiting


def merge(
    folders: Sequence[Path], output: Path, *, force: bool = False, progress: Progress | None = None
) -> records.AuditResult:
    """Merge the results of all shards into one folder, and make the record.

    Args:
        folders: the folders of the shards.
        output: the folder of the merged results.
        force: whether to replace another run that this folder holds.
        progress: receives progress reports.

    Raises:
        ConfigError: shards are missing, doubled, unfinished, damaged, or of different runs, or the
            output holds another run.
        RunError: results depend on merged ones and are still to be computed.
    """
    started_at, clock = datetime.now(UTC), time.perf_counter()
    progress = progress or Progress()
    shards = _together(folders)
    config = _config(shards)
    folder = RunFolder(output, force=force)
    folder.check(config)
    _say_machines(shards, progress)
    # A merge runs no task, and so no code that the config names.
    with Plan(config, folder, allow_code=True).begun(progress) as begun:
        with opened_store(begun, progress) as store:
            store.add(shards)
            results = measured(begun, Executor(progress=progress, store=store, shard=NOTHING))
        if results.waiting:
            raise RunError(
                f"the shards are merged into {output}; {len(results.waiting)} stages follow from "
                f"their results ({results.waiting[0]}): run the shards again with -o {output}, or "
                f"finish here with 'dpaudit run CONFIG --seed {config.seed} -o {output}'"
            )
        return results.record(started_at, clock)


def store_name(shard: Shard | None) -> str:
    """Return the file's name of the store of a shard, or of a whole run."""
    return NAME if shard is None else f"tasks-{shard.index}-of-{shard.count}.sqlite"


def _together(folders: Sequence[Path]) -> dict[Path, Contents]:
    """Read the shards' files, and check that they are all parts of one run."""
    places = [path for folder in folders for path in sorted(folder.glob("tasks-*-of-*.sqlite"))]
    if not places:
        raise ConfigError(
            f"{folders[0]} holds no shards: name the folders that 'dpaudit run --shard' wrote"
        )
    stores = {path: read(path) for path in places}
    first = places[0]
    for path, contents in stores.items():
        if contents.damage:
            raise ConfigError(f"{contents.damage}; run this shard again")
        if contents.meta.get("finished") != "yes":
            raise ConfigError(f"the shard in {path} has not finished: run it again")
        why = _differing(stores[first], contents)
        if why:
            raise ConfigError(
                f"{first} and {path} are shards of different runs ({why}): merge those of one run"
            )
    _check_complete({path: _shard(path, contents) for path, contents in stores.items()})
    return stores


def _differing(one: Contents, other: Contents) -> str:
    """Name what two shards do not share; empty if they are of one run."""
    old, new = (
        {name: word for name, word in contents.identity.items() if name not in MACHINE}
        for contents in (one, other)
    )
    if one.meta.get("config") != other.meta.get("config"):
        return "other config"
    if len({contents.meta.get("shard", "").partition("/")[2] for contents in (one, other)}) > 1:
        return "other number of shards"
    return differences(old, new)


def _check_complete(shards: dict[Path, Shard]) -> None:
    """Refuse missing and doubled shards, by name."""
    count = next(iter(shards.values())).count
    there = Counter(shard.index for shard in shards.values())
    twice = [index for index, times in there.items() if times > 1]
    if twice:
        places = [str(path) for path, shard in shards.items() if shard.index == twice[0]]
        raise ConfigError(
            f"shard {twice[0]}/{count} is there twice, in {' and '.join(places)}: name one folder"
        )
    missing = [f"{index}/{count}" for index in range(1, count + 1) if index not in there]
    if missing:
        some = ", ".join(missing[:10]) + (" and more" if len(missing) > 10 else "")
        raise ConfigError(f"missing shards: {some}; run them, or name their folders")


def _shard(path: Path, contents: Contents) -> Shard:
    try:
        return Shard.parse(contents.meta.get("shard", ""))
    except ConfigError as error:
        raise ConfigError(f"{path} names no shard: run the shards again") from error


def _config(shards: dict[Path, Contents]) -> Config:
    path, contents = next(iter(shards.items()))
    try:
        config = Config.model_validate_json(contents.meta["config"])
        _check_shards(config)
        origin = contents.meta.get("origin")
        return config if origin is None else config.stated_at(Origin.model_validate_json(origin))
    except (ValidationError, KeyError) as error:
        raise ConfigError(
            f"{path} holds no config of this dpaudit: run the shards again"
        ) from error


def _check_shards(config: Config) -> None:
    """Refuse what has no shards; so a merge, which asks for no leave, calls no code either."""
    if config.ordered:
        raise ConfigError(
            f"{config.ordered} has no shards, as its calls may depend on each other: leave out "
            "--shard"
        )
    if config.unversioned:
        raise ConfigError(
            f"{config.unversioned[0]} has no shards, as a merge cannot tell whether "
            "its code was the same: use --workers, or a command"
        )


def _say_machines(shards: dict[Path, Contents], progress: Progress) -> None:
    """Note it if the shards ran on machines of several types."""
    types = {tuple(shard.identity.get(name) for name in MACHINE) for shard in shards.values()}
    if len(types) > 1:
        progress.note(
            f"the shards ran on {len(types)} types of machine, so the last digits of the record "
            "may differ from those of a run on one"
        )
