"""`[tune]`: what it takes."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from dpaudit.config.tune import Tune
from dpaudit.core.knobs import Knob


def test_a_range_is_a_knob() -> None:
    tune = Tune.model_validate({"settings": {"a": {"from": 0.1, "to": 10.0, "log": True}}})
    of = tune.settings["a"]
    assert not isinstance(of, list)
    assert of.knob == Knob(0.1, 10.0, log=True)
    assert Tune.model_validate(tune.model_dump(mode="json")) == tune


@pytest.mark.parametrize(("text", "seconds"), [("90 s", 90), ("30 min", 1800), ("1.5h", 5400)])
def test_times_are_read(text: str, seconds: float) -> None:
    assert Tune(time=text).time == seconds


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"settings": {"a": []}}, "at least 1 item"),
        ({"settings": {"a": {"from": 4, "to": 4}}}, "the range is empty"),
        ({"settings": {"a": {"from": 0, "to": 4, "log": True}}}, "takes from above 0"),
        ({"time": "soon"}, "'soon' is no time"),
        ({"time": "1 h", "trainings": 60}, "remove one"),
        ({"trainings": 0}, "greater than or equal to 1"),
    ],
)
def test_wrong_values_are_refused(table: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        Tune.model_validate(table)
