from __future__ import annotations

from collections.abc import Callable

import ci_reports  # type: ignore[import-not-found]
import pytest

from dpaudit.record.result import AuditResult, PlaceRecord
from dpaudit.reports.ci import Failure
from dpaudit.reports.render.services import github, github_summary
from tests.support.records import Make


def test_every_record_is_read_as_annotations(hard: AuditResult) -> None:
    ci_reports.github(github(hard))


def test_an_annotation_stands_at_its_line(result: AuditResult) -> None:
    [gate] = result.gates
    place = PlaceRecord(path="a,b: 100%.toml", line=4)
    [first, *_] = ci_reports.github(github(result.model_copy(update={"origin": {gate.id: place}})))
    assert first.kind == "error"
    assert first.properties == {"file": "a,b: 100%.toml", "line": "4", "title": "A gate failed"}
    assert first.text == "epsilon <= claim: fail. above 1"


def test_no_label_ends_an_annotation_or_begins_another(make: Make) -> None:
    evil = "x\n::error::forged\r::set-output name=a::b %0A"
    notes = ci_reports.github(github(make(label=evil)))
    assert {note.kind for note in notes} == {"error", "warning", "notice"}
    assert not any(note.text.startswith("forged") for note in notes)


def test_only_ten_of_a_kind_are_shown_and_the_rest_is_counted(make: Make) -> None:
    many = make(epsilons=tuple(float(k) for k in range(10, 40)), outcome="pass")
    notes = ci_reports.github(github(many))
    assert len(notes) == 10
    assert notes[-1].text == "21 more like these"


def test_nothing_is_printed_without_problems(make: Make) -> None:
    assert github(make(epsilons=(5.0,), outcome="pass")) == ""


def test_a_command_without_a_result_is_an_error() -> None:
    [note] = ci_reports.github(github.failed(Failure("50% of\nit", 3, "audit.toml")))
    assert (note.kind, note.text) == ("error", "50% of\\nit")


def test_it_begins_with_the_outcome_and_shows_every_claim_and_gate(hard: AuditResult) -> None:
    title, _, *lines = github_summary(hard).rstrip("\n").split("\n")
    assert title.startswith(f"## Privacy audit: {hard.outcome.upper()}")
    rows = [line for line in lines if line.startswith("| ")]
    assert len(rows) == 2 + len(hard.verdicts) + len(hard.gates)


def test_a_false_claim_is_not_hidden_below_a_go(make: Callable[..., AuditResult]) -> None:
    text = github_summary(make(outcome="pass"))
    assert text.startswith("## Privacy audit: GO, 2 false claims accepted")
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
    text = github_summary(result.model_copy(update={"gates": long}))
    assert 400_000 < len(text.encode()) < 2**20
    assert text.endswith(" more are in the report.\n")


def test_a_command_without_a_result_says_why() -> None:
    text = github_summary.failed(Failure("there is no *data*", 2, "audit.toml"))
    assert text.startswith("## Privacy audit: NO RESULT\n\nNo result: there is no \\*data\\*.")
    assert "Exit code 2" in text
