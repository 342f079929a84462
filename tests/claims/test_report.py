"""Reports of a verification: the same for the same record, escaped, and complete."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Callable
from typing import Any

import pytest
from rich.console import Console

from dpaudit.claims import report
from dpaudit.claims.console import show
from dpaudit.claims.record import Entry, GameRecord, Verification
from dpaudit.core.estimate import Estimate
from dpaudit.record.result import Timing

HARD = "<img src=x onerror=alert(1)> a|b *c* [d](e) `f`"
VERDICTS = ["falsified", "not falsified", "holds", "unprovable as stated", "inconclusive"]


def game(**changes: Any) -> GameRecord:
    fields: dict[str, Any] = {
        "role": "published",
        "label": "as printed",
        "mechanism": "slope-one, published: epsilon = 1",
        "pair": "one rating more",
        "claimed": 1.0,
        "certified": Estimate(
            value=9.5, lower=9.069, upper=math.inf, confidence=0.95, alpha=0.001, n=200_000,
            method="label test",
        ),
        "truth": Estimate.exact(math.inf, "law of the list"),
        "p_value": 1e-5,
        "adjusted": 3e-4,
        "event": "score >= 10, likelier in D' than in D",
        "trials": 100_000,
        "seconds": 1.5,
        "verdict": "falsified",
        "status": "as recorded",
    }  # fmt: skip
    return GameRecord(**{**fields, **changes})


def check(**changes: Any) -> GameRecord:
    bare = {"mechanism": "", "pair": "", "claimed": None, "certified": None, "truth": None}
    tried = {"trials": 0, "label": "300 rows", "event": "a row of 5, 1, 1"}
    return game(**{**bare, **tried, "p_value": 0.0, "adjusted": 0.0, **changes})


def entry(*games: GameRecord, **changes: Any) -> Entry:
    fields: dict[str, Any] = {
        "id": "aa11-thm1",
        "sentence": "What is shown is private.",
        "source": "A & A 2011, Theorem 1",
        "adjacency": "rating-add-remove",
        "observer": "values",
        "reading": "",
        "because": "Δf is too small.",
        "recorded": "falsified",
        "verdict": "falsified",
        "status": "as recorded",
        "games": list(games),
    }
    return Entry(**{**fields, **changes})


def verification(*entries: Entry, **changes: Any) -> Verification:
    fields: dict[str, Any] = {
        "tool": "0.1.0",
        "environment": {"python": "3.11.7", "numpy": "2.4.6"},
        "seed": 7,
        "confidence": 0.95,
        "size": 3,
        "entries": list(entries),
        "timing": Timing(started="2026-01-01T00:00:00+00:00", seconds=3.4),
    }
    return Verification(**{**fields, **changes})


def both(**changes: Any) -> Verification:
    return verification(
        entry(game(), game(role="corrected", label="damped", verdict="not falsified")),
        entry(check(), id="aa11-prop2", adjacency=None, observer=None),
        **changes,
    )


def text(found: Verification, width: int = 160) -> str:
    console = Console(width=width, record=True, file=io.StringIO(), color_system=None)
    show(found, console)
    return console.export_text()


FORMATS: dict[str, Callable[[Verification], str]] = {
    "json": report.render_json,
    "markdown": report.render_markdown,
    "html": report.render_html,
    "console": text,
}
every_format = pytest.mark.parametrize("name", FORMATS)


@pytest.mark.long
@pytest.mark.drawn
@every_format
def test_the_same_record_makes_the_same_bytes(name: str) -> None:
    assert FORMATS[name](both()) == FORMATS[name](both())


@pytest.mark.cases("verdict", VERDICTS)
@every_format
def test_every_verdict_is_said(name: str, verdict: Any) -> None:
    found = verification(
        entry(game(verdict=verdict), verdict=verdict),
        entry(check(verdict=verdict), verdict=verdict, id="aa11-prop2"),
    )
    shown = FORMATS[name](found)
    assert shown.count(verdict) >= 2
    for other in set(VERDICTS) - {verdict}:
        # Words of the notes and of the catalogue's record aside, no other verdict stands there.
        assert f">{other}<" not in shown
        assert f'"verdict": "{other}"' not in shown


@every_format
def test_what_holds_by_algebra_is_not_tested_and_names_its_test(name: str) -> None:
    untested = entry(
        id="aa11-thm2", adjacency=None, observer=None, recorded="holds", verdict="not tested",
        held_by="tests/papers/test_aa.py",
    )  # fmt: skip
    shown = FORMATS[name](verification(entry(game()), untested)).replace("\\_", "_")
    assert "not tested" in shown
    assert "tests/papers/test_aa.py" in shown
    assert ("PASS" in shown.upper()) or name == "json"
    assert report.outcome(verification(entry(game()), untested)) == "pass"
    # Where nothing is run, nothing passes.
    assert report.outcome(verification(untested)) == "inconclusive"
    assert report.findings(verification(untested)) == ["Not tested: 1 that hold by algebra alone."]


def test_the_table_tells_the_kinds_of_false_apart() -> None:
    found = verification(
        entry(
            game(),
            game(role="corrected", label="damped", status="differs"),
            basis="on a reading",
            reading="ours",
        ),
        entry(check(), id="aa11-prop2", basis="on a reading", reading="as printed"),
    )
    games, algebra = report.tables(found)
    place = games.header.index("verdict")
    assert [row[place] for row in games.cells] == ["falsified on a reading", "falsified: differs"]
    assert [row[2] for row in algebra.cells] == ["falsified on a reading"]


@pytest.mark.cases("name", ["markdown", "html", "console"])
def test_a_game_that_ended_early_says_after_how_many_outputs(name: str) -> None:
    ended = game(certified=None, early=True, trials=1020, event="bets win 2.7e+04 for 1")
    shown = " ".join(FORMATS[name](verification(entry(ended), stop="when-decided")).split())
    for word in ("after 2 040 outputs", "> 1" if name == "console" else "1 |", "ended there"):
        assert word in shown.replace("</td>", " |")
    assert "9.06" not in shown
    # The notes of whole games do not speak of it.
    assert "ended there" not in FORMATS[name](both())


def test_a_chart_counts_the_games_that_ended_early() -> None:
    ended = game(certified=None, early=True, label="other")
    [drawn] = report.charts(verification(entry(game(), ended)))
    [panel] = drawn.panels
    assert len(panel.spec["datasets"]["points"]) == 1
    assert "no bound and no dot: 1." in drawn.caption
    assert "early" not in report.charts(both())[0].caption


@pytest.mark.parametrize("render", [report.render_markdown, report.render_html])
def test_an_entry_says_its_neighbours_and_its_observer_in_words(
    render: Callable[[Verification], str],
) -> None:
    shown = render(verification(entry(game()), entry(check(), adjacency=None, observer=None)))
    assert "rating-add-remove: one rating is added or removed" in shown
    assert "values: the predictions shown to one user" in shown
    assert shown.count("none: not a statement about neighbours") == 2


@every_format
def test_what_differs_is_said_first(name: str) -> None:
    odd = entry(game(verdict="not falsified", status="differs"), status="differs")
    shown = FORMATS[name](verification(odd))
    assert "differs" in shown.lower()
    if name != "json":
        assert shown.upper().index("FAIL") < shown.index("9.06")


def test_the_record_survives_json() -> None:
    found = both()
    assert Verification.model_validate_json(report.render_json(found)) == found
    assert '"Infinity"' in report.render_json(found)


@pytest.mark.long
@pytest.mark.drawn
@every_format
def test_hard_text_is_shown_and_does_nothing(name: str) -> None:
    found = verification(
        entry(
            game(label=HARD, mechanism=HARD, pair=HARD, event=HARD),
            sentence=HARD, reading=HARD, because=HARD, source=HARD,
        ),
        entry(check(label=HARD, event=HARD), id="aa11-prop2"),
    )  # fmt: skip
    shown = FORMATS[name](found)
    if name == "html":
        assert "<img" not in shown
        assert "&lt;img src=x" in shown
    elif name == "markdown":
        assert not re.search(r"(?<!\\)<img", shown)
        rows = [line for line in shown.splitlines() if line.startswith("|")]
        bars = {len(re.findall(r"(?<!\\)\|", row)) for row in rows if "img" in row}
        widths = {len(re.findall(r"(?<!\\)\|", row)) for row in rows if set(row) <= set("|-: ")}
        assert bars <= widths
        assert not re.search(r"(?<!\\)\[d\]\(e\)", shown)
    elif name == "console":
        assert "[d](e)" in shown


@every_format
def test_infinite_and_missing_numbers_are_shown(name: str) -> None:
    found = verification(entry(game(truth=None), game(truth=Estimate.exact(math.inf, "law"))))
    assert FORMATS[name](found)
    assert ("∞" if name != "json" else "Infinity") in FORMATS[name](found)


@pytest.mark.cases("name", ["markdown", "html", "console"])
def test_numbers_stand_there(name: str) -> None:
    shown = FORMATS[name](both())
    for word in ("9.06", "as printed", "2 × 100 000", "95"):
        assert word in shown


@pytest.mark.long
@pytest.mark.drawn
def test_the_page_loads_nothing() -> None:
    shown = report.render_html(both())
    assert not re.search(r"""(?:src|href)\s*=\s*["']?(?:https?:)?//""", shown)
    assert not re.search(r"@import|<link|<iframe", shown)


