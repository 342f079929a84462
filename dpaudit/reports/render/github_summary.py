"""The job summary of GitHub Actions: short Markdown."""

from __future__ import annotations

from dpaudit.reports.ci import Format, Run
from dpaudit.reports.render.markdown import escape, table_text
from dpaudit.reports.table import Table

# GitHub drops summaries of more than 1 MiB, which all commands of a step share.
_LARGEST = 500_000
_HEADER = ["result", "what", "why", "where"]


def _render(run: Run) -> str:
    lines = table_text(
        Table(
            "",
            _HEADER,
            [
                [check.word.text, check.name, check.text, f"{check.path}:{check.place.line}"]
                for check in run.checks
            ],
        )
    ).split("\n")
    kept = len(lines)
    size = 0
    for at, line in enumerate(lines):
        size += len(line.encode()) + 1
        if size > _LARGEST:
            kept = at
            break
    more = [f"\n{len(lines) - kept} more are in the report."] if kept < len(lines) else []
    accepted = sum(check.state == "accepted" for check in run.checks)
    problems = "1 problem that stops" if accepted == 1 else f"{accepted} problems that stop"
    but = f", with {problems} nothing" if accepted else ""
    head = [
        f"## Privacy audit: {run.word.shown}{but}",
        f"{escape(run.headline)} Exit code {run.exit_code}, dpaudit {escape(run.tool)}.",
    ]
    return "\n\n".join([*head, "\n".join([*lines[:kept], *more])]) + "\n"


render = Format("Job summary of GitHub Actions, in Markdown", _render)
