"""What every registered part says of itself."""

from __future__ import annotations

from typing import ClassVar

from pydantic import ConfigDict

# Hyper-parameters are frozen pydantic dataclasses: wrong names and values are refused by name.
STRICT = ConfigDict(extra="forbid", strict=True)


class Part:
    """A defense or an attack; the contract tests hold every plug-in to this.

    Attributes:
        name: its name in the registry.
        title: what it is, in one line.
        source: the paper with its year and equations.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    source: ClassVar[str]
