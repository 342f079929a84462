"""Load a config from its file, apply overrides, and name the place of every error."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from dpaudit.config.lines import deep_keys, line_of
from dpaudit.config.model import as_list
from dpaudit.config.options import Option, WrongConfigError, to_blame
from dpaudit.config.origin import Origin
from dpaudit.config.schema import Config, Gate, Policy, of_kind
from dpaudit.config.waivers import WaiverFile
from dpaudit.core import registry
from dpaudit.core.errors import ConfigError, DataError
from dpaudit.core.files import nested, read_text
from dpaudit.record.waivers import Waiver

# Limits of a config: characters, and nesting depth of tables and lists.
_LARGEST, _DEPTH = 2**22, 20
_KEY = re.compile(r"\w+(\.\w+)+")
_LABELLED = re.compile(r"(\w+)(?:\]\])?(?: have the label)? '([^']*)'")
_AT = re.compile(r"\(at line (\d+), column \d+\)$")
FILES = ("dpaudit.toml", "pyproject.toml")
T = TypeVar("T", bound=BaseModel)


def find(folder: Path) -> Path:
    """Return the config of a folder: `dpaudit.toml`, or `pyproject.toml` with `[tool.dpaudit]`.

    Raises:
        ConfigError: the folder has neither.
    """
    for name in FILES:
        path = folder / name
        if path.is_file() and (
            name != "pyproject.toml" or _own_table(_parse(path, _read(path))) is not None
        ):
            return path
    raise ConfigError(
        f"{folder} holds neither dpaudit.toml nor a pyproject.toml with [tool.dpaudit]: "
        "name a config or make one with 'dpaudit init'"
    )


def load(
    path: Path,
    overrides: Sequence[str] = (),
    *,
    seed: str | None = None,
    checks: Sequence[Callable[[Config], None]] = (),
) -> Config:
    """Read and check a config.

    Args:
        path: a TOML file; from `pyproject.toml` the table `[tool.dpaudit]` is read.
        overrides: `KEY=VALUE` with dotted keys and TOML values, e.g. `audit.trials=1000` or
            `model.0.epsilon=[1, 2]`; they replace values of the file.
        seed: the value of the option `--seed`, which replaces all other seeds.
        checks: further checks of the config, whose errors name no file.

    Raises:
        ConfigError: names the options that are to blame, else the file and the place in it, the
            value and the remedy.
    """
    text = _read(path)
    values = _parse(path, text)
    if path.name == "pyproject.toml":
        table = _own_table(values)
        if table is None:
            raise ConfigError(f"{path} has no table [tool.dpaudit]: add it or name another config")
        values = table
    options = [Option.parse(override) for override in overrides]
    if seed is not None:
        options.append(replace(Option.parse(f"seed={seed}"), said=f"--seed {seed}"))

    def attempt(options: Sequence[Option]) -> Config:
        config = _config(_changed(values, options)).within(path.parent.absolute())
        _check_parts(config, checks)
        return config

    try:
        config = attempt(options)
        return config.stated_at(_origin(path, text, config))
    except WrongConfigError as error:
        blamed = [option.said for option in to_blame(error, options, attempt)]
        many = "options" if len(blamed) > 1 else "option"
        if not blamed:
            raise _located(path, text, error) from error
        raise ConfigError(f"the {many} {' and '.join(blamed)}: {error}") from error


@contextmanager
def placing(config: Config, path: Path, overrides: Sequence[str]) -> Iterator[None]:
    """Name the option, or the line of the file, in an error that names a key of the config.

    Args:
        config: the config.
        path: its file.
        overrides: the options that replaced values of it, as in `load`.

    Raises:
        ConfigError: the same error, with the place.
        DataError: likewise.
    """
    try:
        yield
    except (ConfigError, DataError) as error:
        keys = [] if getattr(error, "where", None) else _named(config, str(error))
        if not keys:
            raise
        options = [option for option in map(Option.parse, overrides) if any(map(option.sets, keys))]
        if options:
            raise type(error)(f"the option {options[-1].said}: {error}") from error
        line = line_of(_read(path), keys[0])
        located = type(error)(f"{path}{f', line {line}' if line else ''}: {error}")
        raise (located.at(path, line) if isinstance(located, ConfigError) else located) from error


def _named(config: Config, message: str) -> list[tuple[int | str, ...]]:
    """Return the keys of the config, and the tables by their labels, that a message names.

    What stands behind the first colon is the remedy.
    """
    said = message.partition(": ")[0]
    places = [_place(match[0]) for match in _KEY.finditer(said)]
    labelled = [
        (table, index)
        for table, labels in config.labels.items()
        for index, label in enumerate(labels)
        if f"{table} {label!r}" in said
    ]
    return [place for place in places if _known(type(config), place)] + labelled


def _known(kind: type[BaseModel], place: Sequence[int | str]) -> bool:
    names = [part for part in place if isinstance(part, str)]
    return all(names[at] in _fields(kind, names[:at]) for at in range(min(2, len(names))))


def load_policy(path: Path) -> tuple[list[Gate], Origin]:
    """Read the `[[gate]]` tables of a policy file, which may contain nothing else.

    Returns:
        The gates, and where they stand.

    Raises:
        ConfigError: names the file, the place in it, the value and the remedy.
    """
    policy, text = _only_tables(path, Policy)
    return policy.gate, Origin.of(path, text, {}, len(policy.gate))


def load_waivers(path: Path) -> list[Waiver]:
    """Read the `[[waiver]]` tables of a file, which may contain nothing else.

    Raises:
        ConfigError: names the file, the place in it, the value and the remedy.
    """
    return _only_tables(path, WaiverFile)[0].waiver


def _only_tables(path: Path, kind: type[T]) -> tuple[T, str]:
    """Return the tables of a file, and its text."""
    text = _read(path, f"name a file with [[{next(iter(kind.model_fields))}]] tables")
    values = _parse(path, text)
    try:
        return _valid(kind, values), text
    except WrongConfigError as error:
        raise _located(path, text, error) from error


def _origin(path: Path, text: str, config: Config) -> Origin:
    audited = {table.label for table in config.audited}
    labels = {
        name: [label for label in here if label in audited] for name, here in config.labels.items()
    }
    return Origin.of(path, text, labels, len(config.gate))


def _read(path: Path, absent: str = "name a config or run 'dpaudit init'") -> str:
    try:
        # Editors on Windows put a byte-order mark before the first line.
        return read_text(path, _LARGEST).removeprefix("\ufeff")
    except FileNotFoundError as error:
        raise ConfigError(f"{path} does not exist: {absent}") from error
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error


def _parse(path: Path, text: str) -> dict[str, Any]:
    if deep_keys(text, _DEPTH):
        raise _too_deep(str(path))
    try:
        values = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        said = _AT.search(str(error))
        line = int(said[1]) if said else text.count("\n") + 1  # else at the end of the file
        raise ConfigError(f"{path} is not valid TOML: {error}").at(path, line) from error
    _check_depth(str(path), values)
    return values


def _check_depth(place: str, values: dict[str, Any]) -> None:
    if nested(values, _DEPTH):
        raise _too_deep(place)


def _too_deep(place: str) -> ConfigError:
    return ConfigError(f"{place} nests tables or lists more than {_DEPTH} deep: flatten them")


def _own_table(project: dict[str, Any]) -> dict[str, Any] | None:
    """Return `[tool.dpaudit]` of a parsed pyproject.toml, None if it has none."""
    tools = project.get("tool")
    table = tools.get("dpaudit") if isinstance(tools, dict) else None
    return table if isinstance(table, dict) else None


def _changed(values: dict[str, Any], options: Sequence[Option]) -> dict[str, Any]:
    """Return a parsed config with the values of options."""
    values = deepcopy(values)
    for option in options:
        option.apply(values)
        _check_depth(f"the option --set {option.key}", values)
    return values


def _config(values: dict[str, Any]) -> Config:
    """Return the config of parsed values.

    Raises:
        WrongConfigError: no kind of audit has these tables, or a value is wrong.
    """
    try:
        kind, tables = of_kind(values)
    except ValueError as error:
        raise WrongConfigError(str(error), _of_tables(Config, str(error), values)) from error
    return _valid(kind, tables)


def _valid(kind: type[T], values: dict[str, Any]) -> T:
    """Return the tables of parsed values.

    Raises:
        WrongConfigError: a value is wrong.
    """
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        problem = error.errors()[0]
        place = registry.keys_of(problem["loc"], values)
        unknown = problem["type"] == "extra_forbidden"
        known = _fields(kind, place[:-1] if unknown else place)
        said = registry.first_problem(error, "", known, values)
        if unknown and len(place) == 1 and issubclass(kind, Config) and "did you mean" not in said:
            said += f"; the table of another package's audit counts {registry.AGAIN}"
        said = said.removeprefix(".").removeprefix(": ")
        if problem["type"] == "value_error":
            table, _, reason = said.partition(": ")
            # The reason may begin with a key of the table.
            if place and reason.partition(" ")[0].partition(".")[0] in known:
                said = f"{table}.{reason}"
            place = _place(said) or place or _of_tables(kind, said, values)
        raise WrongConfigError(said, place) from error


def _of_tables(
    kind: type[BaseModel], message: str, values: dict[str, Any]
) -> tuple[int | str, ...]:
    """Return the key or table that a message on tables that do not fit together names first.

    A table of a list is named by its label; the last that has it counts.
    """
    said = message.partition(": ")[0]
    keys = [place for match in _KEY.finditer(said) if _known(kind, place := _place(match[0]))]
    if keys:
        return keys[0]
    for name, label in _LABELLED.findall(said):
        tables = as_list(values.get(name, []))
        fits = [
            at
            for at, table in enumerate(tables)
            if isinstance(table, dict) and label in table.values()
        ]
        if fits or len(tables) == 1:
            return name, fits[-1] if fits else 0
    return tuple(name for name in re.findall(r"\w+", said) if name in values)[:1]


def _check_parts(config: Config, checks: Sequence[Callable[[Config], None]]) -> None:
    """Check that plug-ins take their parameters and stand in the right table.

    Raises:
        WrongConfigError: they do not, or a further check fails.
    """
    try:
        config.check_plugins()
        for check in checks:
            check(config)
    except ConfigError as error:
        raise WrongConfigError(str(error), _place(str(error))) from error


def _place(message: str) -> tuple[int | str, ...]:
    """Return the dotted key with which a message begins, such as `model.0.params.top_k`."""
    match = _KEY.match(message)
    parts = match[0].split(".") if match else ()
    return tuple(int(part) if part.isdecimal() else part for part in parts)


def _located(path: Path, text: str, error: WrongConfigError) -> ConfigError:
    """Return an error that names the file, and the line at which it is wrong if that is known."""
    line = line_of(text, error.place) if error.place else None
    return ConfigError(f"{path}{f', line {line}' if line else ''}: {error}").at(path, line)


def _fields(root: type[BaseModel], loc: Sequence[int | str]) -> Sequence[str]:
    """Return the allowed keys of the table at this place."""
    table: Any = root
    for part in loc:
        if isinstance(part, int):
            continue
        annotation = table.model_fields[part].annotation if hasattr(table, "model_fields") else None
        table = next(
            (
                kind
                for kind in (annotation, *getattr(annotation, "__args__", ()))
                if isinstance(kind, type) and issubclass(kind, BaseModel)
            ),
            None,
        )
    return list(table.model_fields) if table else ()
