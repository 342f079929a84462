"""Text from files, labels and paths, text so that it cannot control a terminal or a page.

Invisible characters (control, format and bidirectional characters) are always replaced.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

_VALUE, _PATH = 40, 200
# Printable by Unicode category but invisible: fillers, joiners and variation selectors.
_IGNORABLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0100-\U000e01ef]"
)


def escaped(text: str, escape: Callable[[str], str]) -> str:
    """Replace each invisible character, line ends too, with `escape(character)`."""
    if not text.isprintable():
        text = "".join(letter if letter.isprintable() else escape(letter) for letter in text)
    return _IGNORABLE.sub(lambda match: escape(match[0]), text)


def plain(text: str) -> str:
    """Put a label on one line: invisible characters become spaces."""
    return escaped(text, lambda letter: " ")


def lines(text: str) -> str:
    """Replace invisible characters by spaces, but for line ends."""
    return "\n".join(map(plain, text.split("\n")))


def capitalised(text: str) -> str:
    """Begin a text, of at least one letter, with a capital; the rest stays as it is."""
    return f"{text[0].upper()}{text[1:]}"


def show(value: object, longest: int = _VALUE) -> str:
    """Return the `repr` of a value, cut to `longest` characters; truth as TOML writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    try:
        return _cut(repr(value), longest)
    except ValueError:  # an integer with thousands of digits
        return "a value of thousands of digits"


def quoted(text: str, longest: int = _VALUE) -> str:
    """Return text, cut to `longest` characters; invisible characters are text by their code."""
    return _cut(escaped(text[: longest + 1], _code), longest)


def listed(names: Sequence[str], most: int) -> str:
    """Join names, at most so many, and say how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"


def place(path: Path) -> str:
    """Return a path, or its end if it is long, as seen from the current folder if it is inside."""
    with suppress(OSError, ValueError):  # the current folder is gone, or the path is outside
        path = path.relative_to(os.getcwd()) if path.is_absolute() else path
    text = str(path)
    return escaped(text if len(text) <= _PATH else f"…{text[-_PATH:]}", _code)


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[:longest]}…"


def _code(letter: str) -> str:
    return letter.encode("unicode_escape").decode()
