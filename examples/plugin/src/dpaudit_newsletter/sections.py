"""What reports show of drafts, besides the table that the metric describes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from dpaudit.core.frequency import shares
from dpaudit.record.result import ModelRecord
from dpaudit.reports import digest
from dpaudit.reports.sections.base import Sections


class DraftSections(Sections):
    """Says in the verdict how many drafts name a subscriber."""

    beyond: ClassVar[Sequence[str]] = ("Drafts that name a subscriber in another spelling.",)

    def leaks(self, model: ModelRecord) -> Iterator[str]:
        """Yield the share of drafts, with its interval."""
        for share in digest.of(self.result, "draft.named"):
            yield f"A draft names a subscriber in {shares(share.estimate)} of all cases."

    def untried(self) -> Iterator[str]:
        """Yield nothing: drafts state no ε, so no game is missing."""
        yield from ()
