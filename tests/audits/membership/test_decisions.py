"""What numbers of trainings decide, as `dpaudit plan` says it."""

from __future__ import annotations

from typing import Any

import pytest

from dpaudit.auditor.run import run_audit
from dpaudit.audits.membership.config import MembershipConfig
from dpaudit.audits.membership.decisions import (
    decisions,
    least_targets,
    left_for_next,
    next_keys,
    own_intervals,
)
from dpaudit.audits.membership.trainings import judged_trainings

GATE = {"metric": "attack.auc", "max": 0.55}


def config(
    *gates: dict[str, Any],
    claim: dict[str, Any] | None = None,
    data: dict[str, Any] | None = None,
    **table: Any,
) -> MembershipConfig:
    recommender = {"library": "most-popular", **({"claim": claim} if claim else {})}
    return MembershipConfig.model_validate(
        {
            "seed": 5,
            "data": data or {"format": "synthetic"},
            "recommender": [recommender],
            "membership": {"observers": ["scores"], **table},
            "gate": list(gates),
        }
    )


def said(*gates: dict[str, Any], **changes: Any) -> str:
    return " ".join(decisions(config(*gates, **changes)))


@pytest.mark.cases(
    ("trainings", "can"), [(1, "cannot pass"), (22, "cannot pass"), (23, "pass and fail")]
)
def test_the_fewest_trainings_that_pass_are_named(trainings: int, can: str) -> None:
    text = said(GATE, trainings=trainings)
    assert "membership.trainings = 23: 19 are judged" in text
    assert text.endswith(f"{can}.")


def test_what_decides_a_claim_takes_its_share_of_the_error() -> None:
    assert "membership.trainings = 49: 39 are judged" in said(GATE, claim={"epsilon": 1.0})
    epsilon = {"metric": "epsilon", "max": 5.0, "detectable": 2.0}
    assert "39 are judged" in said(GATE, epsilon)


def test_other_statements_are_not_foretold() -> None:
    assert not said()
    assert not said({**GATE, "of": "average"})


def test_the_first_look_is_foretold() -> None:
    assert "'when-decided' ends them after 5 if" in said(GATE, stop="when-decided")
    assert "when-decided" not in said(GATE)
    # The look takes the whole level, whatever is left to it: three of five numbers, not two.
    gates = [GATE, {**GATE, "max": 0.6}, {**GATE, "max": 0.7}, {**GATE, "max": 0.8}]
    average = {"metric": "attack.advantage", "max": 0.5, "of": "average"}
    assert "'when-decided' ends them after 6 if" in said(*gates, average, stop="when-decided")
    assert "when-decided" not in said(GATE, stop="when-decided", trainings=4)


LEAK = {"metric": "leak", "max": 0.5}


@pytest.mark.cases(
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


@pytest.mark.long
@pytest.mark.parametrize(
    ("gates", "claim"),
    [
        ([GATE], None),
        ([GATE, {**GATE, "of": "average"}, {**GATE, "of": "this-model"}], None),
        ([GATE, {**LEAK, "of": "this-model"}, {"metric": "utility.ndcg", "min": 0.001}], None),
        ([GATE, {"metric": "epsilon", "max": 2.0, "detectable": 2.0}], {"epsilon": 1.0}),
    ],
)
@pytest.mark.parametrize("stop", ["at-end", "when-decided"])
def test_what_is_left_in_the_end_is_what_was_planned(
    gates: list[dict[str, Any]], claim: dict[str, Any] | None, stop: str
) -> None:
    data = {"n_users": 60, "n_items": 30, "mean_per_user": 15, "minimum_per_user": 5}
    sizes = {"interactions": 60, "held_out": 60, "observed_users": 10, "rates": [0.2]}
    # It fails at the first look.
    failing = {"metric": "utility.recall", "max": 1e-9}
    source = {"format": "synthetic", "synthetic": data}
    judged = config(*gates, failing, claim=claim, data=source, stop=stop, **sizes)
    record = run_audit(judged)
    left = left_for_next(judged, record.family)
    assert judged_trainings(record, judged.gate).alpha == pytest.approx(left)


@pytest.mark.cases(
    ("metric", "rate", "limit", "least", "most"),
    [
        ("attack.tpr", 0.01, 0.1, 250, 600),
        ("attack.tpr", 0.01, 0.03, 2000, 8000),
        ("attack.auc", None, 0.55, 800, 2000),
        ("leak", None, 0.1, 1500, 4000),
        ("leak", None, 0.2, 400, 1000),
    ],
)
def test_the_targets_that_a_limit_needs_are_told(
    metric: str, rate: float | None, limit: float, least: int, most: int
) -> None:
    targets = least_targets(metric, rate, limit, 0.02)
    assert targets is not None
    assert least < targets < most
    assert least_targets(metric, rate, limit, 0.2) < targets  # type: ignore[operator]


def test_the_targets_of_gates_on_trainings_at_hand_are_foretold() -> None:
    gate = {"metric": "leak", "max": 0.1, "of": "this-model"}
    assert "if nothing leaks" in said(gate)
    assert "more than a million" in said({**gate, "max": 0.0001})
    assert "targets of a unit" not in said({**gate, "of": "average"})


@pytest.mark.cases(
    ("claim", "trainings", "said_of_it"),
    [
        ({"epsilon": 4.38, "delta": 1e-5}, 24, "find a leak of 3 times as much if the noise is G"),
        ({"epsilon": 4.38, "delta": 1e-5}, 5, "find no leak of up to 4 times as much; one of 4"),
        ({"epsilon": 4.38}, 24, "find a leak of 1.25 times as much if the noise is Laplace."),
        ({"epsilon": 1.0, "adjacency": "user-add-remove"}, 24, ""),
    ],
)
def test_the_power_on_a_claim_is_forecast_by_the_law_of_its_noise(
    claim: dict[str, Any], trainings: int, said_of_it: str
) -> None:
    text = said(claim=claim, trainings=trainings, units=["interaction"], interactions=300)
    assert said_of_it in text
    assert bool(text) == bool(said_of_it)


def test_the_trainings_that_a_claim_needs_are_those_of_the_forecast() -> None:
    claim = {"epsilon": 4.38, "delta": 1e-5}
    sizes: dict[str, Any] = {"units": ["interaction"], "interactions": 300}
    few = said(claim=claim, trainings=5, **sizes)
    trainings = int(few.partition("membership.trainings = ")[2].partition(",")[0])
    assert "a leak of 4 times" in said(claim=claim, trainings=trainings, **sizes)
    assert "no leak" in said(claim=claim, trainings=trainings - 1, **sizes)
