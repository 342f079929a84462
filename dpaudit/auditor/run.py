"""Run an audit: from a checked config to its record."""

from __future__ import annotations

import time
from contextlib import nullcontext
from datetime import UTC, datetime

from dpaudit import __version__
from dpaudit.auditor.context import Context, Subject
from dpaudit.auditor.gate import judge
from dpaudit.auditor.plan import check_gates, family_of, kind_of
from dpaudit.auditor.progress import Progress
from dpaudit.config.schema import Config
from dpaudit.core.errors import ConfigError
from dpaudit.core.provenance import environment
from dpaudit.data.readers.load import load
from dpaudit.record import result as records


def run_audit(
    config: Config,
    *,
    threads: int = 1,
    progress: Progress | None = None,
    allow_code: bool = False,
) -> records.AuditResult:
    """Measure every model of the config and judge its gates.

    Except for `timing`, the record depends only on the config and its data.

    Args:
        config: a checked config.
        threads: number of threads.
        progress: receives progress reports.
        allow_code: whether code that the config names may be run.

    Raises:
        DataError: the data cannot be read, or there are too few.
        ConfigError: a model does not fit the data, a gate picks nothing, or the config names code
            that is not allowed.
        RunError: a training diverged, or the named code failed.
    """
    from threadpoolctl import threadpool_limits

    if config.defense and not allow_code:
        raise ConfigError(
            f"this config would run the code named by defense.target = {config.defense.target!r}: "
            "give --allow-code (allow_code=True) if you trust it"
        )
    check_gates(config)
    progress = progress or Progress()
    kind = kind_of(config)
    with threadpool_limits(1) if kind.subject.one_thread else nullcontext():
        started, clock = datetime.now(UTC), time.perf_counter()
        progress.stage("reading the data")
        ratings = None if config.defense else load(config.data)
        context = Context(config, family_of(config, ratings), threads, progress)
        subject = kind.subject.of(context, ratings)
        progress.start(subject.trials())
        measures = [measure(subject) for measure in kind.measures]
        audited, found = [], []
        for model in subject.models():
            audited.append(model)
            for measure in measures:
                found += list(measure.run(model))
        for measure in measures:
            found += list(measure.compared())
    points = [point for model in audited for point in model.points()]
    return _record(
        subject,
        [model.record() for model in audited],
        points,
        [each for each in found if isinstance(each, records.PairRecord)],
        [each for each in found if isinstance(each, records.Measurement)],
        records.Timing.since(started, clock),
    )


def _record(
    subject: Subject,
    models: list[records.ModelRecord],
    points: list[records.PointRecord],
    pairs: list[records.PairRecord],
    measurements: list[records.Measurement],
    timing: records.Timing,
) -> records.AuditResult:
    context = subject.context
    gates = [judge(gate, points, measurements) for gate in context.config.gate]
    return records.AuditResult(
        tool=__version__,
        environment=environment(),
        config=subject.settings(),
        data=subject.data(),
        family=context.family,
        models=models,
        attacks=dict(subject.attacks()),
        sybil_attacks=dict(subject.sybil_attacks()),
        pairs=pairs,
        points=points,
        measurements=measurements,
        gates=gates,
        outcome=records.worst([gate.outcome for gate in gates]),
        timing=timing,
    )
