from __future__ import annotations

from typing import Any

import pytest

from dpaudit.auditor.measure import Context
from dpaudit.config.schema import Config
from dpaudit.execution.executor import INLINE
from dpaudit.record.result import Family

WAIVER = {"id": "claim/slope-one/1", "owner": "x", "statement": "y", "expires": "2027-01-31"}


def scope(**tables: Any) -> tuple[str, ...]:
    config = Config.model_validate({"seed": 1, **tables})
    return Context(config, Family.of(0.95, 1), INLINE).tasks("stage").scope


@pytest.mark.cases(
    "tables",
    [
        {"card": {"owner": "x"}},
        {"waiver": [WAIVER]},
        {"audit": {"fail_on_false_claim": False}},
        {"audit": {"confidence": 0.9}},
        {"audit": {"trials": 10}},
    ],
)
def test_what_no_task_reads_keeps_the_finished_tasks(tables: dict[str, Any]) -> None:
    assert scope(**tables) == scope()


def test_a_table_that_tasks_may_read_changes_the_key() -> None:
    assert scope(split={"test_share": 0.5}) != scope()
