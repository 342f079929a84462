"""Where the keys and tables of a config stand in its file: for errors, and for reports."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

from dpaudit.config.model import Table
from dpaudit.record.result import GateRecord, PlaceRecord, VerdictRecord

# [name], or [[name]] of a list of tables.
_HEADER = re.compile(r"\s*\[(\[?)\s*([A-Za-z_][\w.-]*)\s*\]\]?\s*(#.*)?$")
# Comments, and strings other than quoted keys: they contain no keys.
_SILENT = re.compile(
    r"""#[^\n]*|(\"{3}|'{3}).*?\1|("(?:\\.|[^"\\\n])*"|'[^'\n]*')(?!\s*[=.\]])""", re.DOTALL
)
# Around a key: start of line, brace, comma or dot before; `=` or dot after. Group 1: inline table.
_BEFORE, _AFTER = r"(?:^[ \t]*|[{,][ \t]*|\.)[\"']?", r"[\"']?[ \t]*(?=(=[ \t]*\{)|=|\.\w)"
_OWN = "tool.dpaudit."
# One part of a dotted key.
_PART = r"""(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')"""


class _Table(NamedTuple):
    """The content under one header: name, index in its list, line of the header, all lines."""

    name: str
    number: int
    first: int
    lines: list[str]


def deep_keys(text: str, depth: int) -> bool:
    """Whether a key has more than `depth` parts: parsing one of thousands takes all memory.

    Args:
        text: the file, which may not be valid TOML.
        depth: the largest allowed number of parts of a key.
    """
    # `depth + 1` parts, from the first character of a part on.
    deep = rf"(?<![\w-]){_PART}(?:[ \t]*+\.[ \t]*+{_PART}){{{depth}}}"
    return re.search(deep, _SILENT.sub(_blank, text)) is not None


def line_of(text: str, place: Sequence[int | str]) -> int | None:
    """Return the line of a key, else of the table that lacks it, from 1; None if neither exists.

    Recognizes headers, dotted keys and inline tables. In `pyproject.toml`, keys are relative to
    `[tool.dpaudit]`.

    Args:
        text: the file, which is valid TOML.
        place: the keys from the outermost in; the key of a list is followed by an index.
    """
    at = [index for index, part in enumerate(place) if isinstance(part, str)]
    keys = [str(place[index]) for index in at]
    number = place[1] if len(place) > 1 and isinstance(place[1], int) else 0
    tables = _tables(text)
    nearest = None
    # The nearest header is the last one that names the most keys.
    for depth in range(len(at), -1, -1):
        name = ".".join(keys[:depth])
        for table in tables:
            if table.name == name and (not depth or table.number == number):
                line, whole = _inside(table, place[at[depth] :] if depth < len(at) else ())
                if whole:
                    return line
                nearest = nearest or line
    return nearest


def lines_of(text: str, name: str, count: int) -> list[int]:
    """Return the line of each table of a list, from 1.

    A table without a header of its own, such as one of an inline list or of an option, stands at
    the list's key, else at 1.

    Args:
        text: the file, which is valid TOML.
        name: the list's key, as of `[[name]]`.
        count: the number of tables.
    """
    headers = [table.first for table in _tables(text) if table.name == name][:count]
    other = line_of(text, (name,)) or 1
    return headers + [other] * (count - len(headers))


def _tables(text: str) -> list[_Table]:
    """Return the tables of a file, comments blanked; the first is what precedes all headers."""
    tables = [_Table("", 0, 1, [])]
    counts: dict[str, int] = {}
    for index, line in enumerate(_SILENT.sub(_blank, text).split("\n"), 1):
        header = _HEADER.match(line)
        if header:
            name = f"{header[2]}.".removeprefix(_OWN).removesuffix(".")
            counts[name] = counts.get(name, -1) + bool(header[1])
            outer = name.partition(".")[0]
            tables.append(_Table(name, max(0, counts.get(outer, 0)), index, []))
        tables[-1].lines.append("" if header else line)
    return tables


def _blank(match: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", match[0])


def _inside(table: _Table, place: Sequence[int | str]) -> tuple[int | None, bool]:
    """Return the line of the longest part of a place that is found, and whether it is all of it."""
    text = "\n".join(table.lines)
    line, start, stop = table.first if table.name else None, 0, len(text)
    # The number of open braces and brackets before each character.
    depths = [0, *accumulate((character in "{[") - (character in "}]") for character in text)]
    level = 0
    for part in place:
        if isinstance(part, int):
            if part:  # later elements of an inline list are not located
                return line, True
            continue
        key = re.compile(_BEFORE + re.escape(part) + _AFTER, re.MULTILINE)
        # A key at another depth belongs to another table.
        for match in key.finditer(text, start, stop):
            if depths[match.end()] == level:
                break
        else:
            return line, False
        line, start = table.first + text.count("\n", 0, match.end()), match.end()
        if match[1]:  # an inline table
            level += 1
            inside = range(start + len(match[1]), len(text))
            stop = next((at for at in inside if depths[at] < level), len(text))
    return line, True


class Origin(Table):
    """The file of a config and the lines of its tables.

    Attributes:
        path: the file, as `shown`.
        models: the line of each audited model's table, by label.
        gates: the line of each `[[gate]]`.
    """

    path: str
    models: Mapping[str, int] = {}
    gates: tuple[int, ...]

    @classmethod
    def of(cls, path: Path, text: str, labels: Mapping[str, Sequence[str]], gates: int) -> Origin:
        """Find the tables in the text of a config.

        Args:
            path: the file.
            text: its text.
            labels: the labels of the audited models, by the name of their tables.
            gates: the number of gates.
        """
        models = {
            label: line
            for name, here in labels.items()
            for label, line in zip(here, lines_of(text, name, len(here)), strict=True)
        }
        return cls(path=shown(path), models=models, gates=tuple(lines_of(text, "gate", gates)))

    def places(
        self, verdicts: Sequence[VerdictRecord], gates: Sequence[GateRecord]
    ) -> dict[str, PlaceRecord]:
        """Return where each claim and gate is stated, by its id."""
        lines = {verdict.id: self.models.get(verdict.model, 1) for verdict in verdicts}
        for gate, line in zip(gates, self.gates, strict=True):
            lines.setdefault(gate.id, line)  # gates may share an id
        return {name: PlaceRecord(path=self.path, line=line) for name, line in lines.items()}


def shown(path: Path) -> str:
    """Return a path as seen from the current folder, with `/`; outside it the name alone.

    So neither a report nor a record tells where a user keeps their files.
    """
    text = path.name
    with suppress(OSError, ValueError):  # the current folder is gone, or the path is outside
        whole = Path(os.path.normpath(path.absolute()))
        text = whole.relative_to(Path.cwd()).as_posix()
    return os.fsencode(text).decode("utf-8", "replace")
