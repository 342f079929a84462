"""Run an audit: from a checked config to its record."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from dpaudit.auditor.context import Audited, Context, Subject
from dpaudit.auditor.gate import judge_run
from dpaudit.auditor.measure import RecordPart
from dpaudit.auditor.plan import Plan, RunFolder, opened_store
from dpaudit.config.schema import Config
from dpaudit.core.errors import ConfigError
from dpaudit.core.provenance import environment, tool_version
from dpaudit.data.ratings import Ratings
from dpaudit.execution.executor import Executor
from dpaudit.execution.sampling import Cost, Sampler, peak_memory
from dpaudit.execution.tasks import Progress
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
    return Measured(plan.kind.name, subject, audited, emitted)


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


def cost_of(plan: Plan, progress: Progress | None = None, timing: float = 4.0) -> Cost:
    """Estimate what a run costs, as its kind of audit does.

    A grid's first combination stands for the chosen one.

    Args:
        plan: the run.
        progress: receives the stages, if given.
        timing: the seconds in which the first tasks of the stages are timed.

    Raises:
        ConfigError: the kind cannot estimate it, or as in `run_audit`.
        DataError: as in `run_audit`.
    """
    listener = progress or Progress()

    def sampled() -> Cost:
        sampler = Sampler()
        with plan.begun(listener) as begun:
            measured(begun, Executor(progress=listener, sampler=sampler))
            base = peak_memory()
            listener.stage("timing the first tasks")
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
