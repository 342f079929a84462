"""One number decides a gate: badge, outcome, sentence, bar and gate line say the same of it."""

from __future__ import annotations

import io
import re
from datetime import date
from typing import Any

import pytest
from rich.console import Console

from dpaudit.auditor.gate import judge_run
from dpaudit.config.gate import Gate
from dpaudit.core import registry
from dpaudit.record.result import STRONGEST, AuditResult, Measurement
from dpaudit.record.values import TRACE, Census, Control
from dpaudit.reports import palette
from dpaudit.reports.folder import Folder
from dpaudit.reports.palette import Word
from dpaudit.reports.render.console import show
from dpaudit.reports.sections import meter, verdicts
from dpaudit.reports.sections.outcome import decision_of
from dpaudit.reports.sections.steps import steps
from tests.support.membership_records import controlled, game, measured, record
from tests.support.records import make_result

OBSERVERS = ("scores", "own-list", "factors")
SHORT = {"scores": "own scores", "own-list": "own list", "factors": "item factors"}
LIMIT = 0.2
# Advantages in 24 judged trainings, of which 19 let a gate pass: by the outcome on the worst.
WORST = {"pass": [0.15] * 24, "inconclusive": [*[0.05] * 11, 0.35] * 2, "fail": [0.35] * 24}


def advantage(observer: str, values: list[float]) -> Measurement:
    narrow = [(value - 0.01, value + 0.01) for value in values]
    lower, upper = zip(*narrow, strict=True)
    census = Census(values=tuple(values), lower=lower, upper=upper, alpha=0.0)
    return measured(
        "attack.advantage", "user", observer, 0.0, STRONGEST, census=census,
        estimate=census.estimate,
    )  # fmt: skip


def audited(
    seeing: tuple[str, ...], worst: str, values: list[float], *, told: bool, found: bool
) -> AuditResult:
    """A deletion that all observers but the worst find nothing of, before any gate."""
    control = Control(
        mutant="a leak", factor=2.0, epsilon=0.5, certified=0.3 * found, found=found, noise=TRACE
    )
    numbers = [advantage(one, values if one == worst else [0.0] * len(values)) for one in seeing]
    bounds = [
        game("user", one, 0.5 * (told and one == worst), control=control).model_copy(
            update={"estimate": _bound(0.5 * (told and one == worst))}
        )
        for one in seeing
    ]
    table = {"label": "own", "library": "implicit", "forget": "own"}
    config = {"recommender": [table], "membership": {"users": 150, "trainings": 29}}
    base = record(make_result, measurements=[*numbers, *bounds], config=config)
    point = base.points[0].model_copy(update={"forget": "own"})
    return base.model_copy(update={"points": [point], "attacks": {"lira": {}}})


def _bound(lower: float) -> Any:
    return game("user", "scores", lower).estimate


def judged(result: AuditResult, *gates: Gate) -> AuditResult:
    """The record of a run whose config has these gates."""
    stated = {**result.config, "gate": [gate.model_dump(mode="json") for gate in gates]}
    numbers = [
        controlled(one, *(gate for gate in gates if gate.judged == one.metric))
        for one in result.measurements
    ]
    stated_result = result.model_copy(update={"config": stated, "measurements": numbers})
    return judge_run(stated_result, date(2026, 1, 1), gates=gates)


def shown(result: AuditResult) -> dict[str, str]:
    """What a console and every format show of a record, as one line each."""
    console = Console(width=200, record=True, file=io.StringIO())
    show(result, console, details=False)
    reports = registry.every("reports").items()
    texts = {name: make(result) for name, make in reports if not isinstance(make, Folder)}
    return {
        name: " ".join(text.split())
        for name, text in {**texts, "console": console.export_text()}.items()
    }


# The words of deletions, the longest first.
WORDS = "not forgotten|(?<!not )forgotten(?=[,.: <*])|trace left|no trace found|deletion undecided"
CASES = [
    (seeing, worst, outcome, told, found)
    for seeing in (OBSERVERS[:1], OBSERVERS)
    for worst in seeing
    for outcome in WORST
    for told in (False, True)
    for found in (False, True)
]
# By the outcome of the gate, whether a trace is certified, and whether a planted one was found.
BADGES: dict[tuple[str, bool, bool], Word] = {
    ("pass", False, False): palette.NO_TRACE,
    ("pass", False, True): palette.FORGOTTEN,
    ("inconclusive", False, False): palette.DELETION_UNDECIDED,
    ("inconclusive", False, True): palette.DELETION_UNDECIDED,
}


