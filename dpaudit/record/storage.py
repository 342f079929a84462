"""The JSON record: the one file of a run from which every report is rendered."""

from __future__ import annotations

import json
from pathlib import Path

from pydantic import ValidationError

from dpaudit.core.errors import ConfigError
from dpaudit.core.files import read_text
from dpaudit.core.messages import escaped
from dpaudit.execution.store import NAME as STORE
from dpaudit.record import consistency
from dpaudit.record.result import SCHEMA, AuditResult

NAME = "record.json"
_LARGEST = 12 * 2**20


def render(result: AuditResult) -> str:
    """Return the record as JSON with every invisible character escaped."""
    lines = result.model_dump_json(indent=1).split("\n")
    return "".join(f"{escaped(line, lambda letter: json.dumps(letter)[1:-1])}\n" for line in lines)


def load(path: Path) -> AuditResult:
    """Read a record.

    Args:
        path: the record file, or the folder that contains it.

    Raises:
        ConfigError: the file is missing, is not a record of this layout, or contradicts itself.
    """
    if path.is_dir():
        path = path / NAME
    text = _read(path)
    try:
        values = json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        remedy = (
            "run the audit again"
            if path.name == NAME
            else f"name the folder or the {NAME} that 'dpaudit run' wrote"
        )
        raise ConfigError(f"{path} is not JSON ({error}): {remedy}") from error
    version = values.get("schema_version") if isinstance(values, dict) else None
    if version is None:
        raise ConfigError(
            f"{path} is not a record of an audit: name the folder or the {NAME} that 'dpaudit run' "
            "wrote"
        )
    if version != SCHEMA:
        raise ConfigError(
            f"{path} has schema_version {version} and this dpaudit reads {SCHEMA}: run the audit "
            "again, or use the dpaudit that wrote it"
        )
    try:
        result = AuditResult.model_validate_json(text)
    except ValidationError as error:
        problem = error.errors()[0]
        place = ".".join(str(part) for part in problem["loc"])
        raise ConfigError(f"{path}: {place}: {problem['msg']}; run the audit again") from error
    contradiction = consistency.problem(result)
    if contradiction:
        raise ConfigError(f"{path} contradicts itself ({contradiction}): run the audit again")
    return result


def _no_number(name: str) -> float:
    """Refuse bare NaN and infinities, which are not JSON; they are recorded as strings."""
    raise ValueError(f"{name} is not a JSON number")


def _read(path: Path) -> str:
    try:
        return read_text(path, _LARGEST)
    except FileNotFoundError as error:
        raise ConfigError(_absent(path)) from error
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error


def _absent(path: Path) -> str:
    """Say what to do where a record is missing: in a folder of tasks a run did not end."""
    folder = path.parent
    if path.name != NAME or not folder.is_dir():
        shown = folder if path.name == NAME else path
        return f"{shown} does not exist: name the folder that 'dpaudit run' wrote"
    if list(folder.glob("tasks-*-of-*.sqlite")):
        return (
            f"{path} does not exist, as {folder} holds shards of a run: 'dpaudit merge {folder}' "
            "makes the record when all are done"
        )
    if (folder / STORE).exists():
        return (
            f"{path} does not exist, as the run in {folder} has not ended: give its command "
            "'dpaudit run' again, which goes on after the finished tasks"
        )
    return f"{path} does not exist: name the folder that 'dpaudit run' wrote"