@pytest.mark.long
@pytest.mark.drawn
def test_reports_of_a_real_verification_name_no_place_and_no_record_of_people() -> None:
    from dpaudit.claims.catalogue import chosen
    from dpaudit.claims.verify import verify

    found = verify(chosen(["pa11-thm3.1-own", "pa11-prop4.1"]), trials=200)
    for render in FORMATS.values():
        shown = render(found)
        assert not re.search(r"/(home|root|tmp|work|usr)/", shown)
        assert not re.search(r"\buser (?:\d{2,}|[1-9])\b", shown)


# Words.


@pytest.mark.cases(
    ("states", "word"),
    [
        (["as recorded", "as recorded"], "pass"),
        (["as recorded", "too few trials"], "inconclusive"),
        (["too few trials", "differs"], "fail"),
    ],
)
def test_the_outcome_is_the_worst_status(states: list[Any], word: str) -> None:
    found = verification(*(entry(game(status=state), status=state) for state in states))
    assert report.outcome(found) == word
    assert word.upper() in report.render_markdown(found)
    assert word.upper() in text(found)


def test_findings_name_what_differs() -> None:
    assert report.findings(both()) == ["Every verdict is as recorded in the catalogue."]
    odd = verification(
        entry(
            game(verdict="inconclusive", status="too few trials"),
            game(role="corrected", label="damped", verdict="falsified", status="differs"),
            status="differs",
        )
    )
    few, differs = report.findings(odd)
    assert few.startswith("aa11-thm1: too few trials: published as printed is inconclusive")
    assert few.endswith(" has falsified")
    assert differs.startswith("aa11-thm1: DIFFERS: corrected damped is falsified")
    assert differs.endswith(" has not falsified")


