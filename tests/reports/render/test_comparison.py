from __future__ import annotations

import io
import math
import re
from typing import Any

import pytest
from rich.console import Console

from dpaudit.record.comparison import Comparison, compare
from dpaudit.record.result import AuditResult
from dpaudit.reports.render import comparison
from dpaudit.reports.render.comparison import claims, sentences, tables
from tests.support.records import estimate, judged, make_result


def shown(before: AuditResult, after: AuditResult, width: int, *, everything: bool) -> str:
    console = Console(file=io.StringIO(), width=width)
    comparison.show(compare(before, after), console, everything=everything)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.cases("width", [40, 80, 200])
def test_nothing_is_wider_than_the_terminal_or_lost(width: int, hard: AuditResult) -> None:
    text = shown(hard, hard, width, everything=True)
    assert max(map(len, text.splitlines())) <= width
    for measurement in hard.measurements:
        if measurement.metric == "attack.accuracy":
            assert f"{measurement.estimate.value:.3f}"[:4] in text


def test_numbers_stand_side_by_side_below_their_name(result: AuditResult) -> None:
    lines = shown(result, result, 80, everything=True).splitlines()
    name = lines.index("attack.accuracy of published, ε = 0.1, one prediction")
    assert lines[name + 1].startswith("  0.073 [0.065, 0.093]  0.073 [0.065, 0.093]  [−0.0")
    wide = shown(result, result, 200, everything=True)
    assert re.search(r"ε = 0.1, one prediction +0.073 \[0.065, 0.093\]", wide)


def test_differences_are_folded_to_a_count(result: AuditResult) -> None:
    config = {**result.config, "model": [{"label": "x", "epsilon": list(range(20))}]}
    other = result.model_copy(update={"config": config})
    text = shown(result, other, 80, everything=False)
    assert "config.model.0.label: 'published' → 'x'" in text
    assert "'dpaudit diff --all'" in text
    everything = shown(result, other, 80, everything=True)
    assert "config.model.0.epsilon.19: unset → 19" in everything
    assert "more:" not in everything


def test_labels_cannot_control_the_terminal_or_the_page() -> None:
    bad = make_result(label="[red]a|b\x1b[2J")
    assert "\x1b" not in shown(bad, bad, 80, everything=True)
    text = comparison.render(compare(bad, make_result(label="[red]a|b\x1b[2J", epsilons=(1.0,))))
    assert "\x1b" not in text
    assert "a\\|b" in text


def test_markdown_shows_everything(result: AuditResult) -> None:
    other = result.model_copy(update={"tool": "0.2.0", "measurements": result.measurements[:-1]})
    text = comparison.render(compare(result, other))
    assert text.startswith("# Comparison with the baseline\n\n")
    assert "**Not comparable: beside each other" in text
    assert "| dpaudit | '0.1.0' | '0.2.0' |" in text


def with_estimate(result: AuditResult, place: int, **ends: Any) -> AuditResult:
    measurements = list(result.measurements)
    measurements[place] = measurements[place].model_copy(update={"estimate": estimate(**ends)})
    return judged(result.model_copy(update={"measurements": measurements}))


@pytest.fixture
def compared() -> Comparison:
    """A run at ε = 1 whose first attack got worse and whose game broke the claim."""
    before = make_result(epsilons=(1.0,))
    game = len(before.measurements) - 1
    before = with_estimate(before, 0, value=0.15, lower=0.1, upper=0.2)
    kept = with_estimate(before, game, value=0.9, lower=0.4321, upper=math.inf)
    return compare(kept, with_estimate(before, 0, value=0.45, lower=0.3, upper=0.5))


def test_verdicts_come_first_then_what_got_worse(compared: Comparison) -> None:
    verdicts, worse = tables(compared, everything=False)
    assert verdicts.cells == [
        [
            "claim/published/1",
            "survived (ε ≥ 0.43, claimed 1, finds 1.25×)",
            "false (ε ≥ 2.71, claimed 1, finds 1.25×)",
            "newly false",
        ]
    ]
    assert verdicts.marked == {(0, 3)}
    assert worse.caption == "Certified to be worse"
    assert worse.cells == [
        [
            "attack.accuracy of published, ε = 1, one prediction",
            "0.150 [0.100, 0.200]",
            "0.450 [0.300, 0.500]",
            "[0.099, 0.400]",
        ]
    ]


def test_what_cannot_be_told_is_counted_and_shown_if_asked(compared: Comparison) -> None:
    said = list(sentences(compared))
    assert re.search(r"worse .*\(newly false claims: 1; numbers certified .*worse: 1\)", said[0])
    assert any("90 % confidence (union bound over both runs)" in part for part in said)
    (unknown,) = (part for part in said if part.startswith("Cannot tell "))
    assert re.search(r"4 of 5 numbers \(3: .*overlap; 1: .*lower bound\)", unknown)
    shown = tables(compared, everything=True)
    assert [table.caption for table in shown] == [
        "Verdicts on claims",
        "Certified to be worse",
        "Cannot tell",
    ]
    unsure = shown[-1].cells
    assert unsure[-1][1:] == ["≥ 0.432", "≥ 2.718", "–"]
    assert unsure[0][3].startswith("[−0.")


def test_what_is_the_same_is_shown_if_asked(result: AuditResult) -> None:
    same = compare(result, result)
    assert tables(same, everything=False) == []
    verdicts = tables(same, everything=True)[0]
    assert {row[3] for row in verdicts.cells} == {"same"}


def test_sentences_name_other_data_and_what_is_missing(result: AuditResult) -> None:
    assert result.data is not None
    other = make_result(epsilons=(0.1, 1.0, 100.0))
    data = result.data.model_copy(update={"digest": "0"})
    said = list(sentences(compare(result, other.model_copy(update={"data": data}))))
    assert "Missing in the run: ε = 10 of 'published'." in said
    assert "New in the run: ε = 100 of 'published'." in said
    assert any("data.digest 'b4adf500' → '0'" in sentence for sentence in said)


def test_a_waived_claim_is_not_marked(compared: Comparison) -> None:
    [claim] = compared.claims
    waived = claims([claim.model_copy(update={"waived": True})])
    assert waived.cells[0][3] == "newly false, waived"
    assert not waived.marked


def test_a_number_outside_the_interval_of_the_baseline_is_named(result: AuditResult) -> None:
    before = with_estimate(make_result(epsilons=(1.0,)), 0, value=0.15, lower=0.1, upper=0.2)
    said = "Worse than all of the baseline's interval, though not certified: attack.accuracy"
    for value, lower, there in ((0.25, 0.15, True), (0.19, 0.15, False), (0.05, 0.01, False)):
        after = with_estimate(before, 0, value=value, lower=lower, upper=0.4)
        told = sentences(compare(before, after))
        assert any(sentence.startswith(said) for sentence in told) is there
