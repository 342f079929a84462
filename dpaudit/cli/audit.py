"""`dpaudit run` and `report`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dpaudit.cli.failing import begin, report_option
from dpaudit.cli.options import (
    PathType,
    allow_code_option,
    force_option,
    import_from,
    import_now,
    overrides_option,
    run_workers_option,
    waivers_option,
)
from dpaudit.cli.stopping import keeps_nothing, keeps_tasks
from dpaudit.cli.writing import STANDARD_OUTPUT, Output, deliver, echo, reads, render
from dpaudit.core.errors import ConfigError
from dpaudit.core.files import own_folder

if TYPE_CHECKING:
    from dpaudit.config.schema import Config
    from dpaudit.execution.workers import Workers


def _found(_: click.Context, __: click.Parameter, config: Path | None) -> Path:
    """Return the config that is given, else the one of the current folder."""
    from dpaudit.config import load as config_file

    return config or config_file.find(Path())


@click.command()
@click.argument("config", required=False, type=PathType(), callback=_found)
@click.option(
    "-o",
    "--output",
    type=PathType(file_okay=False),
    help="Output folder for record.json, report.html and report.md, and for finished tasks: the "
    "same command goes on where an interrupted one was. It is created, with missing parents.  "
    "[default: dpaudit-out/NAME of the config]",
)
@click.option(
    "--seed",
    metavar="NUMBER|entropy",
    help="Replace the config's seed; entropy draws one that the record does not store.  "
    "[default: the config's, or drawn]",
)
@overrides_option("the config")
@report_option
@waivers_option("of the config")
@run_workers_option
@click.option(
    "--fresh",
    is_flag=True,
    help="Run everything again; drop the finished tasks in the folder, of any run.",
)
@force_option
@click.option(
    "--shard",
    metavar="I/N",
    help="Run only the I-th of N parts, and write no record: 'dpaudit merge' makes it of all.",
)
@allow_code_option
@click.option("-v", "--verbose", is_flag=True, help="Print all numbers of each model, too.")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing but errors.")
@click.pass_context
def run(
    ctx: click.Context,
    config: Path,
    output: Path | None,
    seed: str | None,
    overrides: tuple[str, ...],
    reports: tuple[str, ...],
    waivers: Path | None,
    workers: Workers | None,
    fresh: bool,
    force: bool,
    shard: str | None,
    allow_code: bool,
    verbose: bool,
    quiet: bool,
) -> None:
    """Run the audit described by CONFIG; the exit code is the outcome of its gates.

    Without CONFIG, dpaudit.toml or [tool.dpaudit] of pyproject.toml in the current folder is used.
    """
    from dpaudit.auditor import run as auditor
    from dpaudit.auditor.folder import RunFolder
    from dpaudit.auditor.plan import Plan
    from dpaudit.auditor.shards import run_shard, store_name
    from dpaudit.config import load as config_file
    from dpaudit.core.messages import place
    from dpaudit.execution.reporter import Reporter
    from dpaudit.execution.tasks import Shard
    from dpaudit.execution.workers import Workers

    part = None if shard is None else Shard.parse(shard)
    if part is not None and reports:
        raise ConfigError("a shard has no reports: give --report to 'dpaudit merge'")
    seed = None if seed is None else _seed(seed)
    checked = config_file.load(config, overrides, seed=seed, checks=[partial(_check, waivers)])
    if waivers is not None:
        checked = checked.model_copy(update={"waiver": config_file.load_waivers(waivers)})
        Plan(checked).check_waivers(f"{waivers}: ")
    reads(ctx, checked.source)
    target = Output.of(output or own_folder(config.stem), reports)
    folder = target.folder
    plan = Plan(checked, RunFolder(folder, fresh, force), allow_code)
    replaced = plan.replaced() if part is None else ""
    begin(ctx)
    if checked.ordered:
        keeps_nothing(ctx, "as calls of a black box may depend on each other")
    else:
        keeps_tasks(ctx, folder / store_name(part), fresh=fresh)
    if allow_code:
        import_from(config.parent, checked.code)
    # A function of Python's holds the global lock.
    workers = workers or Workers.all_cores("processes" if checked.ordered else "threads")
    if allow_code and workers.backend == "threads":
        import_now(checked.code)
    placed = config_file.placing(checked, config, overrides)
    with Reporter(quiet=quiet) as reporter, placed:
        if replaced and not quiet:
            reporter.note(replaced)
        if part is not None:
            run_shard(plan, part, workers=workers, progress=reporter)
        else:
            result = auditor.run(plan, workers, reporter)
    if part is not None:
        if not quiet:
            echo(f"Shard {part} is done; when all are: dpaudit merge {place(folder)}")
        return
    ctx.exit(target.finish(result, quiet=quiet, details=verbose))


def _check(waivers: Path | None, config: Config) -> None:
    """Refuse a config that names nothing, and waivers of its own that name nothing."""
    from dpaudit.auditor.plan import Plan

    plan = Plan(config)
    plan.check_named()
    if waivers is None:
        plan.check_waivers()


@click.command()
@click.argument("folder", type=PathType())
@click.option(
    "--format", "name", default="html", show_default=True, help="One of 'dpaudit list reports'."
)
@click.option(
    "-o",
    "--output",
    type=PathType(dir_okay=False, allow_dash=True),
    default=STANDARD_OUTPUT,
    help="[default: standard output]",
)
def report(folder: Path, name: str, output: Path) -> None:
    """Render a report from the record of a finished run in FOLDER; nothing is run again."""
    from dpaudit.core.messages import place
    from dpaudit.record import storage as record

    source = folder / record.NAME if folder.is_dir() else folder
    if output.resolve() == source.resolve():
        raise ConfigError(
            f"the report would replace {place(source)}, its record: give -o another file"
        )
    deliver([(output, render(name, record.load(folder)))])


def _seed(text: str) -> str:
    if text == "entropy" or (text.isascii() and text.isdecimal() and int(text) < 2**64):
        return text if text == "entropy" else str(int(text))
    raise ConfigError(f"the option --seed {text!r} is neither a 64-bit integer nor entropy")
