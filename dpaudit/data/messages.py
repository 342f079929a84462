"""What stands in files and paths, as a message shows it: one short line without control characters.

A value could otherwise fill a terminal, or steer it.
"""

from __future__ import annotations

from pathlib import Path

_VALUE, _PATH = 40, 200


def show(value: object) -> str:
    """A value in quotes, cut where it is long."""
    shown = repr(value)
    return shown if len(shown) <= _VALUE else f"{shown[:_VALUE]}…"


def plain(text: str, longest: int = _VALUE) -> str:
    """Text without quotes, cut where it is long."""
    shown = _escaped(text[:longest])
    return shown if len(text) <= longest else f"{shown}…"


def place(path: Path) -> str:
    """A path; of a long one the end."""
    text = str(path)
    return _escaped(text) if len(text) <= _PATH else f"…{_escaped(text[-_PATH:])}"


def _escaped(text: str) -> str:
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )
