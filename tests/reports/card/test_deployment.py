"""What a privacy card says of the deployed model."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dpaudit.core.claim import LONGER, LONGEST
from dpaudit.core.estimate import Estimate
from dpaudit.record.result import AuditResult, Measurement
from dpaudit.reports.card import page
from dpaudit.reports.card.build import card_of
from dpaudit.reports.card.deployment import deployment
from tests.support.records import accuracy

Make = Callable[..., AuditResult]


def test_one_point_is_the_deployed_one(make: Make) -> None:
    found = deployment(make(epsilons=(1.0,)))
    assert (found.model, found.epsilon, found.choice) == ("published", 1.0, "")
    assert found.protected == "One rating is added or removed."
    assert found.utility.startswith("overlap@k: published 0.500")


def test_a_sweep_without_a_choice_has_no_deployed_epsilon(result: AuditResult) -> None:
    found = deployment(result)
    assert (found.model, found.epsilon) == (None, None)
    assert "card.epsilon" in found.choice


def test_an_assumption_that_fails_is_counted(make: Make) -> None:
    base = make(epsilons=(1.0,))
    counted = [
        Measurement(
            metric="assumption.norm",
            model="published",
            epsilon=1.0,
            step=step,
            part=part,
            estimate=Estimate.exact(value, "counted"),
        )
        for step, part, value in ((1, LONGER, 0.2), (2, LONGER, 0.29), (2, LONGEST, 1.7))
    ]
    floor = counted[0].model_copy(
        update={"metric": "assumption.floor", "part": None, "estimate": Estimate.exact(0.0, "none")}
    )
    record = base.model_copy(update={"measurements": [*counted, floor]})
    assert deployment(record).violated == {f"length of users' factors, {LONGER}": 0.29}
    numbers = {fact.name: fact.text for fact in page.of(card_of(record)).numbers}
    assert numbers["Not as assumed"] == (
        f"A claim assumes 0, and this was counted: length of users' factors, {LONGER}: 0.29."
    )
    assert deployment(base).violated == {}


@pytest.mark.cases(
    ("value", "lower", "upper", "shown"),
    [
        (0.42, 0.28, 0.54, ("42 of 100", "28 to 54")),
        # An interval is rounded outwards.
        (0.42, 0.2801, 0.5301, ("42 of 100", "28 to 54")),
        (0.004, 0.0001, 1.0, ("under 1 of 100", "0 to 100")),
    ],
)
def test_what_is_found_has_an_interval_of_as_many(
    make: Make, value: float, lower: float, upper: float, shown: tuple[str, str]
) -> None:
    base = make(epsilons=(1.0,))
    measurements = [accuracy(value, lower, upper)]
    (row,) = deployment(base.model_copy(update={"measurements": measurements})).found
    assert (row.found, row.interval) == shown
    assert (row.attacker, row.what) == ("a", "hidden ratings are recovered")
