"""`dpaudit list`, `show` and `schema`."""

from __future__ import annotations

import inspect
import json
import re
from dataclasses import MISSING, fields
from typing import Any, cast, get_args, get_type_hints

import click

from dpaudit.core.errors import ConfigError


@click.command("list")
@click.argument(
    "what",
    type=click.Choice(["recommenders", "defenses", "attacks", "reports", "data", "metrics"]),
)
def list_(what: str) -> None:
    """List recommenders, defenses, attacks, reports, data sets or metrics."""
    for name, title in _titles(what).items():
        click.echo(f"{name:24} {title}")


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
    known = [each for group in groups for each in registry.names(group)]
    raise ConfigError(
        f"there is no recommender, defense or attack {name!r}{registry.suggestion(name, known)}"
    )


@click.command()
def schema() -> None:
    """Print the config's JSON Schema, for editors."""
    from dpaudit.config.schema import Config

    click.echo(json.dumps(Config.model_json_schema(), indent=2))


def _titles(what: str) -> dict[str, str]:
    if what == "metrics":
        from dpaudit.record.metrics import METRICS

        return {
            metric.name: f"{metric.words} ({metric.unit}"
            + (", may gate)" if metric.gateable else ")")
            for metric in METRICS.values()
        }
    if what == "data":
        from dpaudit.data.download import DATASETS

        return {
            "synthetic": "embedded generator of MovieLens-like ratings",
            **{name: dataset.title for name, dataset in DATASETS.items()},
        }
    from dpaudit.core import registry

    parts = registry.load_all(cast(registry.Group, what))
    return {name: getattr(part, "title", _first_line(part)) for name, part in parts.items()}


def _first_line(part: Any) -> str:
    return (inspect.getdoc(part) or "").partition("\n")[0]


def _explain(part: Any) -> None:
    from dpaudit.config.compatibility.trained import PAIRS
    from dpaudit.defenses.base import ListDefense, OnDemandDefense, TrainedDefense
    from dpaudit.recommenders.base import Recommender

    click.echo(f"{part.name}: {part.title}\n\nSource: {part.source}\n")
    click.echo(inspect.getdoc(part))
    # ε and the variant are keys of [[model]], not parameters.
    parameters = [field for field in fields(part) if field.name not in {"epsilon", "variant"}]
    if parameters:
        click.echo("\nParameters:")
    for field in parameters:
        default = field.default if field.default_factory is MISSING else field.default_factory()
        click.echo(f"  {field.name} = {default!r}{_inherited(part, field.name)}")
    if issubclass(part, Recommender):
        click.echo("\nUsed in: [[recommender]]")
        return
    if not issubclass(part, TrainedDefense | OnDemandDefense):
        click.echo(f"\nUsed in: {_used_in(part)}")
        return
    click.echo("\nObservers for [[game]]:")
    for name, observer in part(epsilon=1.0).observers().items():
        click.echo(f"  {name}: {observer.words}")
    click.echo("\nPairs for [[game]]:")
    for name, summary in (PAIRS if issubclass(part, TrainedDefense) else _pairs(part)).items():
        click.echo(f"  {name}: {summary}")
    if not issubclass(part, TrainedDefense | ListDefense):
        click.echo("  data: one rating changed in the audited data, chosen by search")


def _inherited(part: Any, name: str) -> str:
    """Return what a base class says of a parameter that the class itself does not explain."""
    line = re.compile(rf"^ +{name}: (.+(?:\n {{8,}}(?! *\w+: ).+)*)", re.MULTILINE)
    own, *bases = ((base.__doc__ or "") for base in part.__mro__)
    found = None if line.search(own) else next(filter(None, map(line.search, bases)), None)
    return f"   # {' '.join(found[1].split())}" if found else ""


def _used_in(part: Any) -> str:
    """Return the table of the config that names an attack, and what it reads."""
    from dpaudit.attacks import base as roles

    role = next(base for base in part.__mro__ if base.__module__ == roles.__name__)
    where = (role.__doc__ or "").partition(":")[0].replace("`", "")
    pairs = part.reads if issubclass(part, roles.Reads) else ()
    reads = [" with ".join(each.__name__ for each in pair) for pair in pairs]
    return f"{where}; reads {', or '.join(reads)}" if reads else where


def _pairs(part: Any) -> dict[str, str]:
    """Return the pairs of all variants and adjacencies; non-default ones are in parentheses."""
    from pydantic import ValidationError

    default = next(field.default for field in fields(part) if field.name == "adjacency")
    others = [each for each in get_args(get_type_hints(part)["adjacency"]) if each != default]
    found: dict[str, str] = {}
    for adjacency in (default, *others):
        for variant in ("published", "corrected"):
            try:
                pairs = part(epsilon=1.0, variant=variant, adjacency=adjacency).pairs()
            except ValidationError:
                continue
            needs = [variant] if variant != "published" else []
            needs += [f"adjacency {adjacency}"] if adjacency != default else []
            for name, summary in pairs.items():
                found.setdefault(name, f"{summary} ({', '.join(needs)})" if needs else summary)
    return found
