"""`dpaudit merge` and `runs`: shards, and the finished tasks of a folder."""

from __future__ import annotations

from pathlib import Path

import click

from dpaudit.cli.failing import report_option
from dpaudit.cli.options import PathType, force_option
from dpaudit.cli.writing import Output, echo, screen
from dpaudit.core.errors import ConfigError
from dpaudit.core.rounding import size


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
        for stage, one in contents.stages.items():
            cells = (one.tasks, one.trials, size(one.size), f"{one.seconds:.1f}")
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
