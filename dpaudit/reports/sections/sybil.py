"""What Sybil attacks found: how much effort an attacker needs to read nine ratings in ten."""

from __future__ import annotations

from collections.abc import Sequence

from dpaudit.record.result import AuditResult, Measurement
from dpaudit.reports import words
from dpaudit.reports.table import NONE, Table

# The accuracy whose effort is asked for.
LEVEL = 0.9

Key = tuple[str, float]


def table(result: AuditResult) -> Table | None:
    """The accounts, changes or lists that 90 % accuracy takes, a column a Sybil attack."""
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


# How to read the table.
NOTE = (
    "An effort is the number of accounts that the attacker makes, those planted before the "
    "learning phase included, of changes, or of lists observed. 'a to b': the first of the efforts "
    f"tried with {words.percent(LEVEL)} accuracy is one from a to b; '> n' or 'a to > n': all of "
    "them, up to n, fall short or may, and n has the accuracy in brackets. Who only guesses is "
    "right once in as many times as a rating has values, and half the time about a purchase or by "
    "observed lists. A claimed ε is of one release: m releases together have m times as much."
)


def found_in(result: AuditResult) -> list[Measurement]:
    """The accuracies of all Sybil attacks."""
    return [m for m in result.measurements if m.metric == "sybil.accuracy"]


def _labels(found: Sequence[Measurement]) -> list[str]:
    return list(dict.fromkeys(m.attack or "" for m in found))


def _of(found: Sequence[Measurement], key: Key, label: str) -> list[Measurement]:
    here = [m for m in found if (m.model, m.epsilon) == key and m.attack == label]
    return sorted(here, key=lambda m: m.effort or 0)


def _effort(found: Sequence[Measurement]) -> str:
    """From the first tried effort that may reach the level to the first that does.

    With less than the former the level is not reached; the first that reaches it is at most the
    latter. Both hold with the family's confidence, since its intervals hold together.
    """
    if not found:
        return NONE
    least = next((m.effort for m in found if m.estimate.upper >= LEVEL), None)
    most = next((m.effort for m in found if m.estimate.lower >= LEVEL), None)
    last = found[-1]
    if most is None:
        reached = words.measured(last.estimate.value, 2)
        possible = "" if least is None else f"{least} to "
        return f"{possible}> {last.effort} ({reached})"
    return str(most) if least == most else f"{least} to {most}"
