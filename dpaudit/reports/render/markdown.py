"""The report as GitHub Markdown."""

from __future__ import annotations

import re
from collections.abc import Sequence

from dpaudit.core.messages import plain
from dpaudit.record.result import AuditResult
from dpaudit.reports import digest
from dpaudit.reports.render import toml
from dpaudit.reports.sections import footnotes, intervals, tables
from dpaudit.reports.table import Table

# Everything that starts markup inside a line; a bracket only where a link could follow, and what
# makes a link of a bare address.
_MARKUP = re.compile(r"([\\`*_<>|~#&$]|\](?=[(\[:])|:(?=//)|(?<=www)\.)", re.IGNORECASE)
# An address of mail, or somebody who would be told of it; a comment parts the two sides.
_PERSON = re.compile(r"@(?=[\w-]+\.)|(?<!\w)@(?=\w)")


def escape(text: str) -> str:
    """Text that Markdown shows as it is, on one line, and makes no link of."""
    return _PERSON.sub("@<!-- -->", _MARKUP.sub(r"\\\1", plain(text)))


def render(result: AuditResult) -> str:
    """The report as GitHub Markdown."""
    sections = [
        "# Privacy audit",
        f"**{digest.outcome(result).upper()}** {escape(digest.headline(result))}",
        _bullets([finding.text for finding in digest.findings(result)]),
        section("Gates", [tables.gates(result)]),
        section("Results", tables.results(result)),
        "## How to read this\n\n" + _bullets(footnotes.notes(result)),
        section("What was audited", [tables.models(result), tables.claims(result)]),
        section(
            "What was tried",
            [
                tables.attacks(result),
                tables.pairs(result),
                tables.games(result),
                intervals.table(result),
            ],
        ),
        section("How to reproduce", [tables.provenance(result)]),
        f"Save this as `dpaudit.toml` and run `{digest.command(result)}`:",
        f"```toml\n{toml.render(result.config)}```",
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def section(title: str, found: Sequence[Table | None], level: int = 2, below: str = "") -> str:
    """A heading with its tables, and a text below it; empty where there is no table."""
    parts = [f"{'#' * level} {title}", *([below] if below else [])]
    for table in found:
        if table:
            parts.append(table_text(table) if table.caption == title else captioned(table))
    return "\n\n".join(parts) if any(found) else ""


def captioned(table: Table) -> str:
    """A table below its caption."""
    return f"**{escape(table.caption)}**\n\n{table_text(table)}"


def table_text(table: Table) -> str:
    """A table without its caption; marked cells are bold."""
    cells = [
        [
            f"**{escape(cell)}**" if (i, j) in table.marked else escape(cell)
            for j, cell in enumerate(row)
        ]
        for i, row in enumerate(table.cells)
    ]
    header = [escape(name) for name in table.header]
    return "\n".join(_row(row) for row in (header, ["---"] * len(header), *cells))


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _bullets(sentences: list[str]) -> str:
    return "\n".join(f"- {escape(sentence)}" for sentence in sentences)