@pytest.mark.cases(("seeing", "worst", "outcome", "told", "found"), CASES)
def test_the_number_that_decides_stands_everywhere(
    seeing: tuple[str, ...], worst: str, outcome: str, told: bool, found: bool
) -> None:
    base = audited(seeing, worst, WORST[outcome], told=told, found=found)
    gate = Gate(metric="deletion.advantage", max=LIMIT)
    result = judged(base, gate)
    [gate_record], place = result.gates, f"user ({worst})"
    first = gate_record.numbers[0]
    assert (gate_record.outcome, first.outcome) == (outcome, outcome)
    assert first.place.endswith(place)
    assert place in gate_record.reason.partition(": ")[0]
    # The bar of its attacker has the number and the limit; so have those of all others.
    rows = {row.attacker: row for row in meter.rows(result)}
    bar = rows[f"{SHORT[worst]}, for users"]
    number = next(one for one in result.measurements if one.observer == worst and one.census)
    assert bar.measurement == number
    assert {row.limit for row in rows.values()} == {LIMIT}
    # The sentence has the same count, and names the attacker where there are several.
    said = decision_of(result).reason
    counted = f"{round(100 * number.estimate.value)} of 100 deleted users are recognised beyond"
    assert counted in said
    assert len(seeing) == 1 or f"{bar.attacker}: {counted}" in said
    [verdict] = verdicts.of(result)
    certified = palette.NOT_FORGOTTEN if outcome == "fail" else palette.TRACE_LEFT
    trace = told or outcome == "fail"
    assert verdict.badge == (certified if trace else BADGES[outcome, told, found])
    [sentence] = verdict.judged
    assert f". {verdict.badge.shown.removeprefix('DELETION ')}" in sentence
    assert ("who sees" in sentence) == trace
    badged = ("html", "md", "card", "junit", "github-summary", "console")
    gated = ("html", "md", "sarif", "junit", "gitlab", "console")
    for name, text in shown(result).items():
        named = set(re.findall(WORDS, text, re.IGNORECASE))
        assert {one.lower() for one in named} <= {verdict.badge.text}, name
        assert named or name not in badged, name
        assert outcome == "pass" or name not in gated or place in text, name


def test_without_gates_what_is_certified_is_the_badge() -> None:
    badges = {
        (told, found): verdicts.of(
            audited(OBSERVERS, "factors", [0.0] * 24, told=told, found=found)
        )[0].badge
        for told in (False, True)
        for found in (False, True)
    }
    assert badges == {
        (False, False): palette.DELETION_UNDECIDED,
        (False, True): palette.FORGOTTEN,
        (True, False): palette.NOT_FORGOTTEN,
        (True, True): palette.NOT_FORGOTTEN,
    }


def test_a_limit_below_chance_certifies_no_trace() -> None:
    base = audited(OBSERVERS, "factors", [0.0] * 24, told=False, found=True)
    result = judged(base, Gate(metric="deletion.advantage", max=-0.1))
    assert result.gates[0].outcome == "fail"
    assert verdicts.of(result)[0].badge == palette.FORGOTTEN


def test_of_two_gates_the_bar_has_the_number_of_the_worse() -> None:
    base = audited(("scores",), "scores", WORST["inconclusive"], told=False, found=True)
    area = advantage("scores", [0.5] * 24).model_copy(update={"metric": "attack.auc"})
    both = base.model_copy(update={"measurements": [area, *base.measurements]})
    gates = [Gate(metric="deletion.auc", max=0.9), Gate(metric="deletion.advantage", max=LIMIT)]
    for order in (gates, gates[::-1]):
        [row] = meter.rows(judged(both, *order))
        assert (row.measurement.metric, row.limit) == ("attack.advantage", LIMIT)


def test_the_last_line_asks_for_what_the_gate_asks() -> None:
    gate = Gate(metric="deletion.advantage", max=LIMIT)
    few = audited(OBSERVERS, "factors", [0.1] * 8, told=False, found=True)
    result = judged(few, gate)
    assert result.gates[0].trainings == 23
    assert steps(result)[0].command.endswith(" -s membership.trainings=23")
    assert (
        "; 23 trainings in all decide it if the others are like these" in decision_of(result).reason
    )
    # No number of trainings decides a gate that half of them break, none of them surely.
    wide = [0.3, 0.1] * 12
    number = advantage("factors", wide)
    assert number.census
    ends = {"lower": tuple(v - 0.2 for v in wide), "upper": tuple(v + 0.2 for v in wide)}
    loose = number.model_copy(update={"census": number.census.model_copy(update=ends)})
    base = audited(("factors",), "factors", wide, told=False, found=True)
    open_ = base.model_copy(update={"measurements": [loose, *base.measurements[1:]]})
    result = judged(open_, gate)
    [gate_record] = result.gates
    assert (gate_record.trainings, gate_record.remedy[:16]) == (None, "use more targets")
    for text in (gate_record.reason, decision_of(result).reason, steps(result)[0].text):
        assert gate_record.remedy in text
        assert "membership.trainings" not in text
