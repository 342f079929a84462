"""`dpaudit data`, `list`, `show` and `schema`: what there is, and what it is."""

from __future__ import annotations

import inspect
import json
import os
import re
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from textwrap import fill, indent
from typing import Any, cast, get_args, get_type_hints

import click

from dpaudit.cli.options import PathType
from dpaudit.cli.writing import echo
from dpaudit.core.errors import ConfigError

_SECTION = re.compile(r"^(?:Attributes|Example|Examples|Raises|Note|Notes):$")
_ENTRY = re.compile(r"^    (\w+): (.*)$")
# Of the lines that explain a parameter, in characters.
_WIDTH = 94
# The width of the column of names.
_NAME = 24


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
    place = fetch(dataset, folder, progress=True)
    echo(f"{name} is in {place}")


@click.command("list")
@click.argument(
    "what",
    type=click.Choice(
        ["recommenders", "defenses", "attacks", "audits", "reports", "data", "metrics"]
    ),
)
def list_(what: str) -> None:
    """List recommenders, defenses, attacks, kinds of audit, reports, data sets or metrics."""
    titles, faults = _listed(what)
    for name, title in titles.items():
        echo(f"{name:{_NAME}} {title}")
    for fault in faults:
        echo(f"not usable: {fault}")


@click.command()
@click.argument("name")
def show(name: str) -> None:
    """Explain a recommender, defense or attack: source, parameters, observers, pairs."""
    from dpaudit.core import registry

    groups: tuple[registry.Group, ...] = ("recommenders", "defenses", "attacks")
    for group in groups:
        if name in registry.names(group):
            _explain(registry.load(group, name))
            return
    known = [plugin for group in groups for plugin in registry.names(group)]
    raise ConfigError(
        f"there is no recommender, defense or attack {name!r}{registry.suggestion(name, known)}"
    )


@click.command()
def schema() -> None:
    """Print the config's JSON Schema, for editors."""
    from dpaudit.config.schema import json_schema

    echo(json.dumps(json_schema(), indent=2))


def _listed(what: str) -> tuple[dict[str, str], list[str]]:
    """Return the title of each one by name, and which plug-ins cannot be used."""
    from dpaudit.core import registry

    if what == "metrics":
        from dpaudit.record.metrics import faults

        return _metrics(), [*faults(), *registry.broken("measures")]  # they belong together
    if what == "data":
        from dpaudit.data.download import DATASETS

        synthetic = {"synthetic": "embedded generator of MovieLens-like ratings"}
        return synthetic | {name: dataset.title for name, dataset in DATASETS.items()}, []
    group = cast(registry.Group, what)
    titles = {
        name: getattr(part, "title", (inspect.getdoc(part) or "").partition("\n")[0])
        for name, part in registry.every(group).items()
    }
    return titles, registry.broken(group)


def _metrics() -> dict[str, str]:
    """Return the meaning of each metric, its unit, where it is from and how it may gate."""
    from dpaudit.record.metrics import table

    descriptions: dict[str, str] = {}
    for metric in table().values():
        lines = [metric.words, f"unit: {metric.unit}", f"from: {'; '.join(metric.sources)}"]
        if metric.where:
            where = ", ".join(metric.where)
            lines.append(f"may gate (larger is {metric.larger}), where: {where}")
        descriptions[metric.name] = f"\n{'':{_NAME}} ".join(lines)
    return descriptions


def _explain(part: Any) -> None:
    said = explain(part)
    echo(f"{said.name}: {said.title}\n\nSource: {said.source}\n\n{said.text}")
    if said.parameters:
        echo("\nParameters:")
    for name, (default, meaning) in said.parameters.items():
        echo(f"  {name} = {default!r}\n{indent(fill(meaning, _WIDTH), ' ' * 6)}")
    if said.used_in is not None:
        echo(f"\nUsed in: {said.used_in}")
        return
    for title, rows in (("Observers", said.observers), ("Pairs", said.pairs)):
        echo(f"\n{title} for [[game]]:")
        for name, words in rows.items():
            echo(f"  {name}: {words}")


@dataclass(frozen=True)
class Explanation:
    """What is said of a plug-in.

    Attributes:
        name: its name in a config.
        title: what it is, in one line.
        source: the paper with its year and equations.
        text: its docstring without the explanation of the parameters.
        parameters: each parameter with its default and its meaning.
        observers: who observes it and what they see; of a defense.
        pairs: the pairs of data sets that games compare; of a defense.
        used_in: the table of the config that names it, and what it reads; None of a defense.
    """

    name: str
    title: str
    source: str
    text: str
    parameters: dict[str, tuple[Any, str]]
    observers: dict[str, str]
    pairs: dict[str, str]
    used_in: str | None


