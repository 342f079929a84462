"""What stands in files, labels and paths, shown so that nothing in it steers a terminal or page.

Letters that cannot be seen (control, format and bidirectional characters) never get through.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

_VALUE, _PATH = 40, 200
# Printable by their category, and drawn as nothing: fillers, joiners and variation selectors.
_IGNORABLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0100-\U000e01ef]"
)


def escaped(text: str, escape: Callable[[str], str]) -> str:
    """A text whose letters that cannot be seen are replaced; line ends too."""
    if not text.isprintable():
        text = "".join(letter if letter.isprintable() else escape(letter) for letter in text)
    return _IGNORABLE.sub(lambda found: escape(found[0]), text)


def plain(text: str) -> str:
    """A label on one line."""
    return escaped(text, lambda letter: " ")


def show(value: object, longest: int = _VALUE) -> str:
    """A value in quotes, cut where it is long."""
    try:
        return _cut(repr(value), longest)
    except ValueError:  # a whole number of thousands of digits
        return "a value of thousands of digits"


def quoted(text: str, longest: int = _VALUE) -> str:
    """Text without quotes, cut where it is long; what cannot be seen is told by its code."""
    return _cut(escaped(text[: longest + 1], _code), longest)


def place(path: Path) -> str:
    """A path; of a long one the end."""
    text = str(path)
    return escaped(text if len(text) <= _PATH else f"…{text[-_PATH:]}", _code)


def _cut(shown: str, longest: int) -> str:
    return shown if len(shown) <= longest else f"{shown[:longest]}…"


def _code(letter: str) -> str:
    return letter.encode("unicode_escape").decode()
