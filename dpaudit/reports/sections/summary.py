"""The first screen of a report: what was audited, the outcome and why, what was noticed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from dpaudit.core.rounding import at_least
from dpaudit.record.result import AuditResult, Verdict
from dpaudit.reports import palette, words
from dpaudit.reports.palette import Word
from dpaudit.reports.sections import verdicts

# What became of claims in a run that goes: a false one was waived, or its config accepts it.
_CLAIMS: Mapping[Verdict, str] = {
    "survived": "survived",
    "false": "false and accepted",
    "not tested": "not tested",
}


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
    """Return what was found, after the name of the system if there is one."""
    name = _name(result)
    return f"{name}. {counts(result)}" if name else counts(result)


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
    """Return the outcome, how many models have which badge, and the outcomes of the gates."""
    return f"{palette.RUN[result.outcome].shown}. {counts(result)}"


def counts(result: AuditResult) -> str:
    """Return how many models have which badge, and the outcomes of the gates."""
    badges = Counter(verdict.badge.text for verdict in verdicts.of(result))
    said = ", ".join(f"{count} {badge}" for badge, count in badges.items())
    models = len(result.models)
    return f"{models} model{'s' if models > 1 else ''}: {said}. {_gates(result)}"


def _gates(result: AuditResult) -> str:
    """Return the number of gates with each outcome, as a sentence."""
    if not result.gates:
        return "No gates are set."
    outcomes = Counter(gate.outcome for gate in result.gates)
    said = ", ".join(f"{outcomes[word]} {word}" for word in palette.GATE if outcomes[word])
    total = len(result.gates)
    return f"{total} gate{'s' if total > 1 else ''}: {said}."


@dataclass(frozen=True)
class Decision:
    """The outcome of a run with its reason.

    Attributes:
        word: the outcome.
        reason: what decided it, and what it leaves out, as sentences.
    """

    word: Word
    reason: str

    @property
    def text(self) -> str:
        """The outcome and its reason as one text."""
        return f"{self.word.shown}: {self.reason}"


def decision(result: AuditResult) -> Decision:
    """Return the outcome of the run, and why it is that."""
    reason = {
        "stop": _stops,
        "undecided": _leaves_open,
        "go": _goes,
        "no decision": _decides_nothing,
    }[result.outcome](result)
    if result.waived:
        reason += f" It does not count what is waived: {', '.join(sorted(result.waived))}."
    return Decision(palette.RUN[result.outcome], reason)


def _stops(result: AuditResult) -> str:
    expired = [waiver.id for waiver in result.waivers if waiver.state == "expired"]
    if expired:
        return f"These waivers have expired: {', '.join(expired)}."
    false = [one for one in result.verdicts if one.verdict == "false"]
    counted = [one for one in false if one.id not in result.waived]
    if result.fail_on_false_claim and counted:
        worst = max(counted, key=lambda one: (one.certified or 0) / (one.claimed or 1))
        others = len(counted) - 1
        more = f", and {others} more {'is' if others == 1 else 'are'}" if others else ""
        return (
            f"The claim of {worst.model} at ε = {words.epsilon(worst.epsilon)} is false{more}: "
            f"ε ≥ {at_least(worst.certified or 0, 2)} is certified where "
            f"{words.epsilon(worst.claimed or 0)} is claimed."
        )
    return _of_gates(result, "fail", "fails", "fail")


def _leaves_open(result: AuditResult) -> str:
    return _of_gates(result, "inconclusive", "is inconclusive", "are inconclusive")


def _of_gates(result: AuditResult, outcome: str, one: str, several: str) -> str:
    """Return the first gate that has an outcome, with its reason, and how many others have it."""
    gates = [
        gate for gate in result.gates if gate.outcome == outcome and gate.id not in result.waived
    ]
    if not gates:
        return f"A gate {one}."
    more = f", and {len(gates) - 1} more {several if len(gates) > 2 else one}" * (len(gates) > 1)
    return f"The gate {gates[0].rule} {one}{more}: {gates[0].reason.removesuffix('.')}."


def _goes(result: AuditResult) -> str:
    gates, passing = len(result.gates), sum(gate.outcome == "pass" for gate in result.gates)
    said = [] if gates else ["No gate is set."]
    if passing == gates > 0:
        said.append(
            {1: "The gate passes.", 2: "Both gates pass."}.get(gates, f"{gates} gates pass.")
        )
    elif gates:
        said.append(f"{passing} of {gates} gates pass.")
    found = Counter(one.verdict for one in result.verdicts if one.claimed is not None)
    if found:
        claims = ", ".join(f"{found[word]} {then}" for word, then in _CLAIMS.items() if found[word])
        said.append(f"Claims: {claims}.")
    return " ".join(said)


def _decides_nothing(result: AuditResult) -> str:
    stated = any(one.claimed is not None for one in result.verdicts)
    claims = "no claim could be tested" if stated else "no claim is stated"
    return f"No gate is set, and {claims}."


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
