"""Read the descriptions of attributes from the docstring of a class."""

from __future__ import annotations

import inspect
import re

_SECTION = re.compile(r"^(?:Attributes|Example|Examples|Raises|Note|Notes):$")
_ENTRY = re.compile(r"^    (\w+): (.*)$")


def attributes(kind: type) -> dict[str, str]:
    """Return the description of each attribute of a class and its bases; the class's own first."""
    texts: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        texts |= _entries(_parts(base)[1])
    return texts


def text(kind: type) -> str:
    """Return the docstring of a class without the section that explains its attributes."""
    return "\n".join(_parts(kind)[0]).strip()


def _parts(kind: type) -> tuple[list[str], list[str]]:
    """Return the lines outside the section `Attributes`, and those in it."""
    outside: list[str] = []
    inside: list[str] = []
    lines = inspect.cleandoc(vars(kind).get("__doc__") or "").splitlines()
    into = outside
    for line in lines:
        if _SECTION.match(line):
            into = inside if line == "Attributes:" else outside
            if into is inside:
                continue
        elif line and into is inside and not line.startswith(" "):
            into = outside
        into.append(line)
    return outside, inside


def _entries(lines: list[str]) -> dict[str, str]:
    entries: dict[str, str] = {}
    name = None
    for line in lines:
        begun = _ENTRY.match(line)
        if begun:
            name = begun[1]
            entries[name] = begun[2]
        elif name is not None and line.strip():
            entries[name] += f" {line.strip()}"
    return entries
