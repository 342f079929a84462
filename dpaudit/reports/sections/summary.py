"""The first screen of a report: what was audited, the outcome and why, what was noticed."""

from __future__ import annotations

from collections import Counter

from dpaudit.record.result import AuditResult
from dpaudit.reports import palette
from dpaudit.reports.sections import verdicts


def audited(result: AuditResult) -> str:
    """Return what was audited, whose it is, on which data and when, in one line."""
    data = result.data
    stated = ((name, _stated(result, name)) for name in ("version", "owner"))
    parts = [f"{name} {text}" for name, text in stated if text]
    if data:
        table = result.config.get("data")
        synthetic = isinstance(table, dict) and table.get("format") == "synthetic"
        parts.append(
            f"{data.ratings:,} {'synthetic ' if synthetic else ''}ratings by {data.users:,} users "
            f"of {data.items:,} items (SHA-256 {data.digest[:12]})"
        )
    parts += [f"run {result.timing.started[:10]}", f"dpaudit {result.tool}"]
    return "; ".join(parts) + "."


def repairs(result: AuditResult) -> str:
    """Return what loading dropped, merged, changed or doubts, with counts; perhaps nothing."""
    counts = result.data.repairs if result.data else {}
    return "; ".join(f"{what}: {count:,}" for what, count in counts.items())


def system(result: AuditResult) -> str:
    """Return the name of the audited system, as its owner states it; else what its models are."""
    return _name(result) or f"{len(result.models)} models"


def title(result: AuditResult) -> str:
    """Return what was found, after the name of the system if there is one."""
    name = _name(result)
    return f"{name}. {counts(result)}" if name else counts(result)


def _name(result: AuditResult) -> str | None:
    only = result.models[0].label if len(result.models) == 1 else None
    return _stated(result, "system") or only


def _stated(result: AuditResult, name: str) -> str | None:
    card = result.config.get("card")
    word = card.get(name) if isinstance(card, dict) else None
    return word if isinstance(word, str) else None


def headline(result: AuditResult) -> str:
    """Return the outcome, how many models have which badge, and the outcomes of the gates."""
    return f"{palette.RUN[result.outcome].shown}. {counts(result)}"


def counts(result: AuditResult) -> str:
    """Return how many models have which badge, and the outcomes of the gates."""
    badges = Counter(verdict.badge.text for verdict in verdicts.of(result))
    listed = ", ".join(f"{count} {badge}" for badge, count in badges.items())
    models = len(result.models)
    return f"{models} model{'s' if models > 1 else ''}: {listed}. {_gates(result)}"


def _gates(result: AuditResult) -> str:
    """Return the number of gates with each outcome, as a sentence."""
    if not result.gates:
        return "No gates are set."
    outcomes = Counter(gate.outcome for gate in result.gates)
    listed = ", ".join(f"{outcomes[word]} {word}" for word in palette.GATE if outcomes[word])
    total = len(result.gates)
    return f"{total} gate{'s' if total > 1 else ''}: {listed}."


def findings(result: AuditResult) -> list[str]:
    """Return what else was noticed about the models, as sentences."""
    drifting = [pair for pair in result.pairs if pair.drift]
    noticed = [f"{pair.model}: {pair.drift}." for pair in drifting]
    alike: dict[str, list[str]] = {}
    for finding in result.findings:
        alike.setdefault(f"{finding.text} {finding.remedy}", []).append(finding.model)
    return noticed + [
        f"{', '.join(dict.fromkeys(models))}: {said}" for said, models in alike.items()
    ]