def test_the_headline_counts() -> None:
    assert "2 published statements: 2 falsified as stated." in report.headline(both())
    read = entry(game(), id="aa11-thm2", basis="on a reading")
    said = report.headline(verification(entry(game()), read))
    for words in ("1 falsified as stated", "1 falsified on a reading"):
        assert words in said
    assert ("Verdict", "falsified on a reading") in report.about(read)
    one = report.headline(verification(entry(game())))
    assert one.startswith("1 published statement:")


def test_a_chart_has_every_game_and_no_check(valid: Callable[[dict[str, Any]], bool]) -> None:
    charts = report.charts(both())
    assert len(charts) == 1
    (panel,) = charts[0].panels
    assert valid(panel.spec)
    games = [(row["entry"], row["game"]) for row in panel.spec["datasets"]["points"]]
    assert games == [("aa11-thm1", "published: as printed"), ("aa11-thm1", "corrected: damped")]
    assert charts[0].summary == "2 of 2 bounds are above the claimed ε."
    assert report.charts(verification(entry(check()))) == []


def test_a_pass_is_not_green_beside_a_falsified_claim() -> None:
    file = io.StringIO()
    show(both(), Console(file=file, force_terminal=True, color_system="standard"))
    first = file.getvalue().splitlines()[0]
    assert "PASS" in first
    assert "32m" not in first


@pytest.mark.cases("width", [60, 100, 200])
def test_a_narrow_terminal_says_what_it_leaves_out(width: int) -> None:
    shown = text(both(), width)
    assert "aa11-thm1" in shown
    assert ("too wide for this terminal" in shown) == (width < 110)
    assert max(len(line) for line in shown.splitlines()) <= width
