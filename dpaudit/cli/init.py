"""`dpaudit init`: write a commented config that fits the data and can be run."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, Literal

import click

from dpaudit.cli import options
from dpaudit.cli.options import PathType
from dpaudit.cli.writing import echo, tell
from dpaudit.core.errors import ConfigError
from dpaudit.core.files import write_text
from dpaudit.core.messages import place

if TYPE_CHECKING:
    from dpaudit.data.source import MissingIds


class _AuditType(click.Choice[str]):
    """What is audited of a recommender."""

    def convert(self, value: Any, param: Any, ctx: Any) -> str:
        """Return it, or fail; another kind of audit is a table that the user writes."""
        from dpaudit.core import registry

        if value not in self.choices and value in registry.names("audits"):
            tables = sorted(registry.load("audits", value).config.marks)
            has = f" with [{tables[0]}]" if tables else ""
            self.fail(
                f"init writes configs of {' and '.join(self.choices)}, and none of {value}: write "
                f"one{has} by hand, as those in examples/ of the repository.",
                param,
                ctx,
            )
        return super().convert(value, param, ctx)


@click.command()
@click.argument("path", default="dpaudit.toml", type=PathType(dir_okay=False))
@click.option(
    "--recommender",
    metavar="LIBRARY",
    help="Audit a recommender of this library for membership inference; see 'dpaudit list "
    "recommenders'. For recbole and rectools also a script is written, which trains in an "
    "environment of its own.  [default: audit private recommenders, or if --data holds no ratings "
    "a recommender of implicit or the most popular items]",
)
@click.option(
    "--audit",
    type=_AuditType(["membership", "deletion", "dp-training"]),
    help="What is audited of a recommender: who is in its data, whether it forgets whom it is "
    "asked to delete, or whether its training by DP-SGD (opacus, jax-privacy, own) is private.  "
    "[default: membership]",
)
@click.option(
    "--data",
    type=PathType(),
    help="A file of ratings or interactions (text or Parquet, also a folder of Parquet files), "
    "whose layout is guessed.  [default: synthetic]",
)
@click.option(
    "--columns",
    metavar="user=A,item=B[,rating=C]",
    help="The columns of --data, by name or by position from 0; guessed by default.",
)
@click.option("--encoding", metavar="NAME", help="The encoding of --data.  [default: UTF-8]")
@options.defaulted(
    "--missing-ids",
    click.Choice(["error", "drop", "keep"]),
    "error",
    "What to do with rows of --data whose user or item is NaN, null, -1 and the like.",
)
@click.option(
    "--scale",
    metavar="LOW..HIGH",
    help="The range of the ratings of --data, such as 1..10; rows with others, such as -1 for "
    "'not rated', are left out. Guessed by default.",
)
def init(
    path: Path,
    recommender: str | None,
    audit: Literal["membership", "deletion", "dp-training"] | None,
    data: Path | None,
    columns: str | None,
    encoding: str | None,
    missing_ids: MissingIds,
    scale: str | None,
) -> None:
    """Write a commented config that can be run, for your data and your recommender."""
    from dpaudit.cli import draft
    from dpaudit.data.sniff import StatedLayout

    if audit == "dp-training":
        recommender = recommender or "opacus"
    script = draft.script_of(recommender, audit)
    beside = None if script is None else path.with_name(script.name)
    for file in filter(None, (path, beside)):
        if file.exists():
            raise ConfigError(f"{file} already exists: name another file or remove it")
    stated = draft.stated_by(columns, encoding, missing_ids, scale)
    if audit is not None:
        recommender = recommender or draft.usual_library()
    if data is not None:
        text, notes = draft.of_file(data, recommender, audit, stated)
    elif stated == StatedLayout():
        text, notes = draft.of_synthetic(recommender, audit), []
    else:
        raise ConfigError(
            "--columns, --encoding, --missing-ids and --scale describe a file: give --data"
        )
    write_text(path, text)
    if script is not None and beside is not None:
        write_text(beside, script.read_text(encoding="utf-8"))
        said = f"its head says how to install {recommender}"
        if audit == "dp-training":
            said = "put your training there"
        notes = [*notes, f"{place(beside)} is written; {said}."]
    name = place(path)
    tell(notes)
    allowed = "" if script is None else " --allow-code"
    run = f"dpaudit run {quote(name)}{allowed}"  # to be copied
    echo(f"{name} is written; run it with: {run}")
