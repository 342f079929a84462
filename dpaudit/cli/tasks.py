"""`dpaudit split`, `merge` and `runs`: trainings done elsewhere, shards, and finished tasks."""

from __future__ import annotations

from operator import methodcaller
from pathlib import Path

import click

from dpaudit.cli.failing import report_option
from dpaudit.cli.options import PathType, force_option
from dpaudit.cli.writing import Output, echo, screen, tell
from dpaudit.core.errors import ConfigError
from dpaudit.core.rounding import size


@click.command()
@click.argument("config", type=PathType())
def split(config: Path) -> None:
    """Write the data of each training of CONFIG, to train elsewhere.

    For each [[recommender]] with returned = FOLDER a folder is written for each training, with
    task.json and the tables that it names: what to train on, the seed, and what is asked. Train in
    any way, write the answers beside them, and bring the folders back: 'dpaudit run' judges them.
    """
    from dpaudit.audits.membership.config import MembershipConfig
    from dpaudit.audits.membership.subject import hand_out
    from dpaudit.config import load as config_file

    checked = config_file.load(config, checks=[methodcaller("check_named")])
    if not isinstance(checked, MembershipConfig):
        raise ConfigError(
            f"{config} has no [[recommender]]: 'dpaudit split' is for their trainings"
        )
    folders = list(hand_out(checked))
    parents = ", ".join(dict.fromkeys(str(folder.parent) for folder in folders))
    handed = f"{len(folders)} trainings are in {parents}."
    tell([f"{handed} Train on each task.json, and write what it asks."])
    echo(f"Then run: dpaudit run {config}")  # to be copied


@click.command()
@click.argument("folders", nargs=-1, required=True, type=PathType())
@click.option(
    "-o",
    "--output",
    type=PathType(file_okay=False),
    help="Output folder for the merged tasks, the record and the reports.  [default: the first]",
)
@report_option
@force_option
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
    from dpaudit.auditor.shards import merge as merged
    from dpaudit.execution.reporter import Reporter

    target = Output.of(output or folders[0], reports)
    with Reporter(quiet=quiet) as reporter:
        result = merged(folders, target.folder, force=force, progress=reporter)
    ctx.exit(target.finish(result, quiet=quiet))


@click.command()
@click.argument("folder", type=PathType())
def runs(folder: Path) -> None:
    """List the finished tasks in FOLDER: of which stages, how many, and how large."""
    from rich.table import Table
    from rich.text import Text

    from dpaudit.core.messages import plain
    from dpaudit.execution.store import read

    places = sorted(folder.glob("tasks*.sqlite"))
    if not places:
        raise ConfigError(f"{folder} holds no finished tasks: name the output folder of a run")
    for place in places:
        contents = read(place)
        if not contents.meta:
            raise ConfigError(f"{contents.damage or place}: remove it, or start its run again")
        about = plain(
            ", ".join(f"{name} {word}" for name, word in _about(contents.meta, contents.identity))
        )
        echo(f"{plain(str(place))}, {size(place.stat().st_size)}{about and ': ' + about}")
        if contents.damage:
            echo(contents.damage)
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        table.add_column("stage", overflow="fold")
        for name in ("tasks", "trials", "size", "seconds"):
            table.add_column(name, justify="right")
        for stage, total in contents.stages.items():
            cells = (total.tasks, total.trials, size(total.size), f"{total.seconds:.1f}")
            table.add_row(Text(plain(stage)), *map(str, cells))
        screen().print(table)


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
