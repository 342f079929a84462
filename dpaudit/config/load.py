"""Load a config from its file, apply options, and name the place of every error.

Options replace values of a config: `-s KEY=VALUE`, and `--seed`.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from dpaudit.config.gate import Gate, Policy
from dpaudit.config.model import as_list
from dpaudit.config.origin import Origin, deep_keys, line_of
from dpaudit.config.schema import Config, WaiverFile, of_kind
from dpaudit.core import registry
from dpaudit.core.errors import ConfigError, DataError
from dpaudit.core.files import nested, read_text
from dpaudit.core.messages import quoted
from dpaudit.record.result import Waiver

# Limits of a config: characters, and nesting depth of tables and lists.
_LARGEST, _DEPTH = 2**22, 20
_KEY = re.compile(r"\w+(\.\w+)+")
_LABELLED = re.compile(r"(\w+)(?:\]\])?(?: have the label)? '([^']*)'")
# The most characters of an option in a message.
_SHOWN = 100
# The values in a message: two messages with the same words but for these have one cause.
_VALUES = re.compile(r"'[^']*'|\d+(\.\d+)?")
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
    _check_depth(str(path), deep=deep_keys(text, _DEPTH))
    try:
        values = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        said = _AT.search(str(error))
        line = int(said[1]) if said else text.count("\n") + 1  # else at the end of the file
        raise ConfigError(f"{path} is not valid TOML: {error}").at(path, line) from error
    _check_depth(str(path), deep=nested(values, _DEPTH))
    return values


def _check_depth(place: str, *, deep: bool) -> None:
    if deep:
        raise ConfigError(f"{place} nests tables or lists more than {_DEPTH} deep: flatten them")


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
        _check_depth(f"the option --set {option.key}", deep=nested(values, _DEPTH))
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


def checked(values: dict[str, Any]) -> Config:
    """Return the config of parsed values, whose plug-ins take their parameters.

    Raises:
        WrongConfigError: a value is wrong.
    """
    config = _config(values)
    _check_parts(config, ())
    return config


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
            said += "".join(f"; {fault}" for fault in registry.broken("audits"))
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


class WrongConfigError(ConfigError):
    """A config with a wrong value; the message does not say where it comes from.

    Attributes:
        place: the keys of the value from the outermost in, the key of a list followed by an index;
            empty if several tables do not fit together.
    """

    def __init__(self, message: str, place: Sequence[int | str] = ()) -> None:
        super().__init__(message)
        self.place = place


@dataclass(frozen=True)
class Option:
    """An option that replaces a value of the config.

    Attributes:
        said: the option as in a message, with its value.
        key: the dotted key.
        value: the value.
    """

    said: str
    key: str
    value: Any

    @classmethod
    def parse(cls, text: str) -> Option:
        """Parse `KEY=VALUE`; a value that is no TOML is text.

        Raises:
            ConfigError: there is no `=`, no key, or an end of line.
        """
        key, equals, value = text.partition("=")
        if not equals or not key.strip() or "\n" in text:
            raise ConfigError(f"the option --set {text!r} is not KEY=VALUE: e.g. audit.trials=1000")
        try:
            parsed = tomllib.loads(f"value = {value}")["value"]
        except (ValueError, RecursionError):
            parsed = value  # a bare word is text: data.path=u.data
        return cls(f"--set {quoted(text, _SHOWN)}", key.strip(), parsed)

    def apply(self, values: dict[str, Any]) -> None:
        """Replace the value in a parsed config.

        Raises:
            ConfigError: the key leads to no place of the config.
        """
        *parents, last = self.key.split(".")
        node: Any = values
        try:
            for parent in parents:
                node = _only(node, parent)
                if isinstance(node, list):
                    node = node[int(parent)]
                # The index 0 of a table that stands alone: `model.0.epsilon` of `[model]`.
                elif parent != "0" or not isinstance(node, dict) or parent in node:
                    node = node.setdefault(parent, {})
            node = _only(node, last)
            # A copy, as a later option may change a table that this one sets.
            node[int(last) if isinstance(node, list) else last] = deepcopy(self.value)
        except (IndexError, KeyError, TypeError, ValueError, AttributeError) as error:
            raise ConfigError(
                f"the option {self.said} names no key of the config: {_places(values, parents)}"
            ) from error

    def sets(self, place: Sequence[int | str]) -> bool:
        """Whether it sets the value at this place, or a table around it.

        Args:
            place: the keys from the outermost in; the key of a list is followed by an index.
        """
        rest = list(place)
        for part in self.key.split("."):
            # The index of the only table of a list may be left out.
            while rest and isinstance(rest[0], int) and not part.isdecimal():
                rest.pop(0)
            if not rest or str(rest.pop(0)) != part:
                return False
        return True


def to_blame(
    error: WrongConfigError,
    options: Sequence[Option],
    attempt: Callable[[Sequence[Option]], object],
) -> list[Option]:
    """Return the options without which the error would not occur; none if the file is to blame.

    Args:
        error: the error with all options.
        options: all options.
        attempt: checks the config with some of them.
    """
    mended, changed = [], []
    for index, option in enumerate(options):
        try:
            attempt([*options[:index], *options[index + 1 :]])
            mended.append(option)
        except WrongConfigError as other:
            if _VALUES.sub("", str(other)) != _VALUES.sub("", str(error)):
                changed.append(option)
        except ConfigError:  # another option needs this one
            continue
    if mended or changed:
        return mended or changed
    # Without the last option that sets this place, an earlier wrong value of it would count.
    return [option for option in options if option.sets(error.place)][-1:]


def _only(node: Any, key: str) -> Any:
    """Return the only table of a list if no index is given: model.epsilon for model.0.epsilon."""
    if isinstance(node, list) and len(node) == 1 and not key.isdecimal():
        return node[0]
    if isinstance(node, list) and not key.isdecimal():
        raise ValueError(key)
    return node


def _places(values: dict[str, Any], parents: Sequence[str]) -> str:
    """Say which tables there are to choose from, if the key begins with a list of them."""
    name = parents[0] if parents else ""
    tables = values.get(name)
    if not isinstance(tables, list):
        return "correct the key, e.g. audit.trials"
    last = f" to {name}.{len(tables) - 1}" if len(tables) > 1 else ""
    return f"its [[{name}]] are {name}.0{last}: give one of these"
