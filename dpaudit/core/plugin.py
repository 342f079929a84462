"""Metadata of every plug-in."""

from __future__ import annotations

from typing import ClassVar

from pydantic import ConfigDict

# Hyper-parameters are frozen pydantic dataclasses: errors name the wrong parameter.
STRICT = ConfigDict(extra="forbid", strict=True)


class Plugin:
    """A defense or an attack; the contract tests check these fields for every plug-in.

    Attributes:
        name: its name in the registry.
        title: what it is, in one line.
        source: the paper with its year and equations.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    source: ClassVar[str]
