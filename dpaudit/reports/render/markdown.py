"""The report as GitHub Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from dpaudit.core.messages import plain
from dpaudit.record.result import AuditResult
from dpaudit.reports import digest
from dpaudit.reports.render import toml
from dpaudit.reports.sections import footnotes, outcome, screen, tables, verdicts
from dpaudit.reports.sections.base import not_tried
from dpaudit.reports.table import Table

# All that starts markup inside a line, or makes a link of a bare address. A closing bracket counts
# only where a link could follow.
_MARKUP = re.compile(r"([\\`*_<>|~#&$]|\](?=[(\[:])|:(?=//)|(?<=www)\.)", re.IGNORECASE)
# An e-mail address, or a user whom GitHub would notify; a comment after the @ prevents both.
_PERSON = re.compile(r"@(?=[\w-]+\.)|(?<!\w)@(?=\w)")


def escape(text: str) -> str:
    """Escape text so that Markdown shows it as it is, on one line and without links."""
    return _PERSON.sub("@<!-- -->", _MARKUP.sub(r"\\\1", plain(text)))


def render(result: AuditResult) -> str:
    """Render the report as GitHub Markdown."""
    decision, shown = outcome.decision_of(result), screen.of(result)
    sections = [
        f"# Privacy audit of {escape(screen.system(result))}",
        escape(screen.audited(result)),
        f"**{decision.word.shown}** {escape(decision.reason)}",
        _meter(shown),
        _bullets(shown.warnings),
        *(
            f"**{verdict.badge.shown}** {escape(verdict.model)}\n\n{_bullets(verdict.sentences)}"
            for verdict in verdicts.of(result)
        ),
        _bullets(screen.findings(result)),
        section("Gates", [tables.gates(result)]),
        section("Waivers", [verdicts.waiver_table(result)]),
        section("Results", tables.results(result)),
        "## How to read this\n\n" + _bullets(footnotes.notes(result)),
        section("What was audited", tables.audited(result)),
        section("What was tried", tables.tried(result)),
        "## What was not tried\n\n" + _bullets(not_tried(result)),
        section("How to reproduce", [tables.provenance(result)]),
        f"Save this as `dpaudit.toml` and run `{digest.command(result)}`:",
        f"```toml\n{toml.render(result.config)}```",
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def _meter(shown: screen.Screen) -> str:
    if not shown.rows:
        return ""
    header = ["model", "attacker", "found", "a guess", "limit"]
    cells = [[row.measurement.model, row.attacker, *row.counts] for row in shown.rows]
    return table_text(Table("", header, cells))


def section(title: str, tables: Sequence[Table | None], level: int = 2, below: str = "") -> str:
    """Return a heading with `below` and the tables under it; empty if there is no table."""
    if not any(tables):
        return ""
    texts = [
        table_text(table) if table.caption == title else captioned(table)
        for table in tables
        if table
    ]
    return "\n\n".join([f"{'#' * level} {title}", *filter(None, [below]), *texts])


def captioned(table: Table) -> str:
    """Return a table below its caption and above its note."""
    parts = [f"**{escape(table.caption)}**", table_text(table), escape(table.note)]
    return "\n\n".join(part for part in parts if part)


def table_text(table: Table) -> str:
    """Return a table without its caption; marked cells are bold."""
    cells = [
        [
            f"**{escape(cell)}**" if (i, j) in table.marked else escape(cell)
            for j, cell in enumerate(row)
        ]
        for i, row in enumerate(table.cells)
    ]
    header = [escape(name) for name in table.header]
    return "\n".join(map(row, (header, ["---"] * len(header), *cells)))


def row(cells: Iterable[str]) -> str:
    """Return a row of a table, of cells that are Markdown already."""
    return f"| {' | '.join(cells)} |"


def _bullets(sentences: Sequence[str]) -> str:
    return "\n".join(f"- {escape(sentence)}" for sentence in sentences)
