"""`dpaudit list`, `show` and `schema`."""

from __future__ import annotations

import inspect
import json
from textwrap import fill, indent
from typing import Any, cast

import click

from dpaudit.cli.writing import echo
from dpaudit.core.errors import ConfigError

# Of the lines that explain a parameter, in characters.
_WIDTH = 94
# The width of the column of names.
_NAME = 24


@click.command("list")
@click.argument(
    "what",
    type=click.Choice(
        ["recommenders", "defenses", "attacks", "audits", "reports", "data", "metrics"]
    ),
)
def list_(what: str) -> None:
    """List recommenders, defenses, attacks, kinds of audit, reports, data sets or metrics."""
    for name, title in _titles(what).items():
        echo(f"{name:{_NAME}} {title}")
    for fault in _faults(what):
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


def _titles(what: str) -> dict[str, str]:
    if what == "metrics":
        return _metrics()
    if what == "data":
        from dpaudit.data.download import DATASETS

        return {
            "synthetic": "embedded generator of MovieLens-like ratings",
            **{name: dataset.title for name, dataset in DATASETS.items()},
        }
    from dpaudit.core import registry

    parts = registry.every(cast(registry.Group, what))
    return {name: getattr(part, "title", _first_line(part)) for name, part in parts.items()}


def _faults(what: str) -> list[str]:
    """Say which plug-ins of a group cannot be used; measures and metrics belong together."""
    from dpaudit.core import registry
    from dpaudit.record.metrics import faults

    if what == "data":
        return []
    if what == "metrics":
        return [*faults(), *registry.broken("measures")]
    return registry.broken(cast(registry.Group, what))


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


def _first_line(part: Any) -> str:
    return (inspect.getdoc(part) or "").partition("\n")[0]


def _explain(part: Any) -> None:
    from dpaudit.cli.explain import explain

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
