"""`dpaudit tune`: settings of a model that pass the gates of a config, and their price."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from dpaudit.cli import options, writing
from dpaudit.cli.audit import found
from dpaudit.cli.options import PathType
from dpaudit.cli.stopping import keeps_tasks
from dpaudit.core.errors import ConfigError
from dpaudit.core.files import own_folder
from dpaudit.core.messages import place

if TYPE_CHECKING:
    from dpaudit.execution.workers import Workers


@click.command()
@click.argument("config", required=False, type=PathType(), callback=found)
@click.option(
    "-o",
    "--output",
    type=PathType(file_okay=False),
    help="Output folder for tune.html, tune.md, tune.csv and tune.json, and for finished "
    "trainings: the same command goes on where an interrupted one was.  "
    "[default: dpaudit-out/NAME-tune of the config]",
)
@click.option(
    "--tuned",
    type=PathType(dir_okay=False),
    help="The file of the config with the setting that passes.  [default: tuned.toml beside "
    "CONFIG]",
)
@options.overrides("the config")
@options.workers
@options.force
@options.allow_code
@click.option("-q", "--quiet", is_flag=True, help="Print nothing but errors.")
@click.pass_context
def tune(
    ctx: click.Context,
    config: Path,
    output: Path | None,
    tuned: Path | None,
    overrides: tuple[str, ...],
    workers: Workers | None,
    force: bool,
    allow_code: bool,
    quiet: bool,
) -> None:
    """Search the settings of a model in CONFIG that pass its gates and keep most utility.

    [tune] of CONFIG names the settings and the number of trainings; without it those are searched
    that the library's adapter proposes. The search decides nothing: at most three settings are
    judged by new trainings, and the first that passes is written as a config for 'dpaudit run'.
    """
    from dpaudit.auditor.plan import Plan, RunFolder
    from dpaudit.audits.membership.config import MembershipConfig
    from dpaudit.config import load as config_file
    from dpaudit.execution.reporter import Reporter
    from dpaudit.execution.store import NAME
    from dpaudit.tuning import files
    from dpaudit.tuning.run import tune as search

    checked = config_file.load(config, overrides, checks=[lambda one: Plan(one).check_named()])
    if not isinstance(checked, MembershipConfig):
        raise ConfigError(
            f"{config} trains no model for [membership], and 'dpaudit tune' searches the settings "
            "of such a model: add [membership] with a [[recommender]]"
        )
    writing.reads(ctx, checked.source)
    folder = (output or own_folder(f"{config.stem}-tune")).absolute()
    target = (tuned or config.with_name("tuned.toml")).absolute()
    files.check(folder, target, config)
    keeps_tasks(ctx, folder / NAME, fresh=False)
    if allow_code:
        options.import_from(config.parent, checked.code)
    workers = options.workers_of(checked, workers)
    if allow_code and workers.backend == "threads":
        options.import_now(checked.code)
    placed = config_file.placing(checked, config, overrides)
    with Reporter(quiet=quiet, unit="trainings") as reporter, placed:
        outcome = search(
            checked,
            folder=RunFolder(folder, force=force),
            workers=workers,
            progress=reporter,
            allow_code=allow_code,
            path=str(config),
        )
    tuning = files.named(outcome, target)

    def show(written: bool) -> None:
        if not quiet:
            from dpaudit.tuning.report import next_command
            from dpaudit.tuning.report import show as show_result

            show_result(tuning, writing.screen())
            if written:
                writing.echo(f"Page, numbers and records: {place(folder)}")
            if command := next_command(tuning):
                writing.echo(f"Next: {command}{' --allow-code' * allow_code}")

    ctx.exit(
        writing.conclude(tuning.outcome, lambda: files.write(outcome, tuning, folder, target), show)
    )
