"""The page of trained models is what its script writes of the present examples."""

from __future__ import annotations

import math
import os
import re
from dataclasses import replace
from itertools import chain
from pathlib import Path

import make_training  # type: ignore[import-not-found]
import pages  # type: ignore[import-not-found]
import pytest
from make_training import settings_digest, tuning, written
from pages import ROOT, example
from reduced import small  # type: ignore[import-not-found]
from training_pages import AT, BEST, MUCH, PAGES, READINGS, TYPICAL, UNTRAINED, Page, Said  # type: ignore[import-not-found]
from training_verdicts import NOTHING, OPEN, PAPERS, Edge, at_end, compared, harmless, judged  # type: ignore[import-not-found]

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


# The paper's grids, section 5.1, but for K, whose range the pages cut short, and for the samplers'
# η_1, which ours have in another unit.
PAPERS_GRIDS: dict[str, dict[str, tuple[float, ...]]] = {
    "dpsgd-pnbm": {
        "learning_rate": (0.1, 0.4),
        "decay": (0.05, 0.005),
        "rescale": (10, 20),
        "weight": (10, 15),
        "neighbors": (500,),
    },
    "dpsgd-mf": {"learning_rate": (6e-4, 8e-4), "decay": (0.2, 0.02), "dimensions": (10, 15, 20)},
    "dpps-pnbm": {"decay": (0.02, 0.002), "temperature": (0.001, 0.006, 0.09)},
    "dpps-mf": {
        "decay": (0.02, 0.05, 0.1, 0.2),
        "temperature": (1e-4, 6e-4, 4e-3, 3e-2),
        "dimensions": (10, 15, 20),
    },
}


SYMBOLS = {"decay": "λ", "rescale": "β", "weight": "C", "dimensions": "d", "temperature": "ϱ"}


@pytest.mark.cases("page", [page for page in PAGES if page.left_out], ids=lambda page: page.title)
def test_a_value_of_the_paper_s_grid_is_offered_or_listed_as_left_out(page: Page) -> None:
    # Figure 3 refers to Figure 2 for its sampler.
    text = page.left_out + next(each.left_out for each in PAGES if "DPPS-PNBM" in each.left_out)
    for model in example(page.example).model:
        if model.label.partition(", ")[2] not in {"the paper's grid", "the paper's η₁"}:
            continue
        if page.models and model.label not in page.models:
            continue
        offered = [defense for at in model.epsilon for defense in model.combinations("model", at)]
        for name, values in PAPERS_GRIDS[model.defense].items():
            for value in set(values) - {getattr(defense, name) for defense in offered}:
                number = rf"({value:g}|{value * 1e4:g}·10⁻⁴)(?!\d)"
                listed = rf"{SYMBOLS[name]} (=|of) ([^,;]* )?{number}"
                assert re.search(listed, text), (model.label, name, value)


@pytest.mark.cases("page", PAGES, ids=lambda page: page.title)
def test_the_page_is_of_the_present_examples(page: Page) -> None:
    text = section(page)
    assert f"examples/{page.example}.toml`, settings {settings_digest(page.example)}, " in text
    assert f"- {tuning(example(page.example))}\n" in text
    assert (f"\n- Left out of the paper's grid: {page.left_out}\n" in text) == bool(page.left_out)
    assert f"\n**Ours.** {page.ours}\n" in text


@pytest.mark.cases("page", PAGES, ids=lambda page: page.title)
def test_each_quoted_sentence_has_the_verdict_that_follows_from_the_table(page: Page) -> None:
    text = section(page)
    curves, edges = shown(text)
    for said in page.said:
        verdict = judged(said, curves, edges)
        assert re.search(r"\*\*(so|not so|undecided|not tested)\*\*", verdict)
        assert f"\n- {verdict}\n" in text + "\n"
    listed = [said.quote for said in page.said if said.quote] + [TYPICAL] * page.users
    assert re.findall("“([^”]+)”", text) == listed


def shown(text: str) -> tuple[dict[str, dict[float, Estimate]], list[Edge]]:
    """The errors in the first table of a section, and the settings at an open end of a grid."""
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    first, *labels = rows[0]
    assert first == "ε"
    curves: dict[str, dict[float, Estimate]] = {label: {} for label in labels}
    edges: list[Edge] = []
    for at, *cells in rows[2:]:
        if len(cells) != len(labels) or at.partition(" ")[0] not in {"∞", at}:
            break
        epsilon = math.inf if at == "∞" else float(at)
        for label, cell in zip(labels, cells, strict=True):
            error, _, mark = cell.partition(" [")
            if error != "–":
                curves[label][epsilon] = Estimate.exact(float(error), "as shown")
                edges += [Edge(label, epsilon, "", 0.0, "")] if mark.endswith(OPEN) else []
    return curves, edges


