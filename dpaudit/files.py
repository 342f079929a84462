"""Files that are written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from dpaudit.errors import ConfigError


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
