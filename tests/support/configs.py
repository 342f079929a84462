"""Configs of files as those of the kind of audit that a test expects."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from dpaudit.config.load import load
from dpaudit.config.schema import Config

C = TypeVar("C", bound=Config)


def load_as(kind: type[C], path: Path, overrides: Sequence[str] = ()) -> C:
    """Load the config of a file; it has to be of this kind."""
    config = load(path, overrides)
    assert isinstance(config, kind)
    return config
