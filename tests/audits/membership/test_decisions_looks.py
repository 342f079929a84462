"""Trainings that end as soon as a gate fails: when they are judged, and what the record says."""

from __future__ import annotations

import json
import re
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpaudit.auditor.gate import judge_run
from dpaudit.auditor.plan import Plan, RunFolder
from dpaudit.auditor.run import merge, run_audit, run_shard
from dpaudit.audits.membership.calibration import division
from dpaudit.audits.membership.config import MembershipConfig
from dpaudit.audits.membership.decisions import planned
from dpaudit.audits.membership.trainings import certified, least_certified
from dpaudit.config.gate import Gate
from dpaudit.execution.tasks import Shard
from dpaudit.execution.workers import Workers
from dpaudit.recommenders.most_popular import MostPopular
from dpaudit.record.result import AuditResult
from dpaudit.record.storage import contradiction
from dpaudit.record.values import Census

ALPHA = 0.05
# Every training surely exceeds it, as held-out interactions are known.
FAILS = {"metric": "utility.ndcg", "max": 1e-9}
PASSES = {"metric": "utility.ndcg", "max": 0.999}
TABLE: dict[str, Any] = {
    "stop": "when-decided",
    "observers": ["scores"],
    "interactions": 60,
    "held_out": 60,
    "observed_users": 10,
    "rates": [0.2],
}


def config(
    *gates: dict[str, Any], labels: str = "a", model: Any = None, **changes: Any
) -> MembershipConfig:
    synthetic = {"n_users": 60, "n_items": 30, "mean_per_user": 15, "minimum_per_user": 5}
    return MembershipConfig.model_validate(
        {
            "seed": 5,
            "data": {"synthetic": synthetic},
            "membership": TABLE | changes,
            "recommender": [{"label": label, "library": "most-popular"} for label in labels],
            "model": model or [],
            "gate": list(gates),
        }
    )


def numbers(record: AuditResult) -> str:
    return json.dumps(record.model_dump(mode="json", exclude={"timing"}))


def judged(record: AuditResult) -> set[int]:
    return {len(one.census.values) for one in record.measurements if one.census}


def test_the_first_look_needs_few_trainings_and_the_last_has_all() -> None:
    parts = division(24, 5, 1)
    looks = planned(parts, [(index,) for index in range(24)], ALPHA, ALPHA, 6)
    sizes = [tuple(map(len, look.parts)) for look in looks]
    assert sizes == [(3, 3), (5, 6), (5, 12), (5, 19)]
    assert [look.last for look in looks] == [False, False, False, True]
    for look in looks:
        for some, all_ in zip(look.parts, parts, strict=True):
            np.testing.assert_array_equal(some, all_[: len(some)])
        # The first look, and all others together, have 3 and 19 intervals of each number.
        assert (look.looks, look.intervals) == (4, 22)


@pytest.mark.cases("numbers", [1, 6, 40, 1000])
def test_both_halves_of_the_level_pay_for_all_looks(numbers: int) -> None:
    blocks = [(index,) for index in range(400)]
    look = planned(division(400, 16, 1), blocks, ALPHA, ALPHA, numbers)[0]
    least = least_certified(ALPHA, numbers)
    assert len(look.parts.judged) == least
    assert look.spent == ALPHA**least
    assert numbers * look.spent <= ALPHA / 6


def test_nothing_is_gained_by_a_look_that_needs_every_block() -> None:
    for trainings, calibrating, numbers in ((24, 5, 0), (1, 0, 6), (4, 2, 6)):
        blocks = [(index,) for index in range(trainings)]
        (look,) = planned(division(trainings, calibrating, 1), blocks, ALPHA, ALPHA, numbers)
        assert (look.last, look.looks, look.intervals) == (True, 1, trainings - calibrating)
    (look,) = planned(division(24, 5, 1), [tuple(range(24))], ALPHA, ALPHA, 6)
    assert look.last


def test_a_leak_in_every_training_ends_them_and_leaves_other_gates_open(fits: list[int]) -> None:
    mean = {"metric": "attack.auc", "min": 0.001, "of": "average"}
    bound = {"metric": "epsilon", "max": 50, "detectable": 2}
    record = run_audit(config(FAILS, PASSES, mean, bound))
    assert contradiction(record) is None
    # Three calibrate, two are judged, and no further ones test the model.
    assert (len(fits), judged(record)) == (5, {2})
    assert [gate.outcome for gate in record.gates] == ["fail", *["inconclusive"] * 3]
    assert "2 of 2 judged trainings are above 1e-09" in record.gates[0].reason
    for gate in record.gates[1:]:
        assert re.search("after 2 judged trainings, which 3 .*, of 24", gate.reason)
    for one in record.measurements:
        if one.metric == "epsilon":
            assert one.estimate.alpha == pytest.approx(record.family.alpha / 5)
        elif one.metric == "attack.auc" and one.census:
            assert one.estimate.kind == "range"
    # Gates that are evaluated later find the same.
    again = judge_run(record, date(2026, 1, 1), gates=[Gate.model_validate(PASSES)])
    assert again.gates[0].outcome == "inconclusive"


