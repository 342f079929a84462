"""What numbers of membership audits are about, and so which runs are compared by them."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import pytest

from dpaudit.auditor.plan import RunFolder
from dpaudit.auditor.run import run_audit
from dpaudit.audits.membership.config import MembershipConfig
from dpaudit.record.comparison import Comparison, compare
from dpaudit.record.result import AuditResult

TABLE: dict[str, Any] = {
    "observers": ["scores"],
    "trainings": 12,
    "interactions": 200,
    "held_out": 60,
    "rates": [0.1],
    "users": 30,
    "observed_users": 10,
}
DATA = {"n_users": 100, "n_items": 60, "mean_per_user": 20, "minimum_per_user": 5}
ATTACKS = [{"name": "lira"}, {"name": "global-threshold"}]


def run(params: Any = None, /, seed: int = 7, **table: Any) -> AuditResult:
    """A run of the model, with these keys of its `[membership]`, or of other tables."""
    return _run(json.dumps([params or {}, seed, table]))


@functools.cache
def _run(asked: str) -> AuditResult:
    params, seed, table = json.loads(asked)
    others = {
        name: table.pop(name) for name in ("data", "attack", "audit", "gate") if name in table
    }
    recommender = {"target": "steady_model:Steady", "label": "mine", "params": {"settings": params}}
    for name in ("forget", "claim"):
        if name in table:
            recommender[name] = table.pop(name)
    values: dict[str, Any] = {
        "seed": seed,
        "data": {"synthetic": DATA},
        "recommender": recommender,
        "attack": ATTACKS,
        "membership": TABLE | table,
    }
    return run_audit(MembershipConfig.model_validate(values | others), allow_code=True)


def judged(compared: Comparison) -> dict[str, str]:
    return {number.metric: number.judgement for number in compared.numbers}


ATTACKED = ("attack.auc", "attack.advantage", "attack.tpr", "epsilon", "leak")
USEFUL = tuple(f"utility.{name}" for name in ("ndcg", "recall", "precision", "hits", "mrr"))
EVERY = (*ATTACKED, *USEFUL, "utility.coverage")


@pytest.mark.cases(
    ("before", "after", "key", "apart"),
    [
        # Another attacker: other trainings calibrate, also if as many do.
        ({}, {"trainings": 24}, "membership.trainings 12 → 24", ATTACKED),
        (
            {"calibrating": 2},
            {"calibrating": 2, "trainings": 24},
            "membership.trainings 12 → 24",
            ATTACKED,
        ),
        ({}, {"calibrating": 4}, "membership.calibrating unset → 4", ATTACKED),
        # Other targets, other data, other test data.
        ({}, {"interactions": 400}, "membership.interactions 200 → 400", EVERY),
        ({}, {"held_out": 200}, "membership.held_out 60 → 200", EVERY),
        ({}, {"draw": "rare-items"}, "membership.draw 'random' → 'rare-items'", EVERY),
        ({}, {"observed_users": 20}, "membership.observed_users 10 → 20", EVERY),
        (
            {"users": 45},
            {"users": 45, "units": ["interaction", "user"]},
            "membership.units.1 unset → 'user'",
            EVERY,
        ),
        ({}, {"seed": 8}, "seed 7 → 8", EVERY),
        ({}, {"data": {"synthetic": DATA | {"seed": 9}}}, "data.digest", EVERY),
        # What is asked.
        ({}, {"k": 5}, "membership.k 10 → 5", (*USEFUL, "utility.coverage")),
        ({}, {"delta": 1e-9}, "membership.delta 1e-05 → 1e-09", ("epsilon",)),
        # More to attack with, and to be seen.
        ({}, {"attack": [*ATTACKS, {"name": "rmia"}]}, "attack.rmia.name unset", ATTACKED),
        ({}, {"observers": ["scores", "own-list"]}, "games", ("leak",)),
    ],
)
def test_a_number_is_compared_only_with_one_that_is_about_the_same(
    before: dict[str, Any], after: dict[str, Any], key: str, apart: tuple[str, ...]
) -> None:
    for first, second in ((before, after), (after, before)):
        compared = compare(run(**first), run(**second))
        here = judged(compared)
        assert set(here.values()).isdisjoint({"worse", "better"})
        assert {name for name, judgement in here.items() if judgement == "not comparable"} == {
            *apart
        } & {*here}
        assert compared.outcome == "inconclusive"
    named = compare(run(**before), run(**after))
    reasons = {n.reason for n in named.numbers if n.judgement == "not comparable"}
    assert all(key in reason for reason in reasons), reasons
    assert key in named.reason


@pytest.mark.cases(
    ("before", "after"),
    [
        ({}, {"users": 20}),
        ({}, {"calibrating": 2}),
        ({}, {"rates": [0.1, 0.3]}),
        ({}, {"audit": {"confidence": 0.9}}),
        ({}, {"audit": {"trials": 5}, "groups": []}),
    ],
)
def test_what_decides_no_number_keeps_none_apart(
    before: dict[str, Any], after: dict[str, Any]
) -> None:
    compared = compare(run(**before), run(**after))
    assert set(judged(compared).values()) == {"cannot tell"}
    assert compared.outcome == "pass"


def test_the_first_trainings_of_a_longer_run_compare_with_a_shorter_one(
    fits: list[int], tmp_path: Path
) -> None:
    def popular(trainings: int, folder: str) -> AuditResult:
        table = {**TABLE, "trainings": trainings}
        values = {"seed": 7, "data": {"synthetic": DATA}, "membership": table}
        config = MembershipConfig.model_validate(
            values | {"recommender": {"library": "most-popular"}}
        )
        return run_audit(config, folder=RunFolder(tmp_path / folder))

    shorter, longer = popular(12, "shorter"), popular(24, "longer")
    trained = len(fits)
    first = popular(12, "longer")
    assert len(fits) == trained
    assert compare(shorter, first).same
    assert judged(compare(shorter, longer))["attack.auc"] == "not comparable"


STRONG: dict[str, Any] = {"trainings": 14, "calibrating": 4}


def test_a_model_that_leaks_more_is_found_by_an_equal_config() -> None:
    private, leaking = run({"leak": 0.05}, **STRONG), run(**STRONG)
    worse, better = judged(compare(private, leaking)), judged(compare(leaking, private))
    for metric in ("attack.auc", "attack.advantage", "leak"):
        assert (worse[metric], better[metric]) == ("worse", "better")
    assert compare(private, leaking).outcome == "fail"


def test_a_model_that_draws_beyond_its_seed_has_other_attackers_in_each_run() -> None:
    drifting = [run({"leak": leak, "salt": -1}, **STRONG) for leak in (0.05, 0.6)]
    reasons = {number.metric: number.reason for number in compare(*drifting).numbers}
    assert "so do the attackers" in reasons["attack.auc"]
    assert not reasons["utility.mrr"]


@pytest.mark.long
def test_a_model_of_the_same_law_is_seldom_told_apart() -> None:
    """Its attackers are others, as they learned from other noise, though by the same coins."""
    told = 0
    for seed in range(40):
        runs = (run({"salt": salt}, seed=seed, **STRONG) for salt in (0, 1))
        told += bool({"worse", "better"} & set(judged(compare(*runs)).values()))
    assert told <= 2


def test_a_run_that_stopped_early_has_other_trainings_than_one_that_did_not() -> None:
    """With the same config the trainings of one run end early, as its gate surely fails."""
    gate = [{"metric": "attack.auc", "max": 0.6}]
    table: dict[str, Any] = {"trainings": 24, "stop": "when-decided", "gate": gate}
    compared = compare(run({"leak": 0.05}, **table), run({"leak": 2.0}, **table))
    assert {number.judgement for number in compared.numbers} == {"not comparable"}
    assert "membership.stop.0 unset → " in compared.reason


def test_a_baseline_that_lacks_keys_is_not_comparable() -> None:
    """A record of an older version may lack what this one decides by."""
    after = run()
    for key in ("held_out", "trainings", "units", "draw"):
        older = {name: value for name, value in after.config["membership"].items() if name != key}
        config = {**after.config, "membership": older}
        compared = compare(after.model_copy(update={"config": config}), after)
        assert "not comparable" in {number.judgement for number in compared.numbers}
        assert compared.outcome == "inconclusive"
    bare = {name: value for name, value in after.config.items() if name != "membership"}
    for config in (
        bare,
        {**bare, "membership": [1]},
        {"recommender": 5, "membership": {"units": 3}},
    ):
        compared = compare(after.model_copy(update={"config": config}), after)
        assert {number.judgement for number in compared.numbers} == {"not comparable"}


def test_a_claim_that_a_stronger_attacker_finds_false_is_not_newly_false() -> None:
    claim = {"epsilon": 0.5}
    accepts: dict[str, Any] = {"audit": {"fail_on_false_claim": False}}
    runs = (run({"leak": 2.0}, claim=claim, trainings=n, **accepts) for n in (3, 12))
    compared = compare(*runs)
    [change] = compared.claims
    assert (change.move, compared.outcome) == ("not comparable", "inconclusive")
    assert change.reason.startswith("membership.trainings 3 → 12")


def test_a_membership_and_a_deletion_are_other_games() -> None:
    compared = compare(run(), run(forget="retrain"))
    assert {number.judgement for number in compared.numbers} == {"not comparable"}
    assert "recommender.forget false → true" in compared.reason
    forgets = run(forget="retrain")
    table = forgets.config["recommender"][0]
    for changes, apart in (({"forget": "own"}, False), ({"requests": 5}, True)):
        config = {**forgets.config, "recommender": [{**table, **changes}]}
        again = compare(forgets, forgets.model_copy(update={"config": config}))
        assert ("not comparable" in {number.judgement for number in again.numbers}) is apart
