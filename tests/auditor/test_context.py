from __future__ import annotations

from dpaudit.auditor.context import Context
from dpaudit.config.schema import Config
from dpaudit.execution.executor import INLINE
from dpaudit.record.result import Family


def test_another_statement_keeps_the_finished_tasks() -> None:
    def scope(card: dict[str, str]) -> tuple[str, ...]:
        config = Config.model_validate({"seed": 1, "card": card})
        return Context(config, Family.of(0.95, 1), INLINE).tasks("stage").scope

    assert scope({"owner": "x"}) == scope({"owner": "y"})
