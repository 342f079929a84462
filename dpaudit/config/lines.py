"""Where in a TOML file a key stands, so that an error can name the line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

# [name], or [[name]] of a list of tables.
_HEADER = re.compile(r"\s*\[(\[?)\s*([A-Za-z_][\w.-]*)\s*\]\]?\s*(#.*)?$")
# Comments, and strings but for quoted keys: what they hold is no key.
_SILENT = re.compile(
    r"""#[^\n]*|(\"{3}|'{3}).*?\1|("(?:\\.|[^"\\\n])*"|'[^'\n]*')(?!\s*[=.\]])""", re.DOTALL
)
# A key: first in its line, in braces, or after a dot; then its value, one in braces told apart.
_BEFORE, _AFTER = r"(?:^[ \t]*|[{,][ \t]*|\.)[\"']?", r"[\"']?[ \t]*(?=(=[ \t]*\{)|=|\.\w)"
_OWN = "tool.dpaudit."
# A part of a key.
_PART = r"""(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')"""


class _Table(NamedTuple):
    """What stands under one header: its name, which it is of its list, its line, all lines."""

    name: str
    number: int
    first: int
    lines: list[str]


def deep_keys(text: str, depth: int) -> bool:
    """Whether a key has more parts: to parse one of thousands takes all memory there is.

    Args:
        text: the file, which may be no TOML.
        depth: the most parts of a key.
    """
    # From the first letter of a part on, so many parts and one more.
    deep = rf"(?<![\w-]){_PART}(?:[ \t]*+\.[ \t]*+{_PART}){{{depth}}}"
    return re.search(deep, _SILENT.sub(_blank, text)) is not None


def line_of(text: str, place: Sequence[int | str]) -> int | None:
    """The line of a key, else of the table that lacks it, counted from 1; None if there is neither.

    Found are headers, dotted keys and tables in one line. In `pyproject.toml` keys are those of
    `[tool.dpaudit]`.

    Args:
        text: the file, which is valid TOML.
        place: the keys from the outermost in, a number after that of a list.
    """
    at = [index for index, part in enumerate(place) if isinstance(part, str)]
    keys = [str(place[index]) for index in at]
    number = place[1] if len(place) > 1 and isinstance(place[1], int) else 0
    tables = _tables(text)
    nearest = None
    # The last header that names the most of the keys is the nearest.
    for depth in range(len(at), -1, -1):
        name = ".".join(keys[:depth])
        for table in tables:
            if table.name == name and (not depth or table.number == number):
                line, whole = _inside(table, place[at[depth] :] if depth < len(at) else ())
                if whole:
                    return line
                nearest = nearest or line
    return nearest


def _tables(text: str) -> list[_Table]:
    """The tables of a file, comments blanked; first what stands above all headers."""
    found = [_Table("", 0, 1, [])]
    counts: dict[str, int] = {}
    for index, line in enumerate(_SILENT.sub(_blank, text).split("\n"), 1):
        header = _HEADER.match(line)
        if header:
            name = f"{header[2]}.".removeprefix(_OWN).removesuffix(".")
            counts[name] = counts.get(name, -1) + bool(header[1])
            outer = name.partition(".")[0]
            found.append(_Table(name, max(0, counts.get(outer, 0)), index, []))
        found[-1].lines.append("" if header else line)
    return found


def _blank(found: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", found[0])


def _inside(table: _Table, place: Sequence[int | str]) -> tuple[int | None, bool]:
    """The line of a place in a table, or of as much of it as is found; whether it is all."""
    text = "\n".join(table.lines)
    line, start, stop = table.first if table.name else None, 0, len(text)
    # How many braces and brackets are open before each character.
    depths = [0, *accumulate((each in "{[") - (each in "}]") for each in text)]
    level = 0
    for part in place:
        if isinstance(part, int):
            if part:  # which of several in brackets is not looked for
                return line, True
            continue
        key = re.compile(_BEFORE + re.escape(part) + _AFTER, re.MULTILINE)
        # A key within another key's value is another table's.
        for found in key.finditer(text, start, stop):
            if depths[found.end()] == level:
                break
        else:
            return line, False
        line, start = table.first + text.count("\n", 0, found.end()), found.end()
        if found[1]:  # a table in braces
            level += 1
            inside = range(start + len(found[1]), len(text))
            stop = next((at for at in inside if depths[at] < level), len(text))
    return line, True
