"""Waivers: accepted findings, each with an owner, a reason and a last day."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import UTC, date, datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, StringConstraints

from dpaudit.core.messages import show

State = Literal["active", "expired", "unused"]


def _day(value: Any) -> Any:
    """Refuse what pydantic would read as a day: numbers of seconds, and moments."""
    if isinstance(value, datetime) or not isinstance(value, date | str):
        raise ValueError(f"{show(value)} is no day: write it as 2027-01-31")
    return value


def _words(most: int) -> Any:
    return StringConstraints(strip_whitespace=True, min_length=1, max_length=most)


class Waiver(BaseModel):
    """A waiver of one finding: a `[[waiver]]` of a config or of a file of waivers.

    Attributes:
        id: the id of the claim or gate, as in the record and in the output of `dpaudit gate`.
        owner: who answers for it.
        statement: why the finding is accepted.
        expires: the last day on which it holds, in UTC.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", str_max_length=10_000)

    id: Annotated[str, _words(1000)]
    owner: Annotated[str, _words(200)]
    statement: Annotated[str, _words(2000)]
    expires: Annotated[date, BeforeValidator(_day)]


class WaiverRecord(Waiver):
    """A waiver with its state on one day.

    Attributes:
        judged: the day, in UTC. Like `timing` it is not the same when a run is repeated, nor are
            the states and the outcome that follow from it.
        state: `expired` after its last day, and this stops the run; else `active` if its claim is
            false or its gate does not pass, and `unused` if not.
    """

    judged: date
    state: State


def judged(waivers: Iterable[Waiver], needed: Collection[str], day: date) -> list[WaiverRecord]:
    """Return waivers with their states.

    Args:
        waivers: the waivers; earlier states are dropped.
        needed: the ids of false claims, and of gates that do not pass.
        day: the day, in UTC.
    """
    return [
        WaiverRecord(
            **waiver.model_dump(include=set(Waiver.model_fields)),
            judged=day,
            state=_state(waiver, needed, day),
        )
        for waiver in waivers
    ]


def accepted(waivers: Iterable[WaiverRecord]) -> dict[str, WaiverRecord]:
    """Return the active waivers by the id of the finding that they accept."""
    return {waiver.id: waiver for waiver in waivers if waiver.state == "active"}


def today() -> date:
    """Return the day in UTC."""
    return datetime.now(UTC).date()


def _state(waiver: Waiver, needed: Collection[str], day: date) -> State:
    if day > waiver.expires:
        return "expired"
    return "active" if waiver.id in needed else "unused"
