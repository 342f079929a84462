"""What to do after a run, in one sentence: what decides what is open, or mends what is found."""

from __future__ import annotations

from collections.abc import Iterator

from dpaudit.record.metrics import entry, table
from dpaudit.record.result import AuditResult

_GATE = "dpaudit gate FOLDER --policy FILE"


def sentence(result: AuditResult) -> str:
    """Return the next step after a run."""
    step = {
        "stop": _mend,
        "undecided": _narrow,
        "go": _keep,
        "no decision": _decide,
    }[result.outcome](result)
    return f"Next: {step}."


def _mend(result: AuditResult) -> str:
    if any(waiver.state == "expired" for waiver in result.waivers):
        return "review what the expired waiver accepts, then remove or renew it"
    if result.stopping:
        return (
            "correct the mechanism or the claim, or accept the finding until a day by a "
            f"[[waiver]] with id = {result.stopping[0].id!r}"
        )
    return (
        "change the model and run again, or correct the limit and judge this run by it: "
        f"{_GATE!r}; report.html shows what leaks"
    )


def _narrow(result: AuditResult) -> str:
    open_ = [
        gate
        for gate in result.gates
        if gate.outcome == "inconclusive" and gate.id not in result.waived
    ]
    needed = [gate.trainings for gate in open_ if gate.trainings is not None]
    steps = dict.fromkeys(gate.remedy[:1].lower() + gate.remedy[1:] for gate in open_)
    if needed:
        trainings = f"membership.trainings = {max(needed)}"
        steps = {f"set {trainings}, which decides if further trainings show the like": None} | steps
    return "; and ".join(filter(None, steps)) or "do what the reason of the gate asks"


def _decide(result: AuditResult) -> str:
    name = next(_limitable(result), None)
    metric = f" with metric = {name!r}" if name else ""
    gate = (
        f"set a limit by a [[gate]]{metric}, and judge this run by it: {_GATE!r}; with "
        "audit.require_decision = true a run that decides nothing exits with 4"
    )
    if any(verdict.claimed is not None for verdict in result.verdicts):
        return f"test the claim, as the verdict above says; or {gate}"
    return gate


def _limitable(result: AuditResult) -> Iterator[str]:
    """Yield what was measured of an attacker that a gate may limit, the best first."""
    metrics = [entry(name) for name in {one.metric: None for one in result.measurements}]
    if any(point.traits.get("forget") for point in result.points):
        metrics = [metric for metric in table().values() if metric.restricts]
    able = [metric for metric in metrics if metric.gateable and metric.role != "utility"]
    yield from (metric.name for metric in sorted(able, key=lambda metric: not metric.orders))


def _keep(_: AuditResult) -> str:
    return (
        "open report.html for what was not tried, and keep the record as the baseline of the next "
        "run: 'dpaudit gate FOLDER --baseline RECORD'"
    )
