"""The registry of plug-ins, found through entry points.

They register in the groups `dpaudit.defenses`, `dpaudit.recommenders`, `dpaudit.attacks`,
`dpaudit.audits`, `dpaudit.metrics`, `dpaudit.measures` and `dpaudit.reports`. One that cannot be
used raises an error when it is requested by name, and is left out where a whole group is asked for.
"""

from __future__ import annotations

import difflib
import functools
import re
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import fields
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from pkgutil import resolve_name
from traceback import format_tb
from typing import Any, Literal, TypeVar, get_args

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from dpaudit.core.errors import ConfigError
from dpaudit.core.messages import listed, quoted, show

# pydantic's names of an arbitrary key of a table, and of simple types.
_KEY, _TYPES = "[key]", {"bool", "float", "int", "str"}
_SHOULD, _TABLE = "Input should be ", re.compile(r"a valid dictionary( or instance of \w+)?")
_TABLES = {"dict_type", "model_type", "model_attributes_type", "dataclass_type"}
_ITEMS = re.compile(r"\w+ should have (at (?:least|most) \d+ items?) after validation, not .*")

# The fields of a defense that are keys of their own in `[[model]]`.
_SWEPT = ("epsilon", "variant")

# When an entry point is seen: it is read when its package is installed.
AGAIN = "once its package is installed again, also one installed by 'pip install -e'"
# Where the plug-ins of dpaudit itself are.
_OWN = "dpaudit."
# The most characters of a value that are shown in a message.
_SHOWN = 100
# The most characters of the reason why a plug-in cannot be imported.
_REASON = 300
# The most known names that are shown.
_LISTED = 40

T = TypeVar("T")
Group = Literal["defenses", "recommenders", "attacks", "audits", "metrics", "measures", "reports"]
# The class that the entry points of a group are subclasses of, or of which they are objects.
_CLASSES: Mapping[Group, str] = {
    "defenses": "dpaudit.defenses.base:Defense",
    "recommenders": "dpaudit.recommenders.base:Recommender",
    "attacks": "dpaudit.attacks.base:Attack",
    "measures": "dpaudit.auditor.measure:Measure",
}
_OBJECTS: Mapping[Group, str] = {
    "audits": "dpaudit.auditor.kind:AuditKind",
    "metrics": "dpaudit.record.metric:Metric",
}


def names(group: Group) -> list[str]:
    """Return the registered names of a group, sorted."""
    return sorted(_found(group))


def load(group: Group, name: str) -> Any:
    """Return the registered object.

    Raises:
        ConfigError: there is no such name (with a suggestion), or its plug-in cannot be imported or
            is none of the group.
    """
    points = _found(group)
    if name not in points:
        near = suggestion(name, points)
        if not _close(name, points):  # perhaps a plug-in that is new
            near += f"; a new entry point of dpaudit.{group} counts {AGAIN}"
        raise ConfigError(f"there is no {group.removesuffix('s')} {name!r}{near}")
    what = f"the {group.removesuffix('s')} {name!r} ({points[name].value})"
    try:
        plugin = points[name].load()
    except (Exception, SystemExit) as error:
        reason = quoted(f"{type(error).__name__}: {error}", _REASON)
        raise ConfigError(
            f"{what} cannot be imported: {reason}; repair or uninstall its package"
        ) from error
    fault = _fault(group, name, plugin)
    if fault:
        raise ConfigError(
            f"{what} {fault}: correct its entry point of dpaudit.{group}, or uninstall its package"
        )
    return plugin


def installed(group: Group, name: Any) -> Any | None:
    """Return the registered object; None if there is no such name.

    Raises:
        ConfigError: its plug-in cannot be imported, or is none of the group.
    """
    return load(group, name) if name in names(group) else None


def _fault(group: Group, name: str, plugin: Any) -> str:
    """Return why a plug-in cannot be used in its group; empty if it can."""
    wanted = ""
    if group in _CLASSES:
        base = resolve_name(_CLASSES[group])
        if not (isinstance(plugin, type) and issubclass(plugin, base)):
            wanted = f"subclass of {base.__module__}.{base.__name__}"
    elif group in _OBJECTS:
        base = resolve_name(_OBJECTS[group])
        several = plugin if group == "metrics" and isinstance(plugin, tuple | list) else [plugin]
        if not all(isinstance(one, base) for one in several):
            wanted = f"object of {base.__module__}.{base.__name__}"
    elif not callable(plugin):
        wanted = "function"
    if wanted:
        return f"is no {wanted}, but {_kind(plugin)}"
    # Records name a kind, and the kind of a measure decides where it runs.
    if group == "audits" and plugin.name != name:
        return f"has the name {plugin.name!r}, by which records know it"
    if group == "measures" and plugin.audit not in names("audits"):
        return f"is of no kind of audit: its attribute audit is {plugin.audit!r}"
    return ""


