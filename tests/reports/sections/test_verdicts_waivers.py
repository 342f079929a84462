from __future__ import annotations

import io
from datetime import date

from rich.console import Console

from dpaudit.auditor.gate import judge_run
from dpaudit.record.result import AuditResult, Waiver
from dpaudit.reports.ci import run_of
from dpaudit.reports.render import console, html, markdown
from dpaudit.reports.sections.verdicts import waiver_line, waiver_sentence, waiver_table
from tests.reports.sections.test_verdicts import outcome_text


def judged(result: AuditResult, *names: str, day: date = date(2027, 1, 31)) -> AuditResult:
    waivers = [
        Waiver(id=name, owner="the team", statement="known.", expires=date(2027, 1, 31))
        for name in names
    ]
    return judge_run(result, day, waivers=waivers)


def test_the_table_says_on_which_day_they_were_judged(result: AuditResult) -> None:
    assert waiver_table(result) is None
    names = ("gate/epsilon/max", "claim/published/10")
    shown = waiver_table(judged(result, *names))
    assert shown is not None
    assert shown.caption == "Waivers on 2027-01-31"
    assert shown.cells == [
        [names[0], "active", "the team", "2027-01-31", "known."],
        [names[1], "unused", "the team", "2027-01-31", "known."],
    ]
    assert not shown.marked
    late = waiver_table(judged(result, *names, day=date(2027, 2, 1)))
    assert late is not None
    assert late.marked == {(0, 1), (1, 1)}


def test_a_sentence_says_what_became_of_the_finding(result: AuditResult) -> None:
    names = ("claim/published/0.1", "claim/published/10", "gate/epsilon/max")
    rejudged = judged(result, *names)
    false, kept, _ = (waiver_sentence(waiver, rejudged) for waiver in rejudged.waivers)
    assert false == "waived until 2027-01-31 by the team: known"
    assert kept.startswith("the waiver of claim/published/10 is unused, ")
    assert waiver_line(rejudged.waivers[0], rejudged) == (
        "claim/published/0.1 is waived until 2027-01-31 by the team: known."
    )
    assert waiver_line(rejudged.waivers[1], rejudged).startswith(
        "The waiver of claim/published/10 is unused"
    )
    assert waiver_line(rejudged.waivers[1], rejudged).endswith("if that lasts.")
    rejudged = judged(result, *names, day=date(2027, 2, 1))
    last = [
        waiver_sentence(waiver, rejudged).split(", and ")[1].split(":")[0]
        for waiver in rejudged.waivers
    ]
    assert last == ["its claim is false", "its claim was not tested", "its gate fails"]


def test_the_outcome_names_what_is_waived_or_that_a_waiver_has_expired(result: AuditResult) -> None:
    strict = result.model_copy(update={"fail_on_false_claim": True})
    claims = [f"claim/published/{at}" for at in ("0.1", "1")]
    assert outcome_text(judged(strict, "gate/epsilon/max", claims[0])).startswith(
        "STOP: The privacy claim is false: an attack shows a leak of at least 2.71 times what is "
        "claimed. It does not count"
    )
    assert outcome_text(judged(strict, *claims)) == (
        "STOP: epsilon <= claim: above 1. Of 3 privacy claims: 2 false and waived, 1 too weak to "
        "tell. It does not count what is waived: claim/published/0.1, claim/published/1. At most 5 "
        "of 100 such runs stop wrongly."
    )
    waived = judged(strict, "gate/epsilon/max", *claims)
    assert waived.outcome == "go"
    assert outcome_text(waived) == (
        "GO, 2 false claims accepted; 1 gate waived until 2027-01-31: Of 3 privacy claims: 2 false "
        "and waived, 1 too weak to tell. Waived: epsilon <= claim: above 1. It does not count what "
        "is waived: claim/published/0.1, claim/published/1, gate/epsilon/max."
    )
    late = judged(strict, *claims, "gate/epsilon/max", day=date(2027, 2, 1))
    assert outcome_text(late) == (
        "STOP: A waiver has expired: claim/published/0.1, claim/published/1, gate/epsilon/max."
    )


def test_every_report_shows_owner_statement_and_last_day(result: AuditResult) -> None:
    rejudged = judged(result, "claim/published/1")
    file = io.StringIO()
    console.show(rejudged, Console(file=file, width=120))
    for report in (html.render(rejudged), markdown.render(rejudged), file.getvalue()):
        for part in ("claim/published/1", "the team", "known", "2027-01-31"):
            assert part in report
        assert ".." not in report.partition("How to reproduce")[0].partition("Waivers on")[0]
    claim = next(check for check in run_of(rejudged).checks if check.id == "claim/published/1")
    assert claim.text.endswith("It stops nothing: waived until 2027-01-31 by the team: known.")
