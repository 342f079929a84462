"""What a run did not try: a low number says nothing about it."""

from __future__ import annotations

from collections.abc import Iterator

from dpaudit.core.membership import OBSERVERS
from dpaudit.record.metrics import entry
from dpaudit.record.result import AuditResult, Measurement
from dpaudit.reports import columns, words
from dpaudit.reports.sections import membership

_ALWAYS = (
    "Other attacks on the same outputs, other data, other hyper-parameters, and models trained "
    "again over time on data that change.",
    "Everything outside the released outputs: running times, memory, logs, who may read the data, "
    "and whether the deployed code is the audited code.",
)


def sentences(result: AuditResult) -> list[str]:
    """Return what was not tried, the most specific first."""
    roles = {entry(found.metric).role for found in result.measurements}
    members = membership.audited(result)
    found = list(_members(result) if members else ())
    if not columns.within(result, "games"):
        found.append("Games that test a claimed ε: no [[game]] and no membership game was run.")
    elif not members:
        pairs = ", ".join(dict.fromkeys(each.pair for each in result.pairs))
        found.append(
            f"Other pairs of neighbouring data sets than those that were compared ({pairs})."
        )
        found += _observers(result)
    if "recovery" not in roles:
        found.append("Attacks that recover ratings or purchases.")
    if not members:
        found.append(
            "Membership inference with real users: whether the training data held an interaction "
            "or a user."
        )
    if not result.sybil_attacks:
        found.append("Attackers who add fake accounts or change the training data.")
    return [*found, *_ALWAYS]


def _members(result: AuditResult) -> Iterator[str]:
    """Yield the observers and targets that a membership audit left out."""
    games = [each for each in result.measurements if each.unit]
    missing = [seen for name, seen in OBSERVERS.items() if name not in _seen(games)]
    if missing:
        yield f"Observers who see {'; or '.join(missing)}."
    units = {each.unit for each in games}
    yield from (
        f"Whether a whole {unit} was in the training data."
        if unit == "user"
        else f"Whether a single {unit} was in the training data."
        for unit in ("interaction", "user")
        if unit not in units
    )


def _seen(games: list[Measurement]) -> set[str]:
    return {each.observer for each in games if each.observer}


def _observers(result: AuditResult) -> Iterator[str]:
    """Yield the observers whom a claim covers and whom no game put to the test."""
    claimed = {
        words.observer(name): name
        for point in result.points
        if point.claim
        for name in point.claim.also
    }
    seen = {_observer(each) for each in result.measurements}
    missing = [said for said, name in claimed.items() if name not in seen]
    if missing:
        yield f"Further observers whom a claim covers: {'; '.join(missing)}."


def _observer(found: Measurement) -> str | None:
    """Return who observed a game; an observer who was chosen stands behind the pair's name."""
    _, chosen, name = (found.pair or "").rpartition(" (")
    return found.observer or (name.removesuffix(")") if chosen else None)