@pytest.mark.cases("page", PAGES, ids=lambda page: page.title)
def test_what_is_much_decides_no_verdict_to_its_contrary(page: Page) -> None:
    curves, edges = shown(section(page))
    for said in page.said:
        if abs(said.slack) == MUCH:
            others = [replace(said, slack=math.copysign(much, said.slack)) for much in (0.02, 0.1)]
            verdicts = {judged(each, curves, edges).split("**")[1] for each in (said, *others)}
            assert len(verdicts - {"undecided"}) <= 1, said.quote
    if any("so is the model that is not trained" in said.words for said in page.said):
        untrained, best = (curves[label][math.inf].value for label in (UNTRAINED, BEST))
        assert untrained <= (1 + MUCH) * best


@pytest.mark.cases("page", PAGES, ids=lambda page: page.title)
def test_each_model_that_a_sentence_is_judged_by_is_one_of_a_page(page: Page) -> None:
    names = {model.label for of in PAGES for model in example(of.example).model}
    labels = {label for said in page.said for label in (*said.pairs, *chain(*said.pairs.values()))}
    assert {label.partition(AT)[0] for label in labels} <= names


def test_one_command_runs_what_its_folder_lacks_and_goes_on_where_it_was_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[str] = []
    monkeypatch.setattr(make_training, "PAGES", PAGES[-1:])
    monkeypatch.setattr(make_training, "example", lambda name: small(example(name)))
    monkeypatch.setattr(make_training, "write", lambda _, text: written.append(text))
    (tmp_path / "peers.md").write_text("peers", encoding="utf-8")
    make_training.main(tmp_path)
    folder = tmp_path / PAGES[-1].example
    # Stopped before the last words: the tasks that ended are kept, the record is not there.
    (folder / "record.json").unlink()
    make_training.main(tmp_path)
    monkeypatch.setattr(pages, "run_audit", None)
    make_training.main(tmp_path)
    texts = {re.sub(r", \d+ s\.", ".", text) for text in written}
    assert (len(written), len(texts)) == (3, 1)
    assert f"## {PAGES[-1].title}" in written[0]
    assert written[0].endswith("peers\n")


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
    "alike": curve(_1=0.9793, _20=0.9507),
    "flat": {math.inf: Estimate.exact(0.96, "made up")},
}


@pytest.mark.cases(
    ("other", "open_ends", "verdicts"),
    [
        ("flat", set(), {"not so": [1], "so": [20]}),
        ("flat", {("mine", 1.0)}, {"undecided": [1], "so": [20]}),
        ("flat", {("mine", 20.0)}, {"not so": [1], "so": [20]}),
        ("flat", {("mine", 1.0), ("flat", math.inf)}, {"undecided": [1, 20]}),
        ("theirs", set(), {"not so": [20], "so": [1]}),
        ("alike", set(), {"undecided": [1, 20]}),
        ("theirs", {("theirs", 1.0)}, {"not so": [20], "undecided": [1]}),
        ("theirs", {("theirs", 1.0), ("mine", 20.0)}, {"undecided": [1, 20]}),
        ("theirs at ε = 20", set(), {"not so": [1, 20]}),
        ("theirs at ε = 1", {("theirs", 1.0)}, {"undecided": [1, 20]}),
    ],
)
def test_a_comparison_is_undecided_if_its_loser_stood_at_an_open_end(
    other: str, open_ends: set[tuple[str, float]], verdicts: dict[str, list[float]]
) -> None:
    assert compared(Said("", ""), "mine", other, CURVES, open_ends) == verdicts


def test_a_model_may_be_compared_at_one_epsilon_with_itself_at_others() -> None:
    said = Said("", "", most=1, slack=-0.02)
    assert compared(said, "mine at ε = 20", "mine", CURVES, set()) == {"so": [1]}
    said = replace(said, slack=-0.05)
    assert compared(said, "mine at ε = 20", "mine", CURVES, set()) == {"not so": [1]}


def test_a_sentence_is_judged_in_its_own_range_of_epsilon() -> None:
    said = Said("", "", least=20)
    assert compared(said, "mine", "flat", CURVES, set()) == {"so": [20]}
    assert compared(replace(said, least=21), "mine", "flat", CURVES, set()) == {}


@pytest.mark.cases(
    ("pairs", "verdict"),
    [
        ({"good": ("PCC", *READINGS)}, "undecided"),
        ({"good": ("PCC", READINGS[0])}, "so"),
        ({"bad": ("PCC", *READINGS)}, "not so"),
        ({"good": ("PCC",), "bad": ("PCC",)}, "undecided"),
        ({}, "not tested"),
        ({"good": ("bad",)}, "not tested"),
    ],
)
def test_a_sentence_holds_or_fails_if_it_does_on_every_reading(
    pairs: dict[str, tuple[str, ...]], verdict: str
) -> None:
    errors = {"PCC": 0.96, READINGS[0]: 1.0, READINGS[1]: 0.93}
    curves = {of: {math.inf: Estimate.exact(error, "made up")} for of, error in errors.items()}
    curves |= {"good": curve(_1=0.95), "bad": curve(_20=0.97)}
    assert judged(Said("Said", "", pairs), curves, []).startswith(f"“Said”: **{verdict}**")


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
