from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import pytest
from pydantic import ValidationError

from dpaudit.record.result import Waiver, WaiverRecord, judged, today

FIELDS: dict[str, Any] = {
    "id": "claim/published/1",
    "owner": "the team",
    "statement": "known",
    "expires": date(2027, 1, 31),
}


@pytest.mark.cases(
    ("day", "needed", "state"),
    [
        (date(2027, 1, 31), {"claim/published/1"}, "active"),
        (date(2027, 1, 31), {"claim/published/10"}, "unused"),
        (date(2027, 2, 1), {"claim/published/1"}, "expired"),
        (date(2027, 2, 1), set(), "expired"),
    ],
)
def test_a_waiver_holds_to_the_end_of_its_last_day(day: date, needed: set[str], state: str) -> None:
    [record] = judged([Waiver(**FIELDS)], needed, day)
    assert (record.state, record.judged) == (state, day)
    assert record.model_dump(include=set(FIELDS)) == FIELDS


def test_a_state_is_judged_anew() -> None:
    then = WaiverRecord(**FIELDS, judged=date(2026, 1, 1), state="active")
    [now] = judged([then], {then.id}, date(2028, 1, 1))
    assert (now.state, now.judged) == ("expired", date(2028, 1, 1))


@pytest.mark.cases("name", FIELDS)
def test_every_field_is_required(name: str) -> None:
    with pytest.raises(ValidationError, match=name):
        Waiver(**{key: value for key, value in FIELDS.items() if key != name})


@pytest.mark.cases("name", ["id", "owner", "statement"])
def test_words_are_not_blank(name: str) -> None:
    with pytest.raises(ValidationError, match=name):
        Waiver(**{**FIELDS, name: "  "})


@pytest.mark.cases("value", [20270131, 1.5, True, datetime(2027, 1, 31, tzinfo=UTC)])
def test_a_number_is_no_day(value: Any) -> None:
    with pytest.raises(ValidationError, match="write it as 2027-01-31"):
        Waiver(**{**FIELDS, "expires": value})


def test_a_day_is_also_read_from_text() -> None:
    """A record holds it as text, and the config of a report does."""
    waiver = Waiver(**FIELDS)
    assert Waiver(**{**FIELDS, "expires": "2027-01-31"}) == waiver
    assert Waiver.model_validate_json(waiver.model_dump_json()) == waiver
    with pytest.raises(ValidationError, match="expires"):
        Waiver(**{**FIELDS, "expires": "2027-02-31"})


def test_the_day_is_that_of_utc() -> None:
    assert abs((datetime.now(UTC).date() - today()).days) <= 1
