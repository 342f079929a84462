"""What there is: defenses, attacks and reports, found through entry points.

Plug-ins register in the groups `dpaudit.defenses`, `dpaudit.attacks` and `dpaudit.reports`. One
that cannot be imported is an error only when it is asked for by name.
"""

from __future__ import annotations

import difflib
import functools
import re
import sys
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Literal

from pydantic import ValidationError

from dpaudit.core.errors import ConfigError
from dpaudit.core.messages import show

# How pydantic names a key of a table in which any may stand, and simple types.
_KEY, _TYPES = "[key]", {"bool", "float", "int", "str"}
_SHOULD, _TABLE = "Input should be ", re.compile(r"a valid dictionary( or instance of \w+)?")

# Of a value in a message so many characters are shown.
_SHOWN = 100

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
        raise ConfigError(first_problem(error, f"{place}.params", known, parameters)) from error


def first_problem(error: ValidationError, place: str, known: Iterable[str], given: Any) -> str:
    """The first problem of a refused part in one sentence: place, field, value, remedy.

    Args:
        error: pydantic's.
        place: where the part stands in the config.
        known: the fields that there are where the problem is.
        given: what was refused.
    """
    problem = error.errors()[0]
    keys = keys_of(problem["loc"], given)
    field = ".".join(str(key) for key in keys)
    where = f"{place}.{field}" if field else place
    if problem["type"] in {"unexpected_keyword_argument", "extra_forbidden"}:
        return f"{where} is not known{suggestion(field.rpartition('.')[2], known)}"
    # Of a value that may be one thing or another, each says why it is not that.
    reasons = [each["msg"] for each in error.errors() if keys_of(each["loc"], given) == keys]
    if problem["loc"][-1:] == (_KEY,):
        return f"{where}: {_joined(reasons).replace('input', 'the key', 1)}"
    shown = (
        ""
        if problem["type"] in {"missing", "value_error"}
        else f" = {show(problem['input'], _SHOWN)}"
    )
    return f"{where}{shown}: {_joined(reasons)}"


def keys_of(loc: Sequence[int | str], given: Any) -> tuple[int | str, ...]:
    """The keys that lead to a problem, without pydantic's own names of what a value may be.

    Args:
        loc: the place as pydantic tells it.
        given: what was refused.
    """
    found = []
    here = given
    for part in loc:
        if isinstance(part, int):  # of a list, or of one value that stands for a list
            inside = isinstance(here, list | tuple) and part < len(here)
            here = here[part] if inside else here
        elif isinstance(here, Mapping) and part in here:
            here = here[part]
        elif not _may_be_missing(part, here):
            continue
        found.append(part)
    return tuple(found)


def _may_be_missing(part: str, here: Any) -> bool:
    """Whether it may be a field that is missing in this table, and not the name of a type."""
    is_type = not part.isidentifier() or part in _TYPES or part[0].isupper()
    return isinstance(here, Mapping) and not is_type


def _joined(reasons: Iterable[str]) -> str:
    """Why a value is none of the things that it may be, in words."""
    words: list[str] = []
    for reason in dict.fromkeys(reasons):
        said = _TABLE.sub("a table", reason.removeprefix("Value error, "))
        said = said.partition(", unable to parse")[0]
        said = said.removeprefix(_SHOULD) if words else said
        words.append(said[:1].lower() + said[1:])
    return " or ".join(words)


def suggestion(word: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?`, or the list of what there is."""
    known = sorted(known)
    word = word[:_SHOWN]  # likeness takes time that grows with the square of the length
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
