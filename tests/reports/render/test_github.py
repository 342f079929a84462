from __future__ import annotations

from collections.abc import Callable

import ci_reports  # type: ignore[import-not-found]

from dpaudit.record.result import AuditResult, PlaceRecord
from dpaudit.reports.ci import Failure
from dpaudit.reports.render import github

Make = Callable[..., AuditResult]


def test_every_record_is_read_as_annotations(hard: AuditResult) -> None:
    ci_reports.github(github.render(hard))


def test_an_annotation_stands_at_its_line(result: AuditResult) -> None:
    [gate] = result.gates
    place = PlaceRecord(path="a,b: 100%.toml", line=4)
    [first, *_] = ci_reports.github(
        github.render(result.model_copy(update={"origin": {gate.id: place}}))
    )
    assert first.kind == "error"
    assert first.properties == {"file": "a,b: 100%.toml", "line": "4", "title": "A gate failed"}
    assert first.text == "epsilon <= claim: fail. above 1"


def test_no_label_ends_an_annotation_or_begins_another(make: Make) -> None:
    evil = "x\n::error::forged\r::set-output name=a::b %0A"
    notes = ci_reports.github(github.render(make(label=evil)))
    assert {note.kind for note in notes} == {"error", "warning", "notice"}
    assert not any(note.text.startswith("forged") for note in notes)


def test_only_ten_of_a_kind_are_shown_and_the_rest_is_counted(make: Make) -> None:
    many = make(epsilons=tuple(float(k) for k in range(10, 40)), outcome="pass")
    notes = ci_reports.github(github.render(many))
    assert len(notes) == 10
    assert notes[-1].text == "21 more like these"


def test_nothing_is_printed_without_problems(make: Make) -> None:
    assert github.render(make(epsilons=(5.0,), outcome="pass")) == ""


def test_a_command_without_a_result_is_an_error() -> None:
    [note] = ci_reports.github(github.render.failed(Failure("50% of\nit", 3, "audit.toml")))
    assert (note.kind, note.text) == ("error", "50% of\\nit")
