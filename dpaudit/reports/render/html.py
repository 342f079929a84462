"""The report as one HTML file that needs no network."""

from __future__ import annotations

from dpaudit.record.result import AuditResult
from dpaudit.reports import digest, palette
from dpaudit.reports.render import page, toml
from dpaudit.reports.sections import footnotes, screen, tables, verdicts
from dpaudit.reports.sections.base import charts_of, not_tried


def render(result: AuditResult) -> str:
    """Render the report as one HTML file that includes its scripts and data and loads nothing."""
    return page.render(
        "report.html.j2",
        charts=charts_of(result),
        system=screen.system(result),
        headline=screen.headline(result),
        audited_line=screen.audited(result),
        screen=screen.of(result),
        marks=[palette.became(claim) for claim in screen.stated(result)],
        verdicts=verdicts.of(result),
        findings=screen.findings(result),
        command=digest.command(result),
        waivers=verdicts.waiver_table(result),
        gates=tables.gates(result),
        results=tables.results(result),
        footnotes=footnotes.notes(result),
        audited=tables.audited(result),
        tried=tables.tried(result),
        untried=not_tried(result),
        provenance=tables.provenance(result),
        config=toml.render(result.config),
    )
