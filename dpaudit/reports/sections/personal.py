"""Columns and notes on the ε of single users."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dpaudit.record.result import AuditResult
from dpaudit.reports import words
from dpaudit.reports.digest import Row
from dpaudit.reports.table import NONE

_NAMES = {"personal.epsilon": "ε of a user", "personal.loss": "loss of a user"}


def columns(here: Sequence[Row]) -> Iterator[tuple[str, list[str]]]:
    """Yield the name and cells of a model's columns of quantiles over users."""
    for metric, name in _NAMES.items():
        quantiles = [row.personal.get(metric, {}) for row in here]
        if any(quantiles):
            parts = ", ".join(dict.fromkeys(part for found in quantiles for part in found))
            yield (
                f"{name}: {parts}",
                [" / ".join(map(words.number, found.values())) or NONE for found in quantiles],
            )


def note(result: AuditResult) -> list[str]:
    """Return the notes that explain the columns."""
    if not any(found.metric in _NAMES for found in result.measurements):
        return []
    return [
        "'ε of a user' is ε_u of Liu, Wang & Smola 2015, which depends on the user's budget and "
        "number of ratings. By an exact draw whose predictions stay in the range or are clipped to "
        "it, removing all ratings of the user costs at most a quarter of ε_u, and replacing them "
        "by those of x a quarter of ε_u + ε_x, which is at most half of the user's budget times ε "
        "if models use budgets. A temperature below 1 is counted.",
        "'loss of a user' is four times what the ratings of a user change in the log-density at "
        "the drawn models, so on the scale of ε_u. It is what happened, not what may happen: no "
        "claim covers a user by it. It lies above ε_u where predictions leave the range that the "
        "claim assumes.",
    ]
