"""Altair, whose names this module has; it is loaded when the first of them is asked for."""

from __future__ import annotations

import os
from functools import cache
from typing import Any


@cache
def _altair() -> Any:
    """Return the module, which asks for the user's home folder as it loads: it may be missing."""
    homeless = os.path.expanduser("~") == "~"
    if homeless:
        os.environ["HOME"] = os.sep  # nothing is written to it
    try:
        import altair
    finally:
        if homeless:
            del os.environ["HOME"]
    return altair


def __getattr__(name: str) -> Any:
    return getattr(_altair(), name)
