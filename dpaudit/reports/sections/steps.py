"""What to do next after a run, with commands that run as printed."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dpaudit.record.metrics import entry, table
from dpaudit.record.result import AuditResult
from dpaudit.record.storage import NAME
from dpaudit.reports import digest
from dpaudit.reports.sections.outcome import decisive, expired

# A setting that a remedy names.
_SETTING = re.compile(r"\b([a-z_]+(?:\.[a-z_]+)+) = ([\d.]*\d)")


@dataclass(frozen=True)
class Step:
    """A next step after a run.

    Attributes:
        name: what to do, in a word or two.
        text: what it is about, as the end of a sentence.
        command: what to run, as printed; empty if nothing is.
    """

    name: str
    text: str
    command: str = ""


def steps(result: AuditResult, folder: str | None = None) -> list[Step]:
    """Return the next steps after a run, at most three, the best first.

    Args:
        result: the record.
        folder: where the record is kept; the default folder of its config if it is not known.
    """
    path = digest.config_path(result)
    at = shlex.quote(folder or f"dpaudit-out/{Path(path).stem}")
    ways = {"stop": _mend, "undecided": _narrow, "go": _keep, "no decision": _decide}
    return list(ways[result.outcome](result, digest.command(result, path), at))[:3]


def _mend(result: AuditResult, run: str, at: str) -> Iterator[Step]:
    if ids := expired(result):
        yield Step("Review", f"what the waiver of {ids[0]} accepts, then remove or renew it")
        return
    finding = result.stopping[0].id if result.stopping else None
    if finding:
        yield Step("Correct", "the mechanism or the claim, then run again", run)
    else:
        yield Step("Mend", "the model, then run again", run)
        if not digest.tunes(result):
            yield Step(
                "Or correct the limit",
                "by a [[gate]] in limits.toml",
                f"dpaudit gate {at} --policy limits.toml",
            )
        finding = decisive(result)[0][1].id
    waiver = f"until a day, by a [[waiver]] with id = {finding!r} in waivers.toml"
    yield Step("Or accept the finding", waiver, f"dpaudit gate {at} --waivers waivers.toml")
    if digest.tunes(result):
        command = digest.command(result, digest.config_path(result), "tune")
        yield Step("Or search", "settings that pass, and what they cost", command)


def _narrow(result: AuditResult, run: str, at: str) -> Iterator[Step]:
    gates = [gate for _, gate in decisive(result)]
    needed = [gate.trainings for gate in gates if gate.trainings is not None]
    if needed:
        command = f"{run} -s membership.trainings={max(needed)}"
        yield Step(
            f"Train {max(needed)}",
            "models in all, which decides if the others are like these",
            command,
        )
    remedies = dict.fromkeys(gate.remedy for gate in gates if gate.remedy)
    for remedy in remedies or ([] if needed else ["do what the reason of the gate asks"]):
        settings = [f"-s {name}={value}" for name, value in _SETTING.findall(remedy)]
        command = " ".join([run, *settings]) if settings else ""
        yield Step("Decide:", f"{remedy[:1].lower()}{remedy[1:]}", command)


def _decide(result: AuditResult, run: str, at: str) -> Iterator[Step]:
    if any(verdict.claimed is not None for verdict in result.verdicts):
        yield Step("Test the claim", "as its verdict says")
    name = _limitable(result)
    metric = f" with metric = {name!r}" if name else ""
    yield Step(
        "Set a limit",
        f"by a [[gate]]{metric} in limits.toml",
        f"dpaudit gate {at} --policy limits.toml",
    )
    text = "so that a run that decides nothing exits with 4"
    yield Step("Or require one", text, f"{run} -s audit.require_decision=true")


def _keep(result: AuditResult, run: str, at: str) -> Iterator[Step]:
    if any(gate.attacker for gate in result.gates):
        text = "without attacker in the gate: who trains such models usually finds more"
        command = f"{run} -s membership.trainings=24"
        yield Step("Try stronger attackers", text, command)
    yield Step(
        "Keep",
        "the record as the baseline of the next run",
        f"cp {at}/{NAME} baseline.json && dpaudit gate {at} --baseline baseline.json",
    )
    yield Step(
        "Show", "a privacy card on one page", f"dpaudit report {at} --format card -o card.html"
    )


def _limitable(result: AuditResult) -> str | None:
    """Return the best of what was measured of an attacker that a gate may limit."""
    metrics = [entry(name) for name in dict.fromkeys(m.metric for m in result.measurements)]
    if any(point.traits.get("forget") for point in result.points):
        metrics = [metric for metric in table().values() if metric.restricts]
    able = [metric for metric in metrics if metric.gateable and metric.role != "utility"]
    return max(able, key=lambda metric: bool(metric.orders)).name if able else None
