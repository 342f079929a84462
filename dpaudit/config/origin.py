"""Where the tables of a config stand, for reports that show a problem at its line."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from dpaudit.config.lines import lines_of
from dpaudit.config.model import Table
from dpaudit.record.result import GateRecord, PlaceRecord, VerdictRecord


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
