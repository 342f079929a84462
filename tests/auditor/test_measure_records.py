from __future__ import annotations

from pathlib import Path

import numpy as np

from dpaudit.auditor.measure import data_record
from dpaudit.data import DataSource, SyntheticParams, load
from dpaudit.record.result import DataRecord


def test_data_without_friends_or_settings() -> None:
    ratings = load(DataSource())
    record = data_record(ratings, ratings, attacked=3)
    assert (record.links, record.sensitive, record.repairs) == (None, None, {})
    old = record.model_dump(exclude={"links", "sensitive", "repairs"})
    assert DataRecord.model_validate(old) == record  # records of earlier versions


def test_social_data_are_described(tmp_path: Path) -> None:
    (tmp_path / "ratings.txt").write_text("1 1 0.5\n2 1 4\n2 1 4\n3 1 1\n3 2 1\n")
    (tmp_path / "trust.txt").write_text("1 2 1\n1 1 1\n2 9 1\n")
    source = {"format": "filmtrust", "path": str(tmp_path), "sensitive": {"share": 0.5}}
    ratings = load(DataSource.model_validate(source))
    record = data_record(ratings, ratings, attacked=1)
    assert (record.ratings, record.links, record.sensitive) == (4, 1, 2)
    assert record.repairs == {
        "rows that repeat a user, an item and their rating": 1,
        "links of a user to themselves": 1,
        "links with an end that is not among the raters": 1,
    }
    assert DataRecord.model_validate_json(record.model_dump_json()) == record


def test_generated_friends_are_counted() -> None:
    ratings = load(DataSource(synthetic=SyntheticParams(mean_friends=4)))
    assert ratings.friends is not None
    record = data_record(ratings, ratings, attacked=1)
    assert record.links == len(ratings.friends) > 0


def test_ratings_per_user_are_quantiles_of_those_who_are_learned_from() -> None:
    ratings = load(DataSource(synthetic=SyntheticParams(n_users=40)))
    counts = sorted(np.bincount(ratings.user, minlength=40))
    record = data_record(ratings, ratings, attacked=1)
    assert record.per_user == (counts[19], counts[35])
    fewer = data_record(ratings, ratings.only(ratings.user < 19), attacked=1)
    assert (fewer.trained, fewer.per_user) == (19, None)
