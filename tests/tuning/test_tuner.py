"""What is said of several numbers that gates limit."""

from __future__ import annotations

import pytest

from dpaudit.audits.membership.config import MembershipConfig
from dpaudit.data.readers.load import load
from dpaudit.tuning import tuner
from dpaudit.tuning.result import Leak


def number(metric: str, limit: float, *values: float) -> Leak:
    lower = limit < 0
    return Leak(rule=metric, metric=metric, at=None, limit=abs(limit), lower=lower, values=values)


def test_the_largest_number_of_a_training_counts_in_units_of_its_limit() -> None:
    leaks = [number("leak", 0.1, 0.05, 0.2), number("utility.ndcg", -0.2, 0.1, 0.4)]
    assert tuner.over(leaks) == (2.0, 2.0)


@pytest.mark.parametrize(("metric", "count"), [("leak", 200), ("utility.ndcg", 100)])
def test_as_much_is_held_out_as_a_gate_on_utility_is_about(metric: str, count: int) -> None:
    config = MembershipConfig.model_validate(
        {
            "data": {"synthetic": {"n_users": 80, "n_items": 60, "mean_per_user": 25}},
            "recommender": [{"library": "most-popular"}],
            "membership": {"interactions": 300, "held_out": 100},
            "gate": [{"metric": metric, "max": 0.5}],
        }
    )
    assert tuner.doubled(config, load(config.source)).membership.held_out == count


def test_what_leaks_is_shown_before_what_is_useful() -> None:
    utilities = number("utility.ndcg", -0.2, 0.1), number("utility.rmse", 1.0, 3.0)
    leaks = number("leak", 0.1, 0.05), number("attack.auc", 0.6, 0.5)
    assert tuner.furthest([*utilities, *leaks]) == leaks[1]
