"""Each statement of a gate, and each attacker, has a number of its own, of trainings of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from dpaudit.auditor.run import run_audit
from dpaudit.audits.membership.config import Membership, MembershipConfig
from dpaudit.core.errors import ConfigError
from dpaudit.record.result import STRONGEST, AuditResult, Measurement

STATEMENTS = (None, "next-training", "this-model", "average")


def config(*gates: dict[str, Any], **table: Any) -> MembershipConfig:
    sizes = {
        "interactions": 200,
        "held_out": 100,
        "users": 30,
        "trainings": 6,
        "rates": [0.1],
        "observers": ["scores"],
    }
    return MembershipConfig.model_validate(
        {
            "seed": 3,
            "data": {"synthetic": {"n_users": 80, "n_items": 40, "mean_per_user": 25}},
            "recommender": {"library": "most-popular"},
            "attack": [{"name": name} for name in ("conjugate-lira", "global-threshold")],
            "membership": sizes | table,
            "gate": list(gates),
        }
    )


def gate(of: str | None, **other: Any) -> dict[str, Any]:
    return {"metric": "attack.tpr", "max": 0.9, **({"of": of} if of else {}), **other}


def strongest(result: AuditResult, metric: str) -> dict[tuple[Any, Any], Measurement]:
    return {
        (one.statement, one.attacker): one
        for one in result.measurements
        if one.metric == metric and one.attack == STRONGEST
    }


@pytest.fixture(scope="module")
def result() -> AuditResult:
    """A run with a gate on each statement, and on a weaker attacker."""
    weaker = gate("this-model", attacker="trains-none")
    leak = {"metric": "leak", "max": 0.9, "of": "this-model"}
    utility = {"metric": "utility.ndcg", "min": 0.0001, "of": "this-model"}
    return run_audit(config(*map(gate, STATEMENTS), weaker, leak, utility))


def test_two_gates_share_no_interval(result: AuditResult) -> None:
    rates = strongest(result, "attack.tpr")
    assert set(rates) == {
        (None, None),
        ("this-model", None),
        ("average", None),
        ("this-model", "trains-none"),
    }
    assert rates["average", None].estimate.kind == "frequentist"
    assert len({one.key for one in rates.values()}) == len(rates)
    assert len({one.place for one in rates.values()}) == len(rates)
    sizes = {about: len(one.census.values) for about, one in rates.items() if one.census}
    # Of six trainings two calibrate; of this model all others do.
    assert sizes == {
        (None, None): 4,
        ("average", None): 4,
        ("this-model", None): 1,
        ("this-model", "trains-none"): 1,
    }


def test_the_training_that_ships_is_judged(result: AuditResult) -> None:
    numbers = strongest(result, "utility.ndcg") or {
        (one.statement, None): one for one in result.measurements if one.metric == "utility.ndcg"
    }
    assert {about: len(one.census.values) for about, one in numbers.items() if one.census} == {
        (None, None): 4,
        ("this-model", None): 1,
    }
    leak = strongest(result, "leak")["this-model", None]
    advantage = strongest(result, "attack.advantage")["this-model", None]
    assert leak.estimate.upper >= advantage.estimate.upper
    # This model: the rate of each attacker, the advantage and the utility; the average; the next
    # training; and the bound on ε.
    assert result.family.size == 4 + 1 + 1 + 1


def test_each_training_may_ship_and_shares_the_level() -> None:
    one, each = (
        strongest(run_audit(config(gate("this-model"), ships=ships)), "attack.tpr")[
            "this-model", None
        ]
        for ships in (6, "each")
    )
    assert one.census
    assert each.census
    assert len(each.census.values) == 6
    assert each.census.values[-1] == one.census.values[0]
    assert each.census.alpha == pytest.approx(one.census.alpha / 6)
    assert each.census.upper[-1] >= one.census.upper[0]


def test_which_training_ships_is_checked() -> None:
    with pytest.raises(ValidationError, match="ships = 7 is none of 6 trainings"):
        config(ships=7)
    table = Membership(trainings=6, ships=2)
    assert table.shipped(np.arange(6)) == [1]
    assert Membership(trainings=6).shipped(np.arange(6)) == [5]
    # Trainings that were stopped before it ship the last one at hand.
    assert Membership(trainings=6).shipped(np.arange(4)) == [3]
    assert Membership(trainings=6, ships="each").shipped(np.arange(4)) == [0, 1, 2, 3]


@pytest.mark.cases(
    ("given", "words"),
    [
        ({"attacker": "trains-none", "metric": "utility.ndcg"}, "numbers of trainings"),
        ({"detectable": 2.0, "metric": "utility.ndcg"}, "detectable belongs to max"),
        ({"detectable": 1.0}, "greater than 1"),
        ({"attacker": "none"}, "trains-none"),
    ],
)
def test_keys_of_attacks_are_for_numbers_of_attacks(given: dict[str, Any], words: str) -> None:
    with pytest.raises((ValidationError, ConfigError), match=words):
        config(gate(None, **given))


def test_an_attacker_who_trains_none_needs_an_attack_that_compares_none() -> None:
    weaker = config(gate(None, attacker="trains-none"), observers=["scores", "asked-rows"])
    for names in (["lira"], ["lira", "low-rank"]):
        given = weaker.model_dump() | {"attack": [{"name": name} for name in names]}
        with pytest.raises(
            ConfigError, match=r"gate\.0\.attacker = 'trains-none'.*'scores'|'asked"
        ):
            MembershipConfig.model_validate(given).check_plugins()
    rows = gate(None, attacker="trains-none", where={"observer": "asked-rows"})
    given = config(rows, observers=["scores", "asked-rows"]).model_dump()
    attacks = [{"name": "lira"}, {"name": "low-rank"}]
    MembershipConfig.model_validate(given | {"attack": attacks}).check_plugins()
