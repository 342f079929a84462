"""What numbers of trainings decide, as `dpaudit plan` says it."""

from __future__ import annotations

from typing import Any

import pytest

from dpaudit.audits.membership.config import MembershipConfig
from dpaudit.audits.membership.decisions import decisions

GATE = {"metric": "attack.auc", "max": 0.55}


def said(*gates: dict[str, Any], trainings: int = 24, claim: dict[str, Any] | None = None) -> str:
    recommender = {"library": "most-popular", **({"claim": claim} if claim else {})}
    config = MembershipConfig.model_validate(
        {
            "data": {"format": "synthetic"},
            "recommender": [recommender],
            "membership": {"trainings": trainings, "observers": ["scores"]},
            "gate": list(gates),
        }
    )
    return " ".join(decisions(config))


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
