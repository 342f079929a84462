"""Waivers: what they accept, until when, and which need attention."""

from __future__ import annotations

from dpaudit.record.result import AuditResult, WaiverRecord
from dpaudit.reports.table import Table

_NOW = {
    "false": "its claim is false",
    "survived": "its claim was tested and not found to be false",
    "not tested": "its claim was not tested",
    "pass": "its gate passes",
    "fail": "its gate fails",
    "inconclusive": "its gate is inconclusive",
}


def table(result: AuditResult) -> Table | None:
    """Return the table of all waivers; None without any."""
    if not result.waivers:
        return None
    return Table(
        f"Waivers on {result.waivers[0].judged}",
        ["finding", "state", "owner", "until", "statement"],
        [
            [waiver.id, waiver.state, waiver.owner, str(waiver.expires), waiver.statement]
            for waiver in result.waivers
        ],
        {(row, 1) for row, waiver in enumerate(result.waivers) if waiver.state == "expired"},
    )


def line(waiver: WaiverRecord, result: AuditResult) -> str:
    """Return what a waiver does and what to do about it, as a sentence that names its finding."""
    said = sentence(waiver, result)
    if waiver.state == "active":
        return f"{waiver.id} is {said}."
    return f"{said[:1].upper()}{said[1:]}."


def sentence(waiver: WaiverRecord, result: AuditResult) -> str:
    """Return what a waiver does and what to do about it, as the end of a sentence.

    That of an active waiver does not name its finding.
    """
    now = _now(waiver.id, result)
    if waiver.state == "active":
        return (
            f"waived until {waiver.expires} by {waiver.owner}: {waiver.statement.removesuffix('.')}"
        )
    if waiver.state == "unused":
        return f"the waiver of {waiver.id} is unused, as {now}: remove it if that lasts"
    return (
        f"the waiver of {waiver.id} by {waiver.owner} expired after {waiver.expires}, and {now}: "
        "remove the waiver, or review and renew it"
    )


def _now(name: str, result: AuditResult) -> str:
    """Return what became of a waived finding."""
    states: dict[str, str] = {verdict.id: verdict.verdict for verdict in result.verdicts}
    # Gates may share an id: one that does not pass counts.
    gates = sorted(result.gates, key=lambda gate: gate.outcome != "pass")
    states |= {gate.id: gate.outcome for gate in gates}
    return _NOW.get(states.get(name, ""), "its gate is not judged here")
