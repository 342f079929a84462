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
            f"{data.ratings:,} {_made_up(result)}ratings by {data.users:,} users of "
            f"{data.items:,} items (SHA-256 {data.digest[:12]})"
        )
    parts += [f"run {result.timing.started[:10]}", f"dpaudit {result.tool}"]
    return "; ".join(parts) + "."


def system(result: AuditResult) -> str:
    """Return the name of the audited system, as its owner states it; else what its models are."""
    return _name(result) or f"{len(result.models)} models"


def title(result: AuditResult) -> str:
    """Return the headline, after the name of the system if there is one."""
    name = _name(result)
    return f"{name}. {headline(result)}" if name else headline(result)


def _name(result: AuditResult) -> str | None:
    only = result.models[0].label if len(result.models) == 1 else None
    return _stated(result, "system") or only


def _made_up(result: AuditResult) -> str:
    data = result.config.get("data")
    synthetic = isinstance(data, dict) and data.get("format") == "synthetic"
    return "synthetic " if synthetic else ""


def _owned(result: AuditResult) -> Iterator[str]:
    for name in ("version", "owner"):
        if stated := _stated(result, name):
            yield f"{name} {stated}"


def _stated(result: AuditResult, name: str) -> str | None:
    card = result.config.get("card")
    word = card.get(name) if isinstance(card, dict) else None
    return word if isinstance(word, str) else None


def headline(result: AuditResult) -> str:
    """Return how many models break their claims, and the outcomes of the gates."""
    model_verdicts = verdicts.of(result)
    counts = [
        (word, sum(verdict.verdict == word for verdict in model_verdicts))
        for word in verdicts.VERDICTS
    ]
    said = ", ".join(f"{count} {word}" for word, count in counts if count)
    free = sum(not verdict.claims for verdict in model_verdicts)
    if free:
        said += f" ({f'{free} ' if len(model_verdicts) > 1 else ''}without a claim)"
    models = f"{len(model_verdicts)} model{'s' if len(model_verdicts) > 1 else ''}: {said}."
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
        return f"These waivers have expired: {', '.join(expired)}."
    false = [verdict for verdict in result.verdicts if verdict.verdict == "false"]
    if result.fail_on_false_claim and any(verdict.id not in result.waived for verdict in false):
        return "A claim is false."
    said = {
        "stop": "A gate fails.",
        "undecided": "A gate is inconclusive.",
        "go": "No gate fails." if result.gates else "Nothing stops it.",
        "no decision": "Nothing was decided: no gate is set, and no claim was tested. A [[gate]] "
        "decides what may pass.",
    }[result.outcome]
    if result.waived:
        said = f"{said} It does not count what is waived: {', '.join(sorted(result.waived))}."
    if false and result.outcome == "go" and not result.fail_on_false_claim:
        said = f"{said} By its config, a false claim does not stop it."
    claims = [verdict for verdict in result.verdicts if verdict.claimed is not None]
    untested = sum(claim.verdict == "not tested" for claim in claims)
    if untested and result.outcome == "go":
        said = f"{said} {untested} of {len(claims)} claims {_were(untested)} not tested."
    return said


def _were(count: int) -> str:
    return "was" if count == 1 else "were"


def status(result: AuditResult) -> str:
    """Return the outcome, for its colour: a pass is green only if all claims were tested and held.

    Without a claim, or without a decision, nothing was tested.
    """
    claims = [verdict.verdict for verdict in result.verdicts if verdict.claimed is not None]
    held = bool(claims) and set(claims) == {"survived"}
    green = result.outcome in ("go", "no decision")
    return "not tested" if green and not held else result.outcome


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
