"""What there is: defenses, attacks and reports, found through entry points.

Plug-ins register in the groups `dpaudit.defenses`, `dpaudit.attacks` and `dpaudit.reports`. One
that cannot be imported is an error only when it is asked for by name.
"""

from __future__ import annotations

import difflib
import functools
import sys
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import fields
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Literal

from pydantic import ValidationError

from dpaudit.errors import ConfigError

Group = Literal["defenses", "attacks", "reports"]


def names(group: Group) -> list[str]:
    """The registered names of a group, sorted."""
    return sorted(_found(group))


def load(group: Group, name: str) -> Any:
    """The registered object.

    Raises:
        ConfigError: there is no such name (with a suggestion), or its plug-in cannot be imported.
    """
    found = _found(group)
    if name not in found:
        raise ConfigError(
            f"there is no {group.removesuffix('s')} {name!r}{suggestion(name, found)}"
        )
    try:
        return found[name].load()
    except Exception as error:
        raise ConfigError(
            f"the {group.removesuffix('s')} {name!r} ({found[name].value}) cannot be imported: "
            f"{error}; repair or uninstall its package"
        ) from error


def load_all(group: Group) -> dict[str, Any]:
    """Every object of a group by name; a broken plug-in is left out with a warning."""
    loaded = {}
    for name in names(group):
        try:
            loaded[name] = load(group, name)
        except ConfigError as error:
            warnings.warn(str(error), stacklevel=2)
    return loaded


def create(group: Group, name: str, place: str, parameters: Mapping[str, Any]) -> Any:
    """A registered part with these hyper-parameters.

    Args:
        group: where to look.
        name: the part's name.
        place: where the part stands in the config, for the error.
        parameters: its hyper-parameters.

    Raises:
        ConfigError: an unknown name or parameter, or a value out of range.
    """
    try:
        part = load(group, name)
    except ConfigError as error:
        raise ConfigError(f"{place}: {error}") from error
    try:
        return part(**parameters)
    except ValidationError as error:
        known = [field.name for field in fields(part)]
        raise ConfigError(first_problem(error, f"{place}.params", known)) from error


def first_problem(error: ValidationError, place: str, known: Iterable[str]) -> str:
    """The first problem of a refused part in one sentence: place, field, value, remedy."""
    problem = error.errors()[0]
    field = ".".join(str(part) for part in problem["loc"])
    where = f"{place}.{field}" if field else place
    if problem["type"] in {"unexpected_keyword_argument", "extra_forbidden"}:
        return f"{where} is not known{suggestion(field.rpartition('.')[2], known)}"
    message = problem["msg"].removeprefix("Value error, ")
    message = message[0].lower() + message[1:]
    shown = "" if problem["type"] in {"missing", "value_error"} else f" = {problem['input']!r}"
    return f"{where}{shown}: {message}"


def suggestion(word: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?`, or the list of what there is."""
    known = sorted(known)
    close = difflib.get_close_matches(word, known, 1)
    if close:
        return f"; did you mean {close[0]!r}?"
    return f"; there is {', '.join(known)}" if known else ""


def _found(group: Group) -> Mapping[str, EntryPoint]:
    return _registered(group, tuple(sys.path))


@functools.cache
def _registered(group: Group, path: tuple[str, ...]) -> Mapping[str, EntryPoint]:
    """What the packages on this import path register: a search of it takes milliseconds."""
    return {point.name: point for point in entry_points(group=f"dpaudit.{group}")}
