"""What numbers of trainings decide, as `dpaudit plan` says it."""

from __future__ import annotations

from typing import Any

import pytest

from dpaudit.audits.membership.config import MembershipConfig
from dpaudit.audits.membership.decisions import decisions, next_keys, own_intervals

GATE = {"metric": "attack.auc", "max": 0.55}


def config(
    *gates: dict[str, Any], claim: dict[str, Any] | None = None, **table: Any
) -> MembershipConfig:
    recommender = {"library": "most-popular", **({"claim": claim} if claim else {})}
    return MembershipConfig.model_validate(
        {
            "data": {"format": "synthetic"},
            "recommender": [recommender],
            "membership": {"observers": ["scores"], **table},
            "gate": list(gates),
        }
    )


def said(*gates: dict[str, Any], **changes: Any) -> str:
    return " ".join(decisions(config(*gates, **changes)))


@pytest.mark.parametrize(
    ("trainings", "can"), [(1, "cannot pass"), (22, "cannot pass"), (23, "pass and fail")]
)
def test_the_fewest_trainings_that_pass_are_named(trainings: int, can: str) -> None:
    text = said(GATE, trainings=trainings)
    assert "can pass with membership.trainings = 23: 19 are judged" in text
    assert text.endswith(f"{can}.")


def test_what_decides_a_claim_takes_its_share_of_the_error() -> None:
    assert "membership.trainings = 49: 39 are judged" in said(GATE, claim={"epsilon": 1.0})
    epsilon = {"metric": "epsilon", "max": 5.0, "detectable": 2.0}
    assert "39 are judged" in said(GATE, epsilon)


def test_other_statements_are_not_foretold() -> None:
    assert not said()
    assert not said({**GATE, "of": "average"}, {**GATE, "of": "this-model"})


def test_the_first_look_is_foretold() -> None:
    assert "'when-decided' ends them after 5 if" in said(GATE, stop="when-decided")
    assert "when-decided" not in said(GATE)
    assert "when-decided" not in said(GATE, stop="when-decided", trainings=4)


LEAK = {"metric": "leak", "max": 0.5}


@pytest.mark.parametrize(
    ("gates", "keys", "intervals"),
    [
        ([GATE], 2, 2),
        ([GATE, {**GATE, "max": 0.6}], 4, 2),
        ([LEAK], 1, 2),
        ([LEAK, {"metric": "attack.advantage", "max": 0.5}], 3, 4),
    ],
)
def test_gates_on_one_number_share_its_intervals_and_a_leak_has_those_of_all_observers(
    gates: list[dict[str, Any]], keys: int, intervals: int
) -> None:
    judged = config(*gates, observers=["scores", "own-list"])
    assert (len(next_keys(judged)), own_intervals(judged)) == (keys, intervals)
