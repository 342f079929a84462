"""`dpaudit data`."""

from __future__ import annotations

import os
from pathlib import Path

import click

from dpaudit.cli.options import PathType
from dpaudit.cli.writing import echo
from dpaudit.core.errors import ConfigError


@click.group()
def data() -> None:
    """Download research data sets."""


@data.command()
@click.argument("name")
@click.option(
    "--folder",
    type=PathType(file_okay=False),
    help="Folder for the data set.  [default: $DPAUDIT_DATA]",
)
@click.option("--yes", is_flag=True, help="Accept the publisher's terms without being asked.")
def get(name: str, folder: Path | None, yes: bool) -> None:
    """Download a data set from its publisher, after showing the publisher's terms."""
    from dpaudit.core.registry import suggestion
    from dpaudit.data.download import DATASETS, fetch

    if name not in DATASETS:
        raise ConfigError(f"there is no data set {name!r}{suggestion(name, DATASETS)}")
    if folder is None:
        home = os.environ.get("DPAUDIT_DATA")
        if not home:
            raise ConfigError("no folder is given for the data: set DPAUDIT_DATA or give --folder")
        folder = Path(home)
    dataset = DATASETS[name]
    echo(f"{dataset.title}\n\n{dataset.terms.summary}\n")
    echo(f"Full terms: {dataset.terms.url}\nPlease cite: {dataset.terms.citation}\n")
    if not yes and not click.confirm("Do you accept these terms?"):
        raise ConfigError("the terms were not accepted, so nothing was downloaded")
    target = fetch(dataset, folder, progress=True)
    echo(f"{name} is in {target}")
