"""The page of deletions has every method, and rows of what records say."""

from __future__ import annotations

import pytest
from make_deletion import ALS, LARGE, MODELS, OBSERVERS, Audit, left  # type: ignore[import-not-found]

from dpaudit.audits.models.config import OwnRecommender
from dpaudit.core.membership import UNLEARNING
from dpaudit.record.result import STRONGEST
from tests.support.membership_records import game, measured, record
from tests.support.records import Make


def test_every_method_is_tried() -> None:
    assert set(ALS) == set(UNLEARNING)
    assert len({audit.name for audit in [*MODELS, *LARGE]}) == len(MODELS) + len(LARGE)
    assert all("/" not in audit.name for audit in MODELS)


@pytest.mark.cases("audit", MODELS, ids=lambda audit: audit.name)
def test_every_table_is_one_of_a_config(audit: Audit) -> None:
    assert OwnRecommender.model_validate(audit.table).create("recommender") is not None
    assert ("factors" in audit.observers) == ("shards" not in audit.table)


def test_a_row_has_the_advantages_and_the_largest_bound(make: Make) -> None:
    result = record(
        make,
        measurements=[
            measured("attack.advantage", "user", "scores", 0.5, STRONGEST),
            measured("attack.advantage", "interaction", "scores", 0.25, STRONGEST),
            game("user", "scores", 0.5),
            game("user", "own-list", 0.75),
            game("interaction", "scores", 2.0),
        ],
    )
    [row] = left([(MODELS[0], result)], "user").cells
    assert row[:5] == ["before the deletion", "0.500", "–", "–", "–"]
    assert row[1 + len(OBSERVERS)] == "≥ 0.75"
    assert float(row[-2]) >= 0
    assert row[-1] == "–"
