"""The page of trained models is what its script writes of the present examples."""

from __future__ import annotations

import math
import os
import re
from dataclasses import replace
from pathlib import Path

import pytest
from make_training import settings_digest, tuning, written  # type: ignore[import-not-found]
from pages import ROOT, example  # type: ignore[import-not-found]
from training_pages import PAGES, Page, Said  # type: ignore[import-not-found]
from training_verdicts import NOTHING, PAPERS, at_end, compared, harmless  # type: ignore[import-not-found]

from dpaudit.auditor.run import run_audit
from dpaudit.core.estimate import Estimate
from dpaudit.execution.workers import Workers

EXAMPLES = sorted({page.example for page in PAGES})
FIGURES = [name for name in EXAMPLES if "wt17" in name]


def section(page: Page) -> str:
    """What the page has of a figure."""
    text: str = (ROOT / "docs" / "results" / "training.md").read_text(encoding="utf-8")
    return text[text.index(f"## {page.title}\n") :].split("\n## ", maxsplit=1)[0]


@pytest.mark.cases("name", FIGURES)
def test_all_tuned_models_of_a_figure_choose_among_equally_many_settings(name: str) -> None:
    grids = [model.grid for model in example(name).model if model.grid]
    assert len(grids) > 1
    assert len({math.prod(map(len, grid.values())) for grid in grids}) == 1


@pytest.mark.cases("page", PAGES, ids=lambda page: page.title)
def test_the_page_is_of_the_present_examples(page: Page) -> None:
    text = section(page)
    assert f"examples/{page.example}.toml`, settings {settings_digest(page.example)}, " in text
    assert f"- {tuning(example(page.example))}\n" in text
    assert all(f"\n- {said.by}: {said.words}. " in text for said in page.said)


@pytest.mark.long
def test_numbers_without_noise_are_those_of_a_run_of_today() -> None:
    data = Path(os.environ.get("DPAUDIT_DATA", ".")) / "ml-100k" / "u.data"
    if not data.is_file():
        pytest.skip("there is no ml-100k/u.data in DPAUDIT_DATA")
    page, whole = PAGES[0], example(PAGES[0].example)
    then = section(page)
    # One grid has to be there: it takes ratings from the tests.
    names = ("PCC", "COS, raw ratings", "COS, centred", "DPSGD-MF, tuned")
    grid = {"learning_rate": [0.008], "epochs": [1, 2]}
    models = [
        model.model_copy(update={"grid": grid} if model.grid else {})
        for model in whole.model
        if model.label in names
    ]
    result = run_audit(whole.model_copy(update={"model": models}), workers=Workers(1))
    today = written(replace(page, said=()), result)
    tables = [
        [re.split(r" *\| *", line) for line in text.splitlines() if line.startswith("| ")]
        for text in (then, today)
    ]
    shown, again = ({row[1]: dict(zip(of[0], row, strict=True)) for row in of} for of in tables)
    for name in names[:3]:
        assert shown["∞"][name] == again["∞"][name] != "–"


def curve(**errors: float) -> dict[float, Estimate]:
    return {float(at.strip("_")): Estimate.exact(error, "made up") for at, error in errors.items()}


CURVES = {
    "mine": curve(_1=0.98, _20=0.95),
    "theirs": curve(_1=0.99, _20=0.93),
    "alike": curve(_1=0.97999, _20=0.95001),
    "flat": {math.inf: Estimate.exact(0.96, "made up")},
}


@pytest.mark.cases(
    ("other", "open_ends", "verdict"),
    [
        ("flat", set(), ("not so", " at ε = 1")),
        ("flat", {("mine", 1.0)}, ("undecided", " at ε = 1")),
        ("flat", {("mine", 20.0)}, ("not so", " at ε = 1")),
        ("flat", {("mine", 1.0), ("flat", math.inf)}, ("undecided", " at ε = 1, 20")),
        ("theirs", set(), ("not so", " at ε = 20")),
        ("alike", set(), ("undecided", " at ε = 1, 20")),
        ("theirs", {("theirs", 1.0)}, ("not so", " at ε = 20")),
        ("theirs", {("theirs", 1.0), ("mine", 20.0)}, ("undecided", " at ε = 1, 20")),
    ],
)
def test_a_comparison_is_undecided_if_its_loser_stood_at_an_open_end(
    other: str, open_ends: set[tuple[str, float]], verdict: tuple[str, str]
) -> None:
    assert compared(Said("", {}), "mine", other, CURVES, open_ends) == verdict


def test_a_sentence_is_judged_in_its_own_range_of_epsilon() -> None:
    assert compared(Said("", {}, least=20), "mine", "flat", CURVES, set()) == ("so", " at ε = 20")
    assert compared(Said("", {}, least=21), "mine", "flat", CURVES, set()) == ("not tested", "")


def test_an_end_of_a_grid_is_the_least_or_largest_of_several_numbers() -> None:
    assert at_end(1, [2, 1])
    assert at_end(2.0, [1.0, 2.0])
    assert not at_end(2, [1, 2, 3])
    assert not at_end(2, [2])
    assert not at_end("cosine", ["cosine", "pearson"])


def test_an_end_is_harmless_if_the_paper_or_the_schema_or_the_model_ends_there() -> None:
    assert harmless("DPSGD-MF, the paper's grid", "dpsgd-mf", "epochs", 50) == PAPERS
    assert harmless("tuned", "dpsgd-mf", "epochs", 1) == NOTHING
    assert harmless("tuned", "neighborhood", "shrinkage", 0.0) == NOTHING
    assert harmless("tuned", "dpsgd-pnbm", "learning_rate", 1e-4)
    assert not harmless("DPSGD-PNBM, the paper's grid", "dpsgd-pnbm", "start", 0.05)
    assert not harmless("tuned", "dpsgd-pnbm", "learning_rate", 0.1)
    assert not harmless("tuned", "dpsgd-mf", "epochs", 8)