def explain(plugin: Any) -> Explanation:
    """Explain a registered recommender, defense or attack."""
    from dpaudit.defenses.base import Defense

    defense = issubclass(plugin, Defense)
    seen = plugin(epsilon=1.0).observers() if defense else {}
    return Explanation(
        name=plugin.name,
        title=plugin.title,
        source=plugin.source,
        text=text(plugin),
        parameters=_parameters(plugin),
        observers={name: observer.words for name, observer in seen.items()},
        pairs=_pairs(plugin) if defense else {},
        used_in=None if defense else _used_in(plugin),
    )


def _parameters(plugin: Any) -> dict[str, tuple[Any, str]]:
    said = attributes(plugin)
    # ε and the variant are keys of [[model]], not parameters.
    return {
        field.name: (
            field.default if field.default_factory is MISSING else field.default_factory(),
            said.get(field.name, ""),
        )
        for field in fields(plugin)
        if field.name not in {"epsilon", "variant"}
    }


def _used_in(plugin: Any) -> str:
    """Return the table of the config that names a plug-in, and what an attack reads."""
    from dpaudit.attacks import base as roles
    from dpaudit.recommenders.base import Recommender

    if issubclass(plugin, Recommender):
        return "[[recommender]]"
    role = next(base for base in plugin.__mro__ if base.__module__ == roles.__name__)
    where = (role.__doc__ or "").partition(":")[0].replace("`", "")
    pairs = plugin.reads if issubclass(plugin, roles.Reads) else ()
    reads = [" with ".join(part.__name__ for part in pair) for pair in pairs]
    return f"{where}; reads {', or '.join(reads)}" if reads else where


def _pairs(plugin: Any) -> dict[str, str]:
    """Return the pairs of a defense with their summaries."""
    from dpaudit.audits.trained.config import PAIRS
    from dpaudit.defenses.base import ListDefense, TrainedDefense

    if issubclass(plugin, TrainedDefense):
        return dict(PAIRS)
    pairs = _constructed(plugin)
    if not issubclass(plugin, ListDefense):
        pairs["data"] = "one rating changed in the audited data, chosen by search"
    return pairs


def _constructed(plugin: Any) -> dict[str, str]:
    """Return the pairs of all variants and adjacencies; non-default ones are in parentheses."""
    from pydantic import ValidationError

    default = next(field.default for field in fields(plugin) if field.name == "adjacency")
    others = [
        adjacency
        for adjacency in get_args(get_type_hints(plugin)["adjacency"])
        if adjacency != default
    ]
    summaries: dict[str, str] = {}
    for adjacency in (default, *others):
        for variant in ("published", "corrected"):
            try:
                pairs = plugin(epsilon=1.0, variant=variant, adjacency=adjacency).pairs()
            except ValidationError:
                continue
            needs = [variant] if variant != "published" else []
            needs += [f"adjacency {adjacency}"] if adjacency != default else []
            for name, summary in pairs.items():
                summaries.setdefault(name, f"{summary} ({', '.join(needs)})" if needs else summary)
    return summaries


def attributes(kind: type) -> dict[str, str]:
    """Return the description of each attribute of a class and its bases; the class's own first."""
    texts: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        texts |= _entries(_parts(base)[1])
    return texts


def text(kind: type) -> str:
    """Return the docstring of a class without the section that explains its attributes."""
    return "\n".join(_parts(kind)[0]).strip()


def _parts(kind: type) -> tuple[list[str], list[str]]:
    """Return the lines outside the section `Attributes`, and those in it."""
    outside: list[str] = []
    inside: list[str] = []
    lines = inspect.cleandoc(vars(kind).get("__doc__") or "").splitlines()
    into = outside
    for line in lines:
        if _SECTION.match(line):
            into = inside if line == "Attributes:" else outside
            if into is inside:
                continue
        elif line and into is inside and not line.startswith(" "):
            into = outside
        into.append(line)
    return outside, inside


def _entries(lines: list[str]) -> dict[str, str]:
    entries: dict[str, str] = {}
    name = None
    for line in lines:
        begun = _ENTRY.match(line)
        if begun:
            name = begun[1]
            entries[name] = begun[2]
        elif name is not None and line.strip():
            entries[name] += f" {line.strip()}"
    return entries
