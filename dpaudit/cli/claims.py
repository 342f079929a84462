"""`dpaudit claims`: published guarantees and their verdicts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from dpaudit.cli import options
from dpaudit.cli.options import NumberRange, PathType, WholeRange
from dpaudit.cli.stopping import keeps_tasks
from dpaudit.cli.writing import conclude, echo, screen
from dpaudit.core.errors import ConfigError
from dpaudit.core.files import check_writable, own_folder, write_set
from dpaudit.core.messages import place

if TYPE_CHECKING:
    from dpaudit.claims.record import PublishedClaim, Stop
    from dpaudit.execution.workers import Workers


@click.command()
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.option("--verify", is_flag=True, help="Run the games and derive the verdicts.")
@click.option(
    "-o",
    "--output",
    type=PathType(file_okay=False),
    help="Output folder for claims.json, claims.html, claims.md and finished games: an "
    "interrupted command resumes when repeated.  [default: dpaudit-out/claims]",
)
@click.option(
    "--trials",
    type=WholeRange(100, 100_000_000),
    help="Trials on each data set for every game.  [default: each game's own]",
)
@click.option("--confidence", type=NumberRange(0.5, 1, max_open=True), default=0.95)
@click.option(
    "--stop",
    type=click.Choice(["at-end", "when-decided"]),
    default="at-end",
    help="When games end: `when-decided` refutes false claims on few outputs, and certifies no "
    "more of them than that.",
)
@click.option(
    "--seed",
    type=WholeRange(0, 2**64 - 1),
    help="Seed of a verification to repeat.  [default: drawn, and kept in the folder]",
)
@click.option(
    "--data",
    "sources",
    multiple=True,
    metavar="CONFIG",
    type=PathType(dir_okay=False),
    help="Also run the claims about recommenders on the ratings of a config's [data].",
)
@options.processes
@click.option(
    "--fresh", is_flag=True, help="Run everything again; delete the finished games in the folder."
)
@click.option("-q", "--quiet", is_flag=True, help="Print nothing but errors.")
@click.pass_context
def claims(
    ctx: click.Context,
    ids: tuple[str, ...],
    verify: bool,
    output: Path | None,
    trials: int | None,
    confidence: float,
    stop: Stop,
    seed: int | None,
    sources: tuple[Path, ...],
    workers: Workers,
    fresh: bool,
    quiet: bool,
) -> None:
    """Show published guarantees with their verdicts, or run them with --verify.

    Without ID, the papers are listed. ID is a claim, which is explained, or the beginning of
    several, which are listed: pa11 selects all claims of that paper.

    Exit codes of --verify: 0 all verdicts are as in the catalogue, 1 a verdict differs, 2 usage,
    config or data error, 3 the command failed, or outputs could not be written and no verdict
    differs, 4 too few trials to decide, or nothing to run: what holds by algebra alone is held by
    tests of dpaudit's source tree.
    """
    from dpaudit.claims.catalogue import chosen

    entries = chosen(ids)
    if not verify:
        _show_entries(entries, ids)
        return
    from dpaudit.claims import console
    from dpaudit.claims import report as reports
    from dpaudit.claims.real_data import on_real_data
    from dpaudit.claims.verify import seed_of
    from dpaudit.claims.verify import verify as run
    from dpaudit.config import load as config_file
    from dpaudit.data.source import DataSource
    from dpaudit.execution.reporter import Reporter
    from dpaudit.execution.store import NAME
    from dpaudit.record.result import concluded

    output = output.absolute() if output else own_folder("claims")
    targets = {
        output / "claims.json": reports.render_json,
        output / "claims.md": reports.render_markdown,
        output / "claims.html": reports.render_html,
    }
    check_writable(targets)
    ratings = {path.stem: config_file.load(path).source or DataSource() for path in sources}
    if len(ratings) < len(sources):
        raise ConfigError(
            "two options --data name files with the same name: rename one of the files"
        )
    keeps_tasks(ctx, output / NAME, fresh=fresh)
    seed = seed_of(output, seed, fresh=fresh)
    extra = on_real_data(ratings, entries, seed)
    with Reporter(quiet=quiet, unit="games") as reporter:
        verification = run(
            entries,
            extra=extra,
            trials=trials,
            confidence=confidence,
            stop=stop,
            seed=seed,
            folder=output,
            fresh=fresh,
            workers=workers,
            progress=reporter,
        )

    def write() -> None:
        write_set({path: render(verification) for path, render in targets.items()})

    def show(written: bool) -> None:
        if not quiet:
            console.show(verification, screen())
        if not quiet and written:
            echo(f"Record and reports: {place(output)}")

    ctx.exit(conclude(concluded([reports.outcome(verification)]), write, show))


def _show_entries(entries: list[PublishedClaim], ids: tuple[str, ...]) -> None:
    from dpaudit.claims import console

    if not ids:
        console.show_papers(entries, screen())
        return
    explained = entries if len(entries) == 1 else [entry for entry in entries if entry.id in ids]
    listed = [entry for entry in entries if entry not in explained]
    if listed:
        console.show_list(listed, screen())
    for number, entry in enumerate(explained):
        if number or listed:
            echo()
        console.explain(entry, screen())
