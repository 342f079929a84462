"""The exit codes of runs."""

from __future__ import annotations

from typing import get_args

from dpaudit.core.exit_codes import exit_code
from dpaudit.record.result import RunOutcome


def test_a_decision_that_is_required_and_missing_is_undecided() -> None:
    codes = {outcome: exit_code(outcome) for outcome in get_args(RunOutcome)}
    assert codes == {"go": 0, "stop": 1, "undecided": 4, "no decision": 0}
    required = {outcome: exit_code(outcome, require_decision=True) for outcome in codes}
    assert required == {**codes, "no decision": 4}
