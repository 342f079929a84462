"""`dpaudit gate`."""

from __future__ import annotations

from pathlib import Path

import click

from dpaudit.cli.writing import EXIT_CODES


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "--policy",
    type=click.Path(path_type=Path, dir_okay=False),
    help="A TOML file with [[gate]] tables to use instead of the gates of the run.",
)
@click.pass_context
def gate(ctx: click.Context, folder: Path, policy: Path | None) -> None:
    """Evaluate gates on the finished run in FOLDER; the exit code is their outcome."""
    from dpaudit.auditor.gate import judge
    from dpaudit.config import load as config_file
    from dpaudit.core.messages import plain
    from dpaudit.record import storage as record
    from dpaudit.record.verdicts import decided

    result = record.load(folder)
    gates = result.gates
    if policy is not None:
        rules = config_file.load_policy(policy)
        gates = [judge(rule, result.points, result.measurements) for rule in rules]
    for found in gates:
        click.echo(f"{found.outcome.upper():12} {plain(found.rule)}\n{'':12} {plain(found.reason)}")
    if not gates:
        click.echo("no gates: add [[gate]] to the config or give --policy")
    outcome = decided(gates, result.verdicts, fail_on_broken=result.fail_on_broken)
    ctx.exit(EXIT_CODES[outcome])
