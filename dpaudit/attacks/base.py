"""What every attack states."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import ConfigDict

STRICT = ConfigDict(extra="forbid", arbitrary_types_allowed=True)


class Attack:
    """A part with a name, a title, a source and the releases that it reads."""

    name: ClassVar[str]
    title: ClassVar[str]
    source: ClassVar[str]
    reads: ClassVar[tuple[type[Any], ...]]
