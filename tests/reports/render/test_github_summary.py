from __future__ import annotations

from collections.abc import Callable

import pytest

from dpaudit.record.result import AuditResult
from dpaudit.reports.ci import Failure
from dpaudit.reports.render import github_summary


def test_it_begins_with_the_outcome_and_shows_every_claim_and_gate(hard: AuditResult) -> None:
    title, _, *lines = github_summary.render(hard).rstrip("\n").split("\n")
    assert title.startswith(f"## Privacy audit: {hard.outcome.upper()}")
    rows = [line for line in lines if line.startswith("| ")]
    assert len(rows) == 2 + len(hard.verdicts) + len(hard.gates)


def test_a_false_claim_is_not_hidden_below_a_go(make: Callable[..., AuditResult]) -> None:
    text = github_summary.render(make(outcome="pass"))
    assert text.startswith("## Privacy audit: GO, with 2 problems that stop nothing\n")
    [first] = [
        line for line in text.split("\n") if line.startswith("| claim false, stops nothing")
    ][:1]
    assert "The claim is false" in first
    assert "1 claim false" in text.split("\n")[2]


@pytest.mark.long
@pytest.mark.drawn
def test_it_stays_below_the_limit_of_github(
    result: AuditResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    [gate] = result.gates
    long = [gate.model_copy(update={"id": f"gate/{at}", "reason": "*" * 5000}) for at in range(500)]
    text = github_summary.render(result.model_copy(update={"gates": long}))
    assert 400_000 < len(text.encode()) < 2**20
    assert text.endswith(" more are in the report.\n")


def test_a_command_without_a_result_says_why() -> None:
    text = github_summary.render.failed(Failure("there is no *data*", 2, "audit.toml"))
    assert text.startswith("## Privacy audit: NO RESULT\n\nNo result: there is no \\*data\\*. Exit")
    assert "Exit code 2" in text
