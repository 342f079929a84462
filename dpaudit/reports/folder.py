"""A report of several files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from dpaudit.record.result import AuditResult


@dataclass(frozen=True)
class Folder:
    """A report of several files, which a command writes into one folder.

    Attributes:
        title: what it is, in one line.
        write: makes the text of each file by its name; no file of a record with nothing to show.
    """

    title: str
    write: Callable[[AuditResult], Mapping[str, str]]

    def __call__(self, result: AuditResult) -> Mapping[str, str]:
        """Return the text of each file of a record by its name."""
        return self.write(result)
