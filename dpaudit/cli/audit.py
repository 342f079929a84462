"""`dpaudit run`, `report`, `split`, `merge` and `runs`: a run, its shards and its tasks."""

from __future__ import annotations

from functools import partial
from operator import methodcaller
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dpaudit.cli import options, writing
from dpaudit.cli.options import PathType
from dpaudit.cli.stopping import keeps_nothing, keeps_tasks
from dpaudit.core.errors import ConfigError
from dpaudit.core.files import own_folder
from dpaudit.core.messages import place, plain
from dpaudit.core.rounding import size

if TYPE_CHECKING:
    from dpaudit.config.schema import Config
    from dpaudit.execution.workers import Workers


def found(_: click.Context, __: click.Parameter, config: Path | None) -> Path:
    """Return the config that is given, else the one of the current folder."""
    from dpaudit.config import load as config_file

    return config or config_file.find(Path())


@click.command()
@click.argument("config", required=False, type=PathType(), callback=found)
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
@options.overrides("the config")
@writing.report_option
@options.waivers("of the config")
@options.workers
@click.option(
    "--fresh",
    is_flag=True,
    help="Run everything again; drop the finished tasks in the folder, of any run.",
)
@options.force
@click.option(
    "--shard",
    metavar="I/N",
    help="Run only the I-th of N parts, and write no record: 'dpaudit merge' makes it of all.",
)
@options.allow_code
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
    from dpaudit.auditor.plan import Plan, RunFolder
    from dpaudit.config import load as config_file
    from dpaudit.execution.reporter import Reporter
    from dpaudit.execution.tasks import Shard

    part = None if shard is None else Shard.parse(shard)
    if part is not None and reports:
        raise ConfigError("a shard has no reports: give --report to 'dpaudit merge'")
    seed = None if seed is None else _seed(seed)
    checked = config_file.load(config, overrides, seed=seed, checks=[partial(_check, waivers)])
    if waivers is not None:
        checked = checked.model_copy(update={"waiver": config_file.load_waivers(waivers)})
        Plan(checked).check_waivers(f"{waivers}: ")
    writing.reads(ctx, checked.source)
    target = writing.Output.of(output or own_folder(config.stem), reports)
    folder = target.folder
    kept = RunFolder(folder, fresh, force)
    plan = Plan(checked, kept, allow_code)
    replaced = kept.check(checked) if part is None else ""
    writing.begin(ctx)
    if checked.ordered:
        keeps_nothing(ctx, "as calls of a black box may depend on each other")
    else:
        keeps_tasks(ctx, folder / auditor.store_name(part), fresh=fresh)
    if allow_code:
        options.import_from(config.parent, checked.code)
    workers = options.workers_of(checked, workers)
    if allow_code and workers.backend == "threads":
        options.import_now(checked.code)
    placed = config_file.placing(checked, config, overrides)
    with Reporter(quiet=quiet) as reporter, placed:
        if replaced and not quiet:
            reporter.note(replaced)
        if part is not None:
            auditor.run_shard(plan, part, workers=workers, progress=reporter)
        else:
            result = auditor.run(plan, workers, reporter)
    if part is not None:
        if not quiet:
            writing.echo(f"Shard {part} is done; when all are: dpaudit merge {place(folder)}")
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
    type=PathType(allow_dash=True),
    default=writing.STANDARD_OUTPUT,
    help="A file, or a folder for svg.  [default: standard output]",
)
def report(folder: Path, name: str, output: Path) -> None:
    """Render a report from the record of a finished run in FOLDER; nothing is run again."""
    from dpaudit.record import storage as record

    writing.check_target(name, output)
    source = folder / record.NAME if folder.is_dir() else folder
    if output.resolve() == source.resolve():
        raise ConfigError(
            f"the report would replace {place(source)}, its record: give -o another file"
        )
    writing.deliver(writing.render(name, output, record.load(folder)))


def _seed(text: str) -> str:
    if text == "entropy" or (text.isascii() and text.isdecimal() and int(text) < 2**64):
        return text if text == "entropy" else str(int(text))
    raise ConfigError(f"the option --seed {text!r} is neither a 64-bit integer nor entropy")