def _kind(plugin: Any) -> str:
    if isinstance(plugin, type):
        return f"the class {plugin.__name__}"
    return f"{'an' if type(plugin).__name__[0] in 'aeiou' else 'a'} {type(plugin).__name__}"


def every(group: Group) -> dict[str, Any]:
    """Return every object of a group that can be used, by name: dpaudit's own first."""
    return dict(_loaded(group, tuple(sys.path))[0])


def broken(group: Group) -> list[str]:
    """Say which plug-ins of a group cannot be used, why, and what to do about it."""
    return list(_loaded(group, tuple(sys.path))[1])


@functools.cache
def _loaded(group: Group, path: tuple[str, ...]) -> tuple[Mapping[str, Any], Sequence[str]]:
    points, usable, faults = _registered(group, path), {}, []
    for name in sorted(points, key=lambda name: (not _own(points[name]), name)):
        try:
            usable[name] = load(group, name)
        except ConfigError as error:
            faults.append(str(error))
    return usable, faults


def plugin_of(error: BaseException) -> str:
    """Name the plug-in of another package in whose code, or below it, an error was raised.

    A worker's error has its traceback as the text of its cause. Plug-ins may share a module:
    then the package is named.
    """
    tracebacks = [*format_tb(error.__traceback__), str(error.__cause__)]
    files = map(Path, reversed(re.findall(r'File "([^"]+)"', "".join(tracebacks))))
    others = [
        (group, point)
        for group in get_args(Group)
        for point in _found(group).values()
        if not _own(point)
    ]
    for file in files:
        home = _package(file, {point.module.partition(".")[0] for _, point in others})
        named = [
            f"the plug-in {point.name!r} of dpaudit.{group} ({point.value})"
            for group, point in others
            if _source(point.module) == file
        ]
        if home:
            return named[0] if len(named) == 1 else f"the package {home!r}, which has plug-ins"
    return ""


def _package(file: Path, names: Collection[str]) -> str:
    """Return which imported package, or module, a source file belongs to; empty for none."""
    for name in names:
        source = _source(name)
        inside = source and source.name == "__init__.py" and source.parent in file.parents
        if inside or source == file:
            return name
    return ""


def _source(module: str) -> Path | None:
    """Return the source file of a module that is imported."""
    source = getattr(sys.modules.get(module), "__file__", None)
    return Path(source) if source else None


def create(group: Group, name: str, place: str, parameters: Mapping[str, Any]) -> Any:
    """Create a registered plug-in with these hyper-parameters.

    Args:
        group: the group of the plug-in.
        name: the plug-in's name.
        place: where the plug-in stands in the config, for the error.
        parameters: its hyper-parameters.

    Raises:
        ConfigError: an unknown name or parameter, or a value out of range.
    """
    try:
        plugin = load(group, name)
    except ConfigError as error:
        raise ConfigError(f"{place}: {error}") from error
    what = f"{group.removesuffix('s')} {name!r}"
    return create_instance(plugin, place, parameters, what, _SWEPT if group == "defenses" else ())


def create_instance(
    plugin: type[T],
    place: str,
    parameters: Mapping[str, Any],
    what: str,
    others: Collection[str] = (),
) -> T:
    """Create an instance of a pydantic dataclass with these parameters.

    Args:
        plugin: the class.
        place: where it stands in the config, for the error.
        parameters: its parameters.
        what: what it is, for the error, such as `defense 'slope-one'`.
        others: its fields that are not in `params`.

    Raises:
        ConfigError: unknown parameters, all of which are named, or a value out of range.
    """
    try:
        return plugin(**parameters)
    except ValidationError as error:
        known = {field.name for field in fields(plugin)}  # type: ignore[arg-type]
        unknown = [key for key in parameters if key not in known]
        if unknown:
            fault = _unknown(unknown, known.difference(others), what)
            if "settings" in known and "did you mean" not in fault:
                fault += f"; what its constructor takes stands in {place}.params.settings"
            raise ConfigError(f"{place}.params.{fault}") from error
        raise ConfigError(first_problem(error, f"{place}.params", known, parameters)) from error


def _unknown(unknown: Sequence[str], known: Collection[str], what: str) -> str:
    """Describe unknown parameters in one sentence, with close names and all that are known."""
    *most, last = (quoted(name, _SHOWN) for name in unknown)
    if not most and known:
        return f"{last} is not known to {what}{suggestion(last, known)}"
    subject = f"{', '.join(most)} and {last} are" if most else f"{last} is"
    them = "them" if most else "it"
    if not known:
        return f"{subject} not known to {what}, which has no parameters: remove {them}"
    close = {name: match for name in unknown if (match := _close(name, known))}
    meant = ", ".join(f"{match!r} for {quoted(name, _SHOWN)}" for name, match in close.items())
    remedy = f"; did you mean {meant}?" if close else f": remove {them}"
    return f"{subject} not known to {what}, which knows {', '.join(sorted(known))}{remedy}"


