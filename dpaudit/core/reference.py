"""Find the Python object that a config names."""

from __future__ import annotations

import importlib
from typing import Any

from dpaudit.core.errors import ConfigError, foreign


def named(reference: str, place: str) -> Any:
    """Import the object that `package.module:name` refers to.

    Args:
        reference: the reference.
        place: the key of the config that holds it, for the error.

    Raises:
        ConfigError: the reference is malformed or cannot be imported.
    """
    module, colon, name = reference.partition(":")
    if not (module and colon and name):
        raise ConfigError(f"{place} = {reference!r} is not package.module:name")
    with foreign(
        lambda words: ConfigError(
            f"{place} = {reference!r} cannot be imported ({words}): put the module beside the "
            "config, or install its package"
        )
    ):
        return getattr(importlib.import_module(module), name)
