"""The claim that is shown is that of the setting that is released."""

from __future__ import annotations

from typing import Any

import pytest

from dpaudit.audits.membership.config import MembershipConfig
from dpaudit.core.errors import ConfigError
from dpaudit.data.source_parts import SyntheticParams
from dpaudit.data.synthetic import generate
from dpaudit.tuning.covered import claimed, of_choice
from dpaudit.tuning.settings import Setting, Tuned

SIZES = {"n_users": 60, "n_items": 40, "mean_per_user": 20}
DP = {"defense": "dpsgd-mf", "epsilon": [4], "params": {"epochs": 2, "dimensions": 2}}
SETTINGS = [Setting({}), Setting({"epsilon": 1}), Setting({"epsilon": 16})]


def tuned(**model: Any) -> Tuned:
    tables = {
        "seed": 3,
        "data": {"synthetic": SIZES},
        "model": [{**DP, **model}],
        "membership": {},
        "gate": [{"metric": "leak", "max": 0.1}],
    }
    return Tuned.of(MembershipConfig.model_validate(tables))


def test_the_claim_is_that_of_the_chosen_setting_and_a_choice_has_the_largest() -> None:
    ratings = generate(SyntheticParams(**SIZES))
    shown = claimed(tuned(), SETTINGS, ratings, 1)
    (epsilon, delta), covered = shown["claim"], shown["covered"]
    assert epsilon == 1
    assert covered == of_choice(16, delta)
    assert claimed(tuned(), SETTINGS, ratings, 0)["claim"][0] == 4


def test_what_claims_nothing_is_not_covered() -> None:
    ratings = generate(SyntheticParams(**SIZES))
    plain = tuned(variant="nonprivate", epsilon=[float("inf")])
    assert claimed(plain, [Setting({}), Setting({"params.dimensions": 3})], ratings, 0) == {}


def test_a_setting_has_one_epsilon() -> None:
    with pytest.raises(ConfigError, match=r"one value of epsilon.*\[1, 4\]"):
        tuned().with_setting(Setting({"epsilon": [1, 2]}))
