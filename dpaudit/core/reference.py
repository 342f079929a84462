"""Find the Python object that a config names."""

from __future__ import annotations

import importlib
import sys
import traceback
from itertools import dropwhile
from pathlib import Path
from typing import Any

from dpaudit.core.errors import ConfigError
from dpaudit.core.foreign import foreign
from dpaudit.core.messages import plain


def import_object(reference: str, place: str) -> Any:
    """Import the object that `package.module:name` refers to.

    Args:
        reference: the reference.
        place: the key of the config that holds it, for the error.

    Raises:
        ConfigError: the reference is malformed or cannot be imported.
    """
    module, colon, name = reference.partition(":")
    if not (module and colon and name) or module.startswith("."):
        package, _, last = reference.replace(":", ".").rpartition(".")
        example = f"{package}:{last}" if package and last else "module:Class"
        raise ConfigError(
            f"{place} = {reference!r} is not package.module:name: give one, such as {example!r}"
        )

    def failure(words: str) -> ConfigError:
        said = f"{place} = {reference!r} cannot be imported ({words})"
        return ConfigError(f"{said}: {_remedy(module)}")

    with foreign(failure):
        return getattr(importlib.import_module(module), name)


def raised_at(error: BaseException, file: str | None) -> str:
    """Say in which file and line an exception was raised.

    Args:
        error: the exception.
        file: the file that the user knows; its innermost line is named, if it has any.
    """
    frames = traceback.extract_tb(error.__traceback__)
    known = [frame for frame in frames if frame.filename == file] or frames
    return f"{plain(Path(known[-1].filename).name)}, line {known[-1].lineno}"


def _remedy(module: str) -> str:
    """Say what to do about the exception that is handled now: a module could not be imported."""
    error = sys.exception()
    loaded = sys.modules.get(module)
    if loaded is not None:
        return f"define it in {getattr(loaded, '__file__', None) or module}, or correct the name"
    if isinstance(error, SyntaxError):  # its words hold file and line
        return "correct that line"
    missing = error.name if isinstance(error, ModuleNotFoundError) else None
    if error is None or (missing and f"{module}.".startswith(f"{missing}.")):
        return "put the module beside the config, or install its package"
    files = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    imported = dropwhile(lambda file: "importlib" not in file, files)
    source = next((file for file in imported if "importlib" not in file), None)
    needed = ", or install what it needs" if missing else ""
    return f"correct {raised_at(error, source)}{needed}"
