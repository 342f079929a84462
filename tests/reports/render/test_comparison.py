from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from dpaudit.record.comparison import compare
from dpaudit.record.result import AuditResult
from dpaudit.reports.render import comparison
from tests.support.records import make_result


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
    assert "more: 'dpaudit diff --all' shows them" in text
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
