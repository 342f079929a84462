from __future__ import annotations

import copy
import json
import math
import re
from collections import Counter
from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any

import pytest

from dpaudit.core.messages import plain
from dpaudit.record.result import AuditResult
from dpaudit.reports.chart_parts import Chart
from dpaudit.reports.render import html, markdown
from dpaudit.reports.render import page as pages
from dpaudit.reports.sections.base import charts_of
from tests.support.records import EVIL, Make

Valid = Callable[[dict[str, Any]], bool]


class Page(HTMLParser):
    """The elements of a page, its scripts' contents and its visible text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append((dict(attrs), ""))

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1][0] == "script" and self.cdata_elem:
            attributes, content = self.scripts.pop()
            self.scripts.append((attributes, content + data))
        else:
            self.text += data

    def policy(self) -> str:
        return next(a["content"] or "" for _, a in self.tags if "http-equiv" in a)

    def charts(self) -> list[str]:
        """The names of the charts, in the order of the page."""
        return [(a["id"] or "").removeprefix("figure-") for tag, a in self.tags if tag == "figure"]

    def pictures(self) -> list[str]:
        """What the pictures of charts say to who cannot see them."""
        return [a["aria-label"] or "" for tag, a in self.tags if tag == "svg" and "role" in a]


def chart(result: AuditResult, name: str) -> Chart:
    return next(chart for chart in charts_of(result) if chart.name == name)


def points(drawing: Chart) -> list[dict[str, Any]]:
    return [datum for panel in drawing.panels for datum in panel.spec["datasets"]["points"]]


def drawn(drawing: Chart) -> str:
    return "".join(pages.drawn([drawing]).values())


def test_numbers_and_verdict(result: AuditResult) -> None:
    page = Page(html.render(result))
    for part in ("0.400 [0.360, 0.420]", "1.234 [1.100, 1.400]", "≥ 2.718 (more than claimed)"):
        assert part in page.text
    assert ("section", {"class": "verdict bad"}) in page.tags
    assert page.charts() == ["accuracy", "tradeoff", "certified", "difference", "rmse"]
    assert {datum["y"] for datum in points(chart(result, "rmse"))} == {1.2345}


def test_cells_are_those_of_markdown(result: AuditResult) -> None:
    text = Page(html.render(result)).text
    for line in markdown.render(result).splitlines():
        if line.startswith("| ") and "---" not in line:
            for cell in line.strip("| ").split(" | "):
                assert re.sub(r"\\(.)", r"\1", cell.replace("**", "")) in text


def test_a_table_with_powers_says_below_it_what_they_mean(make: Make) -> None:
    said = '</table>\n</div>\n<p class="muted">Power: the least factor by which a copy has to break'
    assert html.render(make()).count(said) == 1
    assert said not in html.render(make(game=False))


@pytest.mark.long
@pytest.mark.drawn
def test_loads_nothing(result: AuditResult) -> None:
    text = html.render(result)
    page = Page(text)
    for _, attributes in page.tags:
        assert not {"src", "srcset", "data", "action"} & set(attributes)
        assert (attributes.get("href") or "#").startswith("#")
    style = text.split("<style>")[1].split("</style>")[0]
    assert "url(" not in style
    assert "@import" not in style
    assert "default-src 'none'" in page.policy()


@pytest.mark.long
@pytest.mark.drawn
def test_a_page_has_no_script_and_allows_none(result: AuditResult) -> None:
    text = html.render(result)
    assert "<script" not in text
    assert "<svg" in text
    # Nothing that `default-src 'none'` forbids is allowed again, but styles.
    policy = "default-src 'none'; script-src 'none'; style-src 'unsafe-inline'"
    assert Page(text).policy() == f"{policy}; base-uri 'none'; form-action 'none'"
    assert not re.findall(r"<[^>]+ on[a-z]+=", text)


@pytest.mark.long
@pytest.mark.drawn
def test_colours_of_charts_follow_the_page(result: AuditResult) -> None:
    for name in ("accuracy", "certified", "tradeoff"):
        picture = drawn(chart(result, name))
        colors = set(re.findall(r'(?:fill|stroke)="([^"]+)"', picture))
        assert {color for color in colors if not color.startswith("var(--")} <= {
            "none",
            "transparent",
        }


@pytest.mark.long
@pytest.mark.drawn
def test_places_are_short_and_numbers_on_axes_are_whole(result: AuditResult) -> None:
    picture = drawn(chart(result, "accuracy"))
    assert not re.findall(r' (?:d|transform)="[^"]*\.\d\d', picture)
    assert ">0.1</text>" in drawn(chart(result, "certified"))


@pytest.mark.long
@pytest.mark.drawn
def test_labels_cannot_break_out(make: Make) -> None:
    text = html.render(make(label=EVIL, attack=EVIL + "2", rule=EVIL))
    page = Page(text)
    assert not [tag for tag, _ in page.tags if tag == "img"]
    assert "<img" not in text
    assert EVIL in page.text
    assert not [tag for tag, _ in page.tags if tag == "script"]
    assert any(EVIL in said for said in page.pictures())


@pytest.mark.long
@pytest.mark.drawn
def test_same_record_same_bytes(result: AuditResult, lists: AuditResult) -> None:
    for record in (result, lists):
        assert html.render(record) == html.render(record)


@pytest.mark.long
@pytest.mark.drawn
def test_headings_and_captions(hard: AuditResult) -> None:
    page = Page(html.render(hard))
    tags = [tag for tag, _ in page.tags]
    assert ("html", {"lang": "en"}) in page.tags
    assert tags.count("h1") == 1
    assert tags.count("table") == tags.count("caption") == tags.count("thead")
    assert tags.count("figure") == tags.count("figcaption") == len(charts_of(hard))


def test_charts_leave_out_what_was_not_measured(make: Make) -> None:
    def names(**options: Any) -> list[str]:
        return [chart.name for chart in charts_of(make(**options))]

    assert names(rated=False, game=False) == ["accuracy", "tradeoff", "difference"]
    assert names(attacks=False) == ["certified", "difference", "rmse"]
    assert names(epsilons=(float("inf"),), game=False) == ["tradeoff"]


@pytest.mark.long
@pytest.mark.drawn
def test_every_chart_is_valid_vega_lite(make: Make, lists: AuditResult, valid: Valid) -> None:
    drawings = [*charts_of(make(epsilons=(0.1, 1.0, math.inf))), *charts_of(lists)]
    names = ["accuracy", "tradeoff", "certified", "difference", "rmse", "convergence"]
    assert sorted({chart.name for chart in drawings}) == sorted(names)
    for chart in drawings:
        for panel in chart.panels:
            assert valid(panel.spec)
            broken = copy.deepcopy(panel.spec)
            broken["layer"][-1]["encoding"]["y"]["scale"] = {"type": "no such scale"}
            assert not valid(broken)


def test_false_claims_are_marked(result: AuditResult) -> None:
    data = points(chart(result, "certified"))
    assert {datum["at"]: datum["verdict"] for datum in data} == {
        "0.1": "more than claimed",
        "1": "more than claimed",
        "10": "not more than claimed, by a game that finds no mutant",
    }


@pytest.mark.long
@pytest.mark.drawn
def test_chains_are_drawn_by_states_and_steps(lists: AuditResult) -> None:
    assert Page(html.render(lists)).charts() == ["certified", "difference", "convergence"]
    drawing = chart(lists, "convergence")
    states = [panel.name for panel in drawing.panels]
    assert sorted(states) == ["all states", "explored states, at most 10"]
    data = points(drawing)
    assert len(data) == 3 * 2 * 3
    # No step has no place on a logarithmic axis: it is drawn left of the first.
    assert {(datum["step"], datum["x"]) for datum in data} == {(0, 5), (10, 10), (1000, 1000)}
    assert {datum["series"] for datum in data} == {
        f"chain, ε = {epsilon}, {states}"
        for epsilon in ("0.1", "1", "100")
        for states in ("explored states, at most 10", "all states")
    }
    assert "datum.value == 5" in json.dumps(drawing.panels[0].spec)


@pytest.mark.long
@pytest.mark.drawn
@pytest.mark.parametrize("name", ["convergence", "certified", "difference"])
def test_the_charts_of_lists_can_be_drawn(lists: AuditResult, name: str) -> None:
    picture = drawn(chart(lists, name))
    assert (">1k<" if name == "convergence" else ">100<") in picture
    assert "NaN" not in picture


@pytest.mark.long
@pytest.mark.drawn
def test_accuracy_has_the_baseline_of_a_guess(result: AuditResult) -> None:
    for name in ("accuracy", "tradeoff"):
        drawing = chart(result, name)
        assert drawn(drawing).count("guess (1 of 5)") == 1
    (panel,) = chart(result, "accuracy").panels
    assert [row["y"] for row in panel.spec["datasets"]["baselines"]] == [0.2, 0.2]


@pytest.mark.long
@pytest.mark.drawn
def test_an_accuracy_below_that_of_a_guess_is_explained(make: Make) -> None:
    said = "An accuracy below guessing shows a weak attack, not a private model."
    assert said in chart(make(epsilons=(0.1, 1.0)), "accuracy").caption
    assert said not in chart(make(epsilons=(1.0, 10.0)), "accuracy").caption


def test_six_series_that_leak_most_are_in_colour(make: Make) -> None:
    base = make(attacks=True)
    models = [base.models[0].model_copy(update={"label": f"model {n}"}) for n in range(5)]
    measurements = [
        measurement.model_copy(
            update={
                "model": model.label,
                "estimate": measurement.estimate.model_copy(
                    update={"value": measurement.estimate.value * (1 - place / 10), "lower": 0.0}
                ),
            }
        )
        for place, model in enumerate(models)
        for measurement in base.measurements
        if measurement.metric == "attack.accuracy"
    ]
    at = [
        point.model_copy(update={"model": model.label}) for model in models for point in base.points
    ]
    many = base.model_copy(
        update={"models": models, "points": at, "measurements": measurements, "verdicts": []}
    )
    drawing = chart(many, "accuracy")
    bold = {datum["series"]: datum["bold"] for datum in points(drawing)}
    assert len(bold) == 10
    assert {name for name, colored in bold.items() if colored} == {
        "model 0, second",
        *(f"model {n}, one prediction" for n in range(5)),
    }
    (panel,) = drawing.panels
    named = {" ".join(row["text"]) for row in panel.spec["datasets"]["labels"]}
    assert named == {name for name, colored in bold.items() if colored} | {"guess (1 of 5)"}
    assert "the thin grey ones" in drawing.caption
    assert "the thin grey ones" not in chart(base, "accuracy").caption


@pytest.mark.long
@pytest.mark.drawn
def test_every_chart_says_what_it_shows(hard: AuditResult) -> None:
    text = html.render(hard)
    for drawing in charts_of(hard):
        assert drawing.summary.endswith(".")
        assert any(character.isdigit() for character in drawing.summary)
        assert set(drawing.numbers.header)
        assert len(drawing.numbers.cells) == len(points(drawing))
        pictures = [said for said in Page(text).pictures() if said.startswith(drawing.title)]
        assert len(pictures) == len(drawing.panels) > 0
        assert all(plain(drawing.summary) in said for said in pictures)


def test_a_chart_of_one_point_is_left_out(make: Make) -> None:
    names = [drawing.name for drawing in charts_of(make(epsilons=(1.0,)))]
    assert "certified" not in names
    assert "rmse" not in names
    assert "accuracy" in names  # two attacks
    assert "rmse" in [drawing.name for drawing in charts_of(make(epsilons=(1.0, 2.0)))]


@pytest.mark.drawn
def test_samples_of_a_legend_have_the_dashes_of_their_lines(make: Make) -> None:
    """The scale of the samples is not merged with that of the lines."""
    parts = [make("a"), make("b")]
    names = ("models", "points", "measurements", "verdicts")
    both = parts[0].model_copy(
        update={name: [each for part in parts for each in getattr(part, name)] for name in names}
    )
    dashes = re.findall(r'stroke-dasharray="([\d,]+)"', drawn(chart(both, "accuracy")))
    # Four lines with four samples, and that of a guess.
    assert Counter(dashes) == {"1,0": 4, "7,3": 4, "6,4": 1}