def first_problem(error: ValidationError, place: str, known: Iterable[str], given: Any) -> str:
    """Describe the first validation error in one sentence: place, field, value, remedy.

    Args:
        error: pydantic's error.
        place: where the plug-in stands in the config.
        known: the valid fields at the place of the error.
        given: the refused input.
    """
    problem = error.errors()[0]
    keys = keys_of(problem["loc"], given)
    field = ".".join(str(key) for key in keys)
    where = f"{place}.{field}" if field else place
    if problem["type"] in {"unexpected_keyword_argument", "extra_forbidden"}:
        return f"{where} is not known{suggestion(field.rpartition('.')[2], known)}"
    # A union reports one error for each of its members.
    reasons = [detail["msg"] for detail in error.errors() if keys_of(detail["loc"], given) == keys]
    if problem["type"] == "missing":
        return f"{where} is missing: add it"
    if problem["loc"][-1:] == (_KEY,):
        return f"{where}: {_joined(reasons).replace('input', 'the key', 1)}"
    value = "" if problem["type"] == "value_error" else f" = {show(problem['input'], _SHOWN)}"
    return f"{where}{value}: {_joined(reasons)}{_remedy(problem, keys[-1] if keys else '')}"


def _remedy(problem: ErrorDetails, key: int | str) -> str:
    """Return how to write a percentage as a share, names as a table, or a value as a list of it.

    Args:
        problem: pydantic's error.
        key: the last key of its place.
    """
    given, limits = problem["input"], problem.get("ctx", {})
    largest = limits.get("le", limits.get("lt"))
    if isinstance(given, int | float) and largest is not None:
        percent = 0.5 < largest <= 1 < given <= 100
        return f": write {given / 100:g} for {given:g} %" if percent else ""
    if problem["type"] == "list_type" and isinstance(given, str | int | float):
        return f": write {key} = [{show(given)}]"
    names = given if problem["type"] in _TABLES and isinstance(given, list) else []
    if not names or not all(isinstance(name, str) for name in names):
        return ""
    pairs = (f"{name if name.isidentifier() else repr(name)} = {name!r}" for name in names)
    return f": write {key} = {{ {', '.join(pairs)} }}"


def keys_of(loc: Sequence[int | str], given: Any) -> tuple[int | str, ...]:
    """Return the keys that lead to an error, without pydantic's names of union members.

    Args:
        loc: the place as pydantic reports it.
        given: the refused input.
    """
    keys = []
    here = given
    for key in loc:
        if isinstance(key, int):  # index of a list, or of one value given instead of a list
            inside = isinstance(here, list | tuple) and key < len(here)
            here = here[key] if inside else here
        elif isinstance(here, Mapping) and key in here:
            here = here[key]
        else:
            is_type = not key.isidentifier() or key in _TYPES or key[0].isupper()
            if is_type or not isinstance(here, Mapping):  # else it is a missing field
                continue
        keys.append(key)
    return tuple(keys)


def _joined(reasons: Iterable[str]) -> str:
    """Join the reasons why a value matches no member of a union."""
    words: list[str] = []
    for reason in dict.fromkeys(reasons):
        text = _TABLE.sub("a table", reason.removeprefix("Value error, "))
        text = _ITEMS.sub(r"give \1", text.partition(", unable to parse")[0])
        text = text.removeprefix(_SHOULD) if words else text
        words.append(text[:1].lower() + text[1:])
    return " or ".join(words)


def suggestion(word: str, known: Iterable[str]) -> str:
    """Return `; did you mean 'x'?`, or known names."""
    known = sorted(known)
    close = _close(word, known)
    if close:
        return f"; did you mean {close!r}?"
    return f"; use one of {listed(known, _LISTED)}" if known else ""


def _close(word: str, known: Collection[str]) -> str | None:
    """Return the known name that is most like a word, if one is."""
    # Matching takes quadratic time in the length.
    return next(iter(difflib.get_close_matches(word[:_SHOWN], sorted(known), 1)), None)


def _found(group: Group) -> Mapping[str, EntryPoint]:
    return _registered(group, tuple(sys.path))


@functools.cache
def _registered(group: Group, path: tuple[str, ...]) -> Mapping[str, EntryPoint]:
    """Return the entry points on this import path; cached, as a search takes milliseconds."""
    registered: dict[str, EntryPoint] = {}
    for point in sorted(entry_points(group=f"dpaudit.{group}"), key=lambda point: not _own(point)):
        known = registered.setdefault(point.name, point)
        # Another package does not take the place of a name, least of all of one of dpaudit's.
        if known.value != point.value:
            registered[f"{point.name} of {point.value}"] = point
    return registered


def _own(point: EntryPoint) -> bool:
    return point.value.startswith(_OWN)