def test_without_a_failure_all_trainings_run_and_can_pass(fits: list[int]) -> None:
    record = run_audit(config(PASSES))
    assert (len(fits), judged(record)) == (24 + 4, {19})
    assert record.gates[0].outcome == "pass"
    whole = run_audit(config(PASSES, stop="at-end"))
    assert [one.census.values for one in record.measurements if one.census] == [
        one.census.values for one in whole.measurements if one.census
    ]


def test_other_statements_end_nothing(fits: list[int]) -> None:
    run_audit(config({**FAILS, "of": "average"}))
    assert len(fits) == 24 + 4


@pytest.mark.long
def test_the_record_is_the_same_on_workers_in_shards_and_after_a_whole_run(
    tmp_path: Path, fits: list[int]
) -> None:
    stopping = config(FAILS)
    record = run_audit(stopping)
    assert numbers(run_audit(stopping, workers=Workers(2))) == numbers(record)
    for index in (1, 2):
        run_shard(Plan(stopping, RunFolder(tmp_path / "shards")), Shard(index, 2))
    assert numbers(merge([tmp_path / "shards"], tmp_path / "shards")) == numbers(record)
    # Kept trainings are used, whichever way they were asked for.
    folder = RunFolder(tmp_path / "kept")
    run_audit(config(FAILS, stop="at-end"), folder=folder)
    del fits[:]
    assert numbers(run_audit(stopping, folder=folder)) == numbers(record)
    assert not fits


def test_a_model_that_stops_leaves_gates_on_others_open() -> None:
    gates = {**FAILS, "where": {"model": "a"}}, {**PASSES, "where": {"model": "b"}}
    record = run_audit(config(*gates, labels="ab"))
    assert [gate.outcome for gate in record.gates] == ["fail", "inconclusive"]
    assert "has 2: audit them apart" in record.gates[1].reason


def test_trainings_that_were_done_elsewhere_are_judged_whole(
    fits: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MostPopular, "trains", False)
    record = run_audit(config(FAILS))
    assert (len(fits), judged(record), record.gates[0].outcome) == (24, {19}, "fail")


@pytest.mark.cases("exceeding", [(1, 1, 1), (1, 0, 1, 1, 1, 1), (0, 0, 1, 1, 1, 1, 0, 1)])
def test_what_certifies_a_share_at_one_level_does_so_at_smaller_ones(
    exceeding: tuple[int, ...],
) -> None:
    """So a failure at a look is one in the end, whatever level is left there."""
    chosen, census = Gate.model_validate(FAILS), Census.known(exceeding)
    for numbers in (1, 6, 40):
        sure = [certified(chosen, census, alpha, numbers) for alpha in np.geomspace(1e-4, 0.3, 60)]
        assert sure == sorted(sure, reverse=True)


@pytest.mark.long
def test_each_epsilon_of_a_sweep_stops_by_itself() -> None:
    params = {"dimensions": 2, "epochs": 2}
    model = {"defense": "dpsgd-mf", "variant": "corrected", "epsilon": [1, 4], "params": params}
    gate = {"metric": "utility.rmse", "max": 1e-9, "where": {"epsilon": 4.0}}
    record = run_audit(config(gate, labels="", model=model, trainings=100))
    at = {one.epsilon: len(one.census.values) for one in record.measurements if one.census}
    assert at == {1.0: 84, 4.0: 2}
    assert [one.epsilon for one in record.findings if one.about == "stopped"] == [4.0]
    assert "At ε = 4 stopped after 2 judged" in str(record.findings)


def test_blind_baselines_share_their_level_among_all_looks() -> None:
    levels = []
    for stop in ("at-end", "when-decided"):
        record = run_audit(config(FAILS, stop=stop))
        levels.append(
            next(
                one.estimate.alpha
                for one in record.measurements
                if one.metric == "membership.blind" and one.attack == "user activity"
            )
        )
    # Looks at 2, 4, 8, 16 and all 19 judged trainings.
    assert levels[1] == pytest.approx(levels[0] / 5)
