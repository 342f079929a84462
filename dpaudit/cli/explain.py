"""What `dpaudit show` and the site say of a recommender, defense or attack, from its docstring."""

from __future__ import annotations

import inspect
import re
from dataclasses import MISSING, dataclass, fields
from typing import Any, get_args, get_type_hints

_SECTION = re.compile(r"^(?:Attributes|Example|Examples|Raises|Note|Notes):$")
_ENTRY = re.compile(r"^    (\w+): (.*)$")


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
    meanings = attributes(plugin)
    # ε and the variant are keys of [[model]], not parameters.
    return {
        field.name: (
            field.default if field.default_factory is MISSING else field.default_factory(),
            meanings.get(field.name, ""),
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
