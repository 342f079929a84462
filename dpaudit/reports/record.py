"""The JSON record: the one file of a run from which every report is rendered."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path

from pydantic import ValidationError

from dpaudit.auditor.result import SCHEMA, AuditResult
from dpaudit.errors import ConfigError

NAME = "record.json"


def render(result: AuditResult) -> str:
    """The record as JSON."""
    return result.model_dump_json(indent=1) + "\n"


def save(result: AuditResult, folder: Path) -> Path:
    """Write the record into a folder, which is made if need be.

    Returns:
        The record's path.

    Raises:
        ConfigError: it cannot be written.
    """
    path = folder / NAME
    write_text(path, render(result))
    return path


def load(path: Path) -> AuditResult:
    """Read a record.

    Args:
        path: the record, or the folder that holds it.

    Raises:
        ConfigError: there is none, or it is not a record of this layout.
    """
    if path.is_dir():
        path = path / NAME
    text = _read(path)
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is not JSON ({error}): run the audit again") from error
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
        return AuditResult.model_validate_json(text)
    except ValidationError as error:
        problem = error.errors()[0]
        place = ".".join(str(part) for part in problem["loc"])
        raise ConfigError(f"{path}: {place}: {problem['msg']}; run the audit again") from error


def write_text(path: Path, text: str) -> None:
    """Write a file whole or not at all; its folders are made if need be.

    Raises:
        ConfigError: it cannot be written; what stood there before still does.
    """
    path = path.resolve()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and not path.is_file():
            # A pipe or a terminal cannot be replaced.
            path.write_text(text, encoding="utf-8", newline="\n")
        else:
            _replace(path, text)
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be written ({error.strerror}): name another place"
        ) from error


def check_writable(paths: Iterable[Path]) -> None:
    """Refuse places that cannot be written, before any work is done for them.

    Raises:
        ConfigError: a file stands where a folder must be made, or a folder admits no new file.
    """
    for path in paths:
        if path == Path("-"):
            continue
        folder = next(parent for parent in path.resolve().parents if parent.exists())
        if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK) or path.is_dir():
            raise ConfigError(f"{path} cannot be written below {folder}: name another place")


def _replace(path: Path, text: str) -> None:
    """Write beside the file, then take its place in one step."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_text(text, encoding="utf-8", newline="\n")
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise ConfigError(
            f"{path} does not exist: name the folder that 'dpaudit run' wrote"
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read as UTF-8 text: {error}") from error
