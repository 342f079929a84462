"""Load a config from its file, apply overrides, and name the place of every error."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from dpaudit.config.compatibility.plugins import check_members, check_plugins
from dpaudit.config.lines import deep_keys, line_of
from dpaudit.config.renamed import renamed
from dpaudit.config.schema import Config, Gate, Policy
from dpaudit.config.waivers import WaiverFile
from dpaudit.core import registry
from dpaudit.core.errors import ConfigError
from dpaudit.core.files import nested, read_text
from dpaudit.record.waivers import Waiver

# Limits of a config: characters, and nesting depth of tables and lists.
_LARGEST, _DEPTH = 2**22, 20
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


def load(path: Path, overrides: Sequence[str] = ()) -> Config:
    """Read and check a config.

    Args:
        path: a TOML file; from `pyproject.toml` the table `[tool.dpaudit]` is read.
        overrides: `KEY=VALUE` with dotted keys and TOML values, e.g. `audit.trials=1000` or
            `model.0.epsilon=[1, 2]`; they replace values of the file.

    Raises:
        ConfigError: names the file, the place in it, the value and the remedy.
    """
    text = _read(path)
    values = _parse(path, text)
    if path.name == "pyproject.toml":
        own = _own_table(values)
        if own is None:
            raise ConfigError(f"{path} has no table [tool.dpaudit]: add it or name another config")
        values = own
    for override in overrides:
        _set(values, override)
        _check_depth(f"the option --set {override.partition('=')[0]}", values)
    _refuse_renamed(path, text, values, overrides)
    try:
        config = Config.model_validate(values)
    except ValidationError as error:
        raise ConfigError(_problem(path, text, error, Config, values, overrides)) from error
    if config.membership:
        placed = [each.within(path.parent.absolute()) for each in config.recommender]
        config = config.model_copy(update={"recommender": placed})
        check_members(path, config.audited, config.inferring)
        return config
    check_plugins(
        path,
        config.model,
        config.attack,
        config.game,
        config.sybil,
        transcript=config.transcript is not None,
    )
    return config


def load_policy(path: Path) -> list[Gate]:
    """Read the `[[gate]]` tables of a policy file, which may contain nothing else.

    Raises:
        ConfigError: names the file, the place in it, the value and the remedy.
    """
    return _only_tables(path, Policy).gate


def load_waivers(path: Path) -> list[Waiver]:
    """Read the `[[waiver]]` tables of a file, which may contain nothing else.

    Raises:
        ConfigError: names the file, the place in it, the value and the remedy.
    """
    return _only_tables(path, WaiverFile).waiver


def _only_tables(path: Path, kind: type[T]) -> T:
    text = _read(path)
    values = _parse(path, text)
    _refuse_renamed(path, text, values, ())
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        raise ConfigError(_problem(path, text, error, kind, values, ())) from error


def _read(path: Path) -> str:
    try:
        return read_text(path, _LARGEST)
    except FileNotFoundError as error:
        raise ConfigError(f"{path} does not exist: name a config or run 'dpaudit init'") from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read as UTF-8 text: {error}") from error


def _parse(path: Path, text: str) -> dict[str, Any]:
    if deep_keys(text, _DEPTH):
        raise _too_deep(str(path))
    try:
        values = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from error
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
    own = tools.get("dpaudit") if isinstance(tools, dict) else None
    return own if isinstance(own, dict) else None


def _set(values: dict[str, Any], override: str) -> None:
    """Apply one `KEY=VALUE` to the parsed config."""
    key, equals, value = override.partition("=")
    if not equals or not key.strip() or "\n" in override:
        raise ConfigError(f"the option --set {override!r} is not KEY=VALUE: e.g. audit.trials=1000")
    try:
        parsed = tomllib.loads(f"value = {value}")["value"]
    except (ValueError, RecursionError):
        parsed = value  # a bare word is text: data.path=u.data
    *parents, last = key.strip().split(".")
    node: Any = values
    try:
        for parent in parents:
            node = _only(node, parent)
            node = node[int(parent)] if isinstance(node, list) else node.setdefault(parent, {})
        node = _only(node, last)
        node[int(last) if isinstance(node, list) else last] = parsed
    except (IndexError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise ConfigError(
            f"the option --set {override!r} names no key of the config: with several [[model]] "
            "give the index, e.g. model.0.epsilon"
        ) from error


def _only(node: Any, key: str) -> Any:
    """Return the only table of a list if no index is given: model.epsilon for model.0.epsilon."""
    if isinstance(node, list) and len(node) == 1 and not key.isdecimal():
        return node[0]
    if isinstance(node, list) and not key.isdecimal():
        raise ValueError(key)
    return node


def _problem(
    path: Path,
    text: str,
    error: ValidationError,
    root: type[BaseModel],
    values: dict[str, Any],
    overrides: Sequence[str],
) -> str:
    """Describe the first error with its place: the option that set it, or the line of the file."""
    problem = error.errors()[0]
    loc = registry.keys_of(problem["loc"], values)
    known = _fields(root, loc[:-1]) if problem["type"] == "extra_forbidden" else ()
    message = registry.first_problem(error, "", known, values).removeprefix(".").removeprefix(": ")
    return f"{_where(path, text, loc, overrides)}: {message}"


def _refuse_renamed(
    path: Path, text: str, values: Mapping[str, Any], overrides: Sequence[str]
) -> None:
    """Refuse a name of an earlier version and state its current name."""
    for old in renamed(values):
        raise ConfigError(f"{_where(path, text, old.place, overrides)}: {old.remedy}")


def _where(path: Path, text: str, loc: Sequence[int | str], overrides: Sequence[str]) -> str:
    """Return the option that set a key, or the line of the file."""
    names = [part for part in loc if isinstance(part, str)]
    for override in overrides:
        key = override.partition("=")[0].strip()
        parts = [part for part in key.split(".") if not part.isdecimal()]
        if parts == names[: len(parts)]:
            return f"the option --set {key}"
    line = line_of(text, loc)
    return f"{path}{f', line {line}' if line else ''}"


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
