"""`dpaudit init`: write a commented config that can be run."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

import click

from dpaudit.core.errors import ConfigError
from dpaudit.core.files import write_text

if TYPE_CHECKING:
    from dpaudit.data.ratings import Ratings


@click.command()
@click.argument("path", default="dpaudit.toml", type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--recommender",
    metavar="LIBRARY",
    help="Audit a recommender of this library for membership inference; see 'dpaudit list "
    "recommenders'.",
)
@click.option(
    "--data",
    type=click.Path(path_type=Path, dir_okay=False),
    help="A file of interactions (text or Parquet), whose layout is guessed.  [default: synthetic]",
)
def init(path: Path, recommender: str | None, data: Path | None) -> None:
    """Write a commented example config that can be run."""
    from importlib.resources import files

    if path.exists():
        raise ConfigError(f"{path} already exists: name another file or remove it")
    if recommender is None:
        if data is not None:
            raise ConfigError("--data needs --recommender LIBRARY: add it, or edit [data] by hand")
        text = files("dpaudit.cli").joinpath("template.toml").read_text(encoding="utf-8")
        said = ""
    else:
        text, said = _own(recommender, data)
    write_text(path, text)
    click.echo(f"{said}{path} is written; run it with: dpaudit run {path}")


def _own(library: str, data: Path | None) -> tuple[str, str]:
    """Return the config of a library's recommender, and what was found in the data."""
    from importlib.resources import files

    from dpaudit.core import registry
    from dpaudit.data.readers.load import load
    from dpaudit.data.sniff import source_of
    from dpaudit.data.source import DataSource

    plugin = registry.load("recommenders", library)
    source = DataSource() if data is None else source_of(data)
    ratings = load(source)
    template = files("dpaudit.cli").joinpath("recommender.toml").read_text(encoding="utf-8")
    text = Template(template).substitute(
        data="\n".join(_data(source)),
        library=library,
        params=_params(plugin),
        **_sizes(ratings),
    )
    said = (
        f"Found {len(ratings)} interactions of {ratings.n_users} users with {ratings.n_items} "
        "items. "
    )
    return text, said


def _data(source: Any) -> list[str]:
    """Return the lines of `[data]`."""
    from dpaudit.reports.render.toml import inline

    kept = {
        name: getattr(source, name)
        for name in ("format", "path", "delimiter", "header", "on_duplicate")
        if name in source.model_fields_set and getattr(source, name) not in (None, False)
    }
    lines = [f"{name} = {inline(value)}" for name, value in kept.items()]
    for name in ("columns", "scale"):
        table = getattr(source, name)
        if table is not None:
            lines.append(f"{name} = {inline(table.model_dump(exclude_none=True))}")
    return lines or ['format = "synthetic"']


def _sizes(ratings: Ratings) -> dict[str, str]:
    """Return numbers of targets that fit the data, and the false-positive rates that they show."""
    from dpaudit.config.membership import sizes_for
    from dpaudit.reports.render.toml import inline

    sizes = sizes_for(ratings)
    return {
        **{name: inline(value) for name, value in sizes._asdict().items()},
        "rate": f"{max(sizes.rates):g}",
    }


def _params(plugin: type[Any]) -> str:
    """Return the adapter's parameters at their defaults."""
    from dpaudit.reports.render.toml import inline

    return inline({field.name: getattr(plugin(), field.name) for field in fields(plugin)})
