"""Altair, which asks for the user's home folder as it loads; a container may have none."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def _some_home() -> Iterator[None]:
    """Let there be a home folder meanwhile; nothing is written to it."""
    if os.path.expanduser("~") != "~":
        yield
        return
    os.environ["HOME"] = os.sep
    try:
        yield
    finally:
        del os.environ["HOME"]


with _some_home():
    import altair as alt

__all__ = ["alt"]
