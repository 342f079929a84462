"""The page of single settings: its rows, what its script keeps, and one row on few ratings."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import make_training_single as script  # type: ignore[import-not-found]
import pytest
from make_training_single import FIGURES_2_3, SECTIONS, Kept, Line, Section
from pages import ROOT, trained  # type: ignore[import-not-found]
from reduced import small  # type: ignore[import-not-found]


def test_the_page_has_each_section_and_its_rows() -> None:
    page = (ROOT / "docs" / "results" / "training-single.md").read_text(encoding="utf-8")
    for section in SECTIONS:
        text = page[page.index(f"## {section.title}\n") :].split("\n## ", maxsplit=1)[0]
        rows = [line.split(" | ")[0] for line in text.splitlines() if line.startswith("| ")]
        assert rows[2:] == [f"| {line.label.replace('_', chr(92) + '_')}" for line in section.lines]
        assert section.words in text


def test_the_paper_s_rate_is_that_of_the_example_s_column() -> None:
    line = next(line for section in SECTIONS for line in section.lines if line.eta == 8e-6)
    [ours] = line.defenses(2000.0)
    model = next(each for each in trained(FIGURES_2_3).model if "η₁" in each.label)
    [theirs] = model.combinations("model", 2000.0)
    assert ours.learning_rate == pytest.approx(theirs.learning_rate)
    assert ours.temperature == theirs.temperature


def test_a_cell_is_the_least_error_of_a_row_and_what_has_it() -> None:
    line = Line("a row", [1.0], script.STEP, {"learning_rate": [0.1, 0.4]})
    assert line.cell(1.0, lambda defense: defense.learning_rate) == "0.1000 at 0.1"
    assert line.cell(1.0, lambda defense: -defense.learning_rate) == "-0.4000 at 0.4"


def test_a_run_that_was_stopped_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script, "trained", lambda name: small(trained(name)))
    script.first_fold.cache_clear()
    lines = [Line("one step", (1.0, 20.0), script.STEP), Line("still", (1.0,), script.STILL)]
    section, place = Section("Title", "Words.", FIGURES_2_3, lines), tmp_path / "single.json"
    with ThreadPoolExecutor(2) as pool:
        whole = section.text(pool, Kept(place))
        numbers = json.loads(place.read_text(encoding="utf-8"))
        changed = {words: number + 1 for words, number in list(numbers.items())[1:]}
        place.write_text(json.dumps(changed), encoding="utf-8")
        again = section.text(pool, Kept(place))
    script.first_fold.cache_clear()
    assert len(numbers) == 3
    assert json.loads(place.read_text(encoding="utf-8")) == {**numbers, **changed}
    rows = [text.splitlines()[-2:] for text in (whole, again)]
    assert sum(a != b for a, b in zip(*rows, strict=True)) in (1, 2)
    assert "| still | " in whole
    assert whole.count(" – |") == 1
