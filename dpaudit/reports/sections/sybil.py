"""The results of Sybil attacks: the effort that an attacker needs to read 9 of 10 ratings."""

from __future__ import annotations

from collections.abc import Sequence

from dpaudit.core import rounding
from dpaudit.record.result import AuditResult, Measurement
from dpaudit.reports import columns, words
from dpaudit.reports.table import NONE, Table

# The accuracy for which the table gives the effort.
LEVEL = 0.9

Key = tuple[str, float]


def table(result: AuditResult) -> Table | None:
    """Return the effort for 90 % accuracy, with a column for each Sybil attack."""
    found = found_in(result)
    labels = _labels(found)
    if not labels:
        return None
    models = list(dict.fromkeys(m.model for m in found))
    keys = sorted({(m.model, m.epsilon) for m in found}, key=lambda k: (models.index(k[0]), k[1]))
    cells = [
        [
            model,
            words.epsilon(epsilon),
            *(_effort(_of(found, (model, epsilon), label)) for label in labels),
        ]
        for model, epsilon in keys
    ]
    return Table(
        f"Accounts, changes or lists for {words.percent(LEVEL)} accuracy",
        ["model", "ε", *labels],
        cells,
    )


# The note that explains the table.
NOTE = (
    "An effort is the number of accounts that the attacker creates (those created before training "
    "included), of changes, or of observed lists. 'a to b': the first effort tried that has "
    f"{words.percent(LEVEL)} accuracy is from a to b. '> n' or 'a to > n': every effort tried, up "
    "to n, falls short or may fall short, and n has the accuracy in brackets. An attacker who only "
    "guesses a rating with v possible values is right in 1/v of the cases; for a purchase, or by "
    "observed lists, in half. A claimed ε covers one release: m releases together have m ε."
)


def found_in(result: AuditResult) -> list[Measurement]:
    """Return the accuracies of all Sybil attacks."""
    return columns.within(result, "sybil")


def _labels(found: Sequence[Measurement]) -> list[str]:
    return list(dict.fromkeys(m.attack or "" for m in found))


def _of(found: Sequence[Measurement], key: Key, label: str) -> list[Measurement]:
    here = [m for m in found if (m.model, m.epsilon) == key and m.attack == label]
    return sorted(here, key=lambda m: m.effort or 0)


def _effort(found: Sequence[Measurement]) -> str:
    """Return the range from the first tried effort that may reach the level to the first that does.

    Efforts below the former do not reach the level; the first effort that reaches it is at most the
    latter. Both hold with the family's confidence, because its intervals hold together.
    """
    if not found:
        return NONE
    least = next((m.effort for m in found if m.estimate.upper >= LEVEL), None)
    most = next((m.effort for m in found if m.estimate.lower >= LEVEL), None)
    last = found[-1]
    if most is None:
        reached = rounding.measured(last.estimate.value, 2)
        possible = "" if least is None else f"{least} to "
        return f"{possible}> {last.effort} ({reached})"
    return str(most) if least == most else f"{least} to {most}"
