"""`dpaudit diff`: a run compared with an earlier one."""

from __future__ import annotations

from pathlib import Path

import click

from dpaudit.cli.options import PathType, style_option
from dpaudit.cli.writing import echo, screen


@click.command()
@click.argument("baseline", type=PathType())
@click.argument("folder", type=PathType())
@style_option("md", "json")
@click.option(
    "--all", "everything", is_flag=True, help="Show also what is the same and cannot be told."
)
def diff(baseline: Path, folder: Path, style: str, everything: bool) -> None:
    """Compare the finished run in FOLDER with that in BASELINE, by intervals and verdicts.

    The exit code does not depend on the comparison; for that, use 'dpaudit gate --baseline'.
    """
    from dpaudit.record import storage as record
    from dpaudit.record.comparison import compare
    from dpaudit.reports.render import comparison

    compared = compare(record.load(baseline), record.load(folder))
    if style == "json":
        echo(compared.model_dump_json(indent=1))
    elif style == "md":
        echo(comparison.render(compared), nl=False)
    else:
        comparison.show(compared, screen(), everything=everything)
