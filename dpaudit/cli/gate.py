"""`dpaudit gate`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dpaudit.cli.options import waivers_option
from dpaudit.core.exit_codes import EXIT_CODES

if TYPE_CHECKING:
    from rich.console import Console

    from dpaudit.record.result import AuditResult

_STYLES = {"pass": "green", "inconclusive": "yellow", "waived": "yellow", "unused": "yellow"}


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "--policy",
    type=click.Path(path_type=Path, dir_okay=False),
    help="A TOML file with [[gate]] tables to use instead of the gates of the run.",
)
@waivers_option("of the run")
@click.option(
    "--baseline",
    type=click.Path(path_type=Path),
    help="The folder or record of an earlier run: what is certified to be worse, or newly broken, "
    "fails.",
)
@click.pass_context
def gate(
    ctx: click.Context,
    folder: Path,
    policy: Path | None,
    waivers: Path | None,
    baseline: Path | None,
) -> None:
    """Evaluate gates on the finished run in FOLDER; the exit code is their outcome.

    Waivers are judged on the day of the evaluation: those that were active when the run was made
    may have expired. A baseline adds to the gates and excuses nothing that fails without it.
    """
    from rich.console import Console

    from dpaudit.auditor.judgement import check_ids, judge_run
    from dpaudit.config import load as config_file
    from dpaudit.record import storage as record
    from dpaudit.record.comparison import compare
    from dpaudit.record.result import worst
    from dpaudit.record.waivers import today
    from dpaudit.reports.render import comparison

    recorded = record.load(folder)
    result = judge_run(
        recorded,
        today(),
        gates=None if policy is None else config_file.load_policy(policy),
        waivers=None if waivers is None else config_file.load_waivers(waivers),
    )
    if waivers is not None:
        known = {each.id for each in result.verdicts}
        known |= {each.id for each in (*recorded.gates, *result.gates)}
        check_ids(result.waivers, known, f"{waivers}: ")
    compared = None if baseline is None else compare(record.load(baseline), result)
    console = Console()
    _show(result, console)
    if compared is not None:
        console.print()
        comparison.show(compared, console, everything=False)
    outcome = worst([result.outcome, *([compared.outcome] if compared else [])])
    console.print(f"\nOutcome: {outcome}", highlight=False)
    ctx.exit(EXIT_CODES[outcome])


def _show(result: AuditResult, console: Console) -> None:
    from rich.table import Table
    from rich.text import Text

    from dpaudit.core.messages import plain

    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for word, lines in _findings(result):
        style = _STYLES.get(word, "bold red")
        table.add_row(Text(word.upper(), style), Text("\n".join(map(plain, lines))))
    console.print(table)
    if not result.gates:
        console.print("no gates: add [[gate]] to the config or give --policy")


def _findings(result: AuditResult) -> Iterator[tuple[str, list[str]]]:
    """Yield a word and lines for each broken claim, gate, and waiver that needs attention."""
    from dpaudit.reports.sections.waivers import sentence

    waived = {
        each.id: [sentence(each, result)] for each in result.waivers if each.state == "active"
    }
    expected = [] if result.fail_on_broken else ["fail_on_broken = false: no failure"]
    for claim in result.verdicts:
        if claim.verdict == "broken":
            said = f"certified ε >= {claim.certified:.4g}, above the claimed {claim.claimed:g}"
            word = "waived" if claim.id in waived else "broken"
            yield word, [claim.id, said, *waived.get(claim.id, expected)]
    for found in result.gates:
        why = waived.get(found.id, []) if found.outcome != "pass" else []
        yield (
            "waived" if why else found.outcome,
            [found.rule, found.reason, *why, f"id: {found.id}"],
        )
    for waiver in result.waivers:
        if waiver.state != "active":
            yield waiver.state, [sentence(waiver, result)]