@click.command()
@click.argument("config", type=PathType())
def split(config: Path) -> None:
    """Write the data of each training of CONFIG, to train elsewhere.

    For each [[recommender]] with returned = FOLDER a folder is written for each training, with
    task.json and the tables that it names: what to train on, the seed, and what is asked. Train in
    any way, write the answers beside them, and bring the folders back: 'dpaudit run' judges them.
    """
    from dpaudit.audits.membership.config import MembershipConfig
    from dpaudit.audits.membership.training import hand_out
    from dpaudit.config import load as config_file

    checked = config_file.load(config, checks=[methodcaller("check_named")])
    if not isinstance(checked, MembershipConfig):
        raise ConfigError(
            f"{config} has no [[recommender]]: 'dpaudit split' is for their trainings"
        )
    folders = list(hand_out(checked))
    parents = ", ".join(dict.fromkeys(str(folder.parent) for folder in folders))
    handed = f"{len(folders)} trainings are in {parents}."
    writing.tell([f"{handed} Train on each task.json, and write what it asks."])
    writing.echo(f"Then run: dpaudit run {config}")  # to be copied


@click.command()
@click.argument("folders", nargs=-1, required=True, type=PathType())
@click.option(
    "-o",
    "--output",
    type=PathType(file_okay=False),
    help="Output folder for the merged tasks, the record and the reports.  [default: the first]",
)
@writing.report_option
@options.force
@click.option("-q", "--quiet", is_flag=True, help="Print nothing but errors.")
@click.pass_context
def merge(
    ctx: click.Context,
    folders: tuple[Path, ...],
    output: Path | None,
    reports: tuple[str, ...],
    force: bool,
    quiet: bool,
) -> None:
    """Merge the shards in FOLDERS into one record; the exit code is the outcome of its gates.

    All must be there, finished, and of one run. If further tasks follow from their results, such as
    those of positive controls, it says so: run the shards again, and merge again.
    """
    from dpaudit.auditor import run as auditor
    from dpaudit.execution.reporter import Reporter

    target = writing.Output.of(output or folders[0], reports)
    with Reporter(quiet=quiet) as reporter:
        result = auditor.merge(folders, target.folder, force=force, progress=reporter)
    ctx.exit(target.finish(result, quiet=quiet))


@click.command()
@click.argument("folder", type=PathType())
def runs(folder: Path) -> None:
    """List the finished tasks in FOLDER: of which stages, how many, and how large."""
    from rich.table import Table
    from rich.text import Text

    from dpaudit.execution.store import read

    stores = sorted(folder.glob("tasks*.sqlite"))
    if not stores:
        raise ConfigError(f"{folder} holds no finished tasks: name the output folder of a run")
    for path in stores:
        contents = read(path)
        if not contents.meta:
            raise ConfigError(f"{contents.damage or path}: remove it, or start its run again")
        about = plain(
            ", ".join(f"{name} {word}" for name, word in _about(contents.meta, contents.identity))
        )
        writing.echo(f"{plain(str(path))}, {size(path.stat().st_size)}{about and ': ' + about}")
        if contents.damage:
            writing.echo(contents.damage)
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        table.add_column("stage", overflow="fold")
        for name in ("tasks", "trials", "size", "seconds"):
            table.add_column(name, justify="right")
        for stage, total in contents.stages.items():
            cells = (total.tasks, total.trials, size(total.size), f"{total.seconds:.1f}")
            table.add_row(Text(plain(stage)), *map(str, cells))
        writing.screen().print(table)


def _about(meta: dict[str, str], identity: dict[str, str]) -> list[tuple[str, str]]:
    """Return what identifies a store's run; a secret seed is not told."""
    facts = [("dpaudit", identity.get("tool", "unknown"))]
    if meta.get("secret") == "no":
        facts.append(("seed", identity.get("seed", "unknown")))
    if meta.get("trials"):
        facts.append(("trials planned", meta["trials"]))
    if "shard" in meta:
        facts.append(("shard", meta["shard"]))
        facts.append(("finished", meta.get("finished", "no")))
    return facts
