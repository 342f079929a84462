"""The first screen of a report: what was audited, the verdicts, the outcome, what was noticed."""

from __future__ import annotations

from collections.abc import Iterator

from dpaudit.record.result import AuditResult
from dpaudit.reports.sections import verdicts


def audited(result: AuditResult) -> str:
    """Return what was audited, whose it is, on which data and when, in one line."""
    data = result.data
    parts = [*_owned(result)]
    if data:
        parts.append(
            f"{data.ratings:,} ratings by {data.users:,} users of {data.items:,} items "
            f"(SHA-256 {data.digest[:12]})"
        )
    parts += [f"run {result.timing.started[:10]}", f"dpaudit {result.tool}"]
    return "; ".join(parts) + "."


def system(result: AuditResult) -> str:
    """Return the name of the audited system, as its owner states it; else the models' labels."""
    labels = ", ".join(model.label for model in result.models)
    return _stated(result, "system") or labels


def _owned(result: AuditResult) -> Iterator[str]:
    for name in ("version", "owner"):
        if stated := _stated(result, name):
            yield f"{name} {stated}"


def _stated(result: AuditResult, name: str) -> str | None:
    card = result.config.get("card")
    found = card.get(name) if isinstance(card, dict) else None
    return found if isinstance(found, str) else None


def headline(result: AuditResult) -> str:
    """Return how many models break their claims, and the outcomes of the gates."""
    found = verdicts.of(result)
    counts = [(word, sum(each.verdict == word for each in found)) for word in verdicts.VERDICTS]
    said = ", ".join(f"{count} {word}" for word, count in counts if count)
    models = f"{len(found)} model{'s' if len(found) > 1 else ''}: {said}."
    return f"{models} {gates_said(result)}"


def gates_said(result: AuditResult) -> str:
    """Return the number of gates with each outcome, as a sentence."""
    if not result.gates:
        return "No gates are set."
    counts = [
        f"{sum(gate.outcome == word for gate in result.gates)} {word}"
        for word in ("pass", "fail", "inconclusive")
        if any(gate.outcome == word for gate in result.gates)
    ]
    total = len(result.gates)
    return f"{total} gate{'s' if total > 1 else ''}: {', '.join(counts)}."


def decision(result: AuditResult) -> str:
    """Return what decided the outcome of the run, as a sentence."""
    expired = [waiver.id for waiver in result.waivers if waiver.state == "expired"]
    if expired:
        return f"The run fails: these waivers have expired: {', '.join(expired)}."
    broken = [each for each in result.verdicts if each.verdict == "broken"]
    if result.fail_on_broken and any(each.id not in result.waived for each in broken):
        return "The run fails: a claim is broken."
    said = {
        "fail": "The run fails: a gate fails.",
        "inconclusive": "The run is inconclusive: a gate is inconclusive.",
        "pass": "The run passes." if result.gates else "The run passes: nothing fails it.",
    }[result.outcome]
    if result.waived:
        said = f"{said} It does not count what is waived: {', '.join(sorted(result.waived))}."
    if broken and result.outcome == "pass" and not result.fail_on_broken:
        return f"{said} By its config, a broken claim does not fail it."
    return said


def status(result: AuditResult) -> str:
    """Return the outcome, for its colour: a pass is green only if a claim was tested and held."""
    found = {each.verdict for each in result.verdicts}
    held = "not broken" in found and "broken" not in found
    return "not tested" if result.outcome == "pass" and not held else result.outcome


def findings(result: AuditResult) -> list[str]:
    """Return what else was noticed about the models, as sentences."""
    drifting = [pair for pair in result.pairs if pair.drift]
    noticed = [f"{pair.model}: {pair.drift}." for pair in drifting]
    alike: dict[str, list[str]] = {}
    for each in result.findings:
        alike.setdefault(f"{each.text} {each.remedy}", []).append(each.model)
    return noticed + [
        f"{', '.join(dict.fromkeys(models))}: {said}" for said, models in alike.items()
    ]
