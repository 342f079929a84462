from __future__ import annotations

import base64
import copy
import gzip
import hashlib
import json
import math
import re
from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any

import pytest

from dpaudit.record.result import AuditResult
from dpaudit.reports.chart_parts import REST, Chart
from dpaudit.reports.render import html, markdown
from dpaudit.reports.render import page as pages
from dpaudit.reports.sections import charts

Make = Callable[..., AuditResult]
Valid = Callable[[dict[str, Any]], bool]

EVIL = "</script><img src=x onerror=alert(1)>"


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

    def specs(self) -> dict[str, Any]:
        return {
            attributes["data-chart"] or "": unpacked(json.loads(content)["spec"])
            for attributes, content in self.scripts
            if "data-chart" in attributes
        }


def unpacked(spec: dict[str, Any]) -> dict[str, Any]:
    """The specification with its data as rows, as the page's script makes them."""
    return {**spec, "datasets": {name: rows(table) for name, table in spec["datasets"].items()}}


def rows(table: dict[str, Any]) -> list[dict[str, Any]]:
    columns = [
        [column["texts"][at] if at >= 0 else None for at in column["at"]]
        if isinstance(column, dict)
        else column
        for column in table["columns"]
    ]
    cells = zip(*columns, strict=True)
    return [dict(zip(table["fields"], cell, strict=True)) for cell in cells]


PAGES: dict[str, str] = {}


def rendered(result: AuditResult) -> str:
    """The page of this record, drawn once."""
    key = repr(result)
    if key not in PAGES:
        PAGES[key] = html.render(result)
    return PAGES[key]


def points(spec: dict[str, Any]) -> list[dict[str, Any]]:
    data: list[dict[str, Any]] = spec["datasets"]["points"]
    return data


def chart(result: AuditResult, name: str) -> Chart:
    return next(chart for chart in charts.render(result) if chart.name == name)


def drawn(spec: dict[str, Any]) -> str:
    import altair
    import vl_convert

    version = ".".join(altair.SCHEMA_VERSION.split(".")[:2])
    text: str = vl_convert.vegalite_to_svg({**spec, "width": 600}, vl_version=version)
    return text


def test_numbers_and_verdict(result: AuditResult) -> None:
    page = Page(rendered(result))
    for part in ("0.400 [0.360, 0.420]", "1.234 [1.100, 1.400]", "≥ 2.718 (more than claimed)"):
        assert part in page.text
    assert ("section", {"class": "verdict bad"}) in page.tags
    assert list(page.specs()) == ["accuracy", "tradeoff", "certified", "difference", "rmse"]
    assert {datum["y"] for datum in points(page.specs()["rmse"])} == {1.2345}


def test_cells_are_those_of_markdown(result: AuditResult) -> None:
    text = Page(rendered(result)).text
    for line in markdown.render(result).splitlines():
        if line.startswith("| ") and "---" not in line:
            for cell in line.strip("| ").split(" | "):
                assert re.sub(r"\\(.)", r"\1", cell.replace("**", "")) in text


def test_a_table_with_powers_says_below_it_what_they_mean(make: Make) -> None:
    said = '</table>\n</div>\n<p class="muted">Power: the least factor by which a copy has to break'
    assert rendered(make()).count(said) == 1
    assert said not in rendered(make(game=False))


def test_loads_nothing(result: AuditResult) -> None:
    text = rendered(result)
    page = Page(text)
    for _, attributes in page.tags:
        assert not {"src", "srcset", "data", "action"} & set(attributes)
        assert (attributes.get("href") or "#").startswith("#")
    style = text.split("<style>")[1].split("</style>")[0]
    assert "url(" not in style
    assert "@import" not in style
    for spec in page.specs().values():
        assert '"url"' not in json.dumps(spec)
    assert "default-src 'none'" in page.policy()


def test_policy_allows_the_page_s_own_scripts_alone(result: AuditResult) -> None:
    page = Page(rendered(result))
    (loader,) = [content for attributes, content in page.scripts if "type" not in attributes]
    (packed,) = [content for attributes, content in page.scripts if attributes.get("id")]
    library = gzip.decompress(base64.b64decode(packed)).decode()
    assert library == pages._script()
    summaries = [hashlib.sha256(script.encode()).digest() for script in (loader, library)]
    allowed = " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in summaries)
    assert f"script-src {allowed};" in page.policy()
    assert "unsafe-eval" not in page.policy()


def test_labels_cannot_break_out(make: Make) -> None:
    text = rendered(make(label=EVIL, attack=EVIL + "2", rule=EVIL))
    page = Page(text)
    assert not [tag for tag, _ in page.tags if tag == "img"]
    assert "<img" not in text
    assert EVIL in page.text
    named = {datum["series"] for datum in points(page.specs()["accuracy"])}
    assert named == {f"{EVIL}, {EVIL}2", f"{EVIL}, second"}


def test_same_record_same_bytes(result: AuditResult, lists: AuditResult) -> None:
    for record in (result, lists):
        assert html.render(record) == rendered(record)


@pytest.mark.long
def test_headings_and_captions(hard: AuditResult) -> None:
    page = Page(rendered(hard))
    tags = [tag for tag, _ in page.tags]
    assert ("html", {"lang": "en"}) in page.tags
    assert tags.count("h1") == 1
    assert tags.count("table") == tags.count("caption") == tags.count("thead")
    assert tags.count("figure") == tags.count("figcaption") == len(page.specs())


def test_charts_leave_out_what_was_not_measured(make: Make) -> None:
    def names(**options: Any) -> list[str]:
        return [chart.name for chart in charts.render(make(**options))]

    assert names(rated=False, game=False) == ["accuracy", "tradeoff", "difference"]
    assert names(attacks=False) == ["certified", "difference", "rmse"]
    assert names(epsilons=(float("inf"),), game=False) == ["tradeoff"]


@pytest.mark.long
def test_every_chart_is_valid_vega_lite(make: Make, lists: AuditResult, valid: Valid) -> None:
    drawings = [*charts.render(make(epsilons=(0.1, 1.0, math.inf))), *charts.render(lists)]
    names = ["accuracy", "tradeoff", "certified", "difference", "rmse", "convergence"]
    assert sorted({chart.name for chart in drawings}) == sorted(names)
    for chart in drawings:
        assert valid(chart.spec)
        broken = copy.deepcopy(chart.spec)
        broken["layer"][-1]["encoding"]["y"]["scale"] = {"type": "no such scale"}
        assert not valid(broken)


def test_false_claims_are_marked(result: AuditResult) -> None:
    data = points(chart(result, "certified").spec)
    assert {datum["at"]: datum["verdict"] for datum in data} == {
        "0.1": "more than claimed",
        "1": "more than claimed",
        "10": "not more than claimed, by a game that finds no mutant",
    }


def test_chains_are_drawn_by_states_and_steps(lists: AuditResult) -> None:
    specs = Page(rendered(lists)).specs()
    assert list(specs) == ["certified", "difference", "convergence"]
    data = points(specs["convergence"])
    assert len(data) == 3 * 2 * 3
    # No step has no place on a logarithmic axis: it is drawn left of the first.
    assert {(datum["step"], datum["x"]) for datum in data} == {(0, 5), (10, 10), (1000, 1000)}
    assert {datum["series"] for datum in data} == {
        f"chain, ε = {epsilon}, {states}"
        for epsilon in ("0.1", "1", "100")
        for states in ("explored states, at most 10", "all states")
    }
    assert "datum.value == 5" in json.dumps(specs["convergence"])


@pytest.mark.long
@pytest.mark.parametrize("name", ["convergence", "certified", "difference"])
def test_the_charts_of_lists_can_be_drawn(lists: AuditResult, name: str) -> None:
    drawing = drawn(Page(rendered(lists)).specs()[name])
    assert (">1k<" if name == "convergence" else ">100<") in drawing
    assert "NaN" not in drawing


@pytest.mark.long
def test_accuracy_has_the_baseline_of_a_guess(result: AuditResult) -> None:
    for name in ("accuracy", "tradeoff"):
        drawing = chart(result, name)
        assert "guess (1 of 5)" in {row["series"] for row in drawing.spec["datasets"]["labels"]}
        assert "guess (1 of 5)" in drawn(drawing.spec)
    ends = [(row["x"], row["y"]) for row in chart(result, "accuracy").spec["datasets"]["baselines"]]
    assert [y for _, y in ends] == [0.2, 0.2]


@pytest.mark.long
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
    points = [
        point.model_copy(update={"model": model.label}) for model in models for point in base.points
    ]
    many = base.model_copy(
        update={"models": models, "points": points, "measurements": measurements, "verdicts": []}
    )
    series = chart(many, "accuracy").series
    assert len(series) == 10
    assert [line.color == REST for line in series] == [False] * 6 + [True] * 4
    assert series[0].name == "model 0, one prediction"
    leaks = [line.name for line in series]
    assert leaks.index("model 1, one prediction") < leaks.index("model 4, one prediction")


@pytest.mark.long
def test_every_chart_says_what_it_shows(hard: AuditResult) -> None:
    text = rendered(hard)
    for drawing in charts.render(hard):
        assert drawing.summary.endswith(".")
        assert any(character.isdigit() for character in drawing.summary)
        assert set(drawing.columns) <= set(points(drawing.spec)[0]) | {"at"}
        assert f'id="{drawing.name}" role="img" aria-label="' in text


def test_data_are_packed_with_each_text_once(result: AuditResult) -> None:
    drawing = chart(result, "accuracy")
    packed = pages.packed(drawing)
    assert (
        unpacked(packed["spec"])["datasets"]["baselines"] == drawing.spec["datasets"]["baselines"]
    )
    column = packed["spec"]["datasets"]["points"]["columns"][0]
    assert len(column["texts"]) == 2
    assert len(column["at"]) == 6


def test_without_charts_no_script_runs(make: Make) -> None:
    result = make(attacks=False, game=False, rated=False)
    text = rendered(result.model_copy(update={"measurements": []}))
    assert "<script" not in text
    assert "script-src 'none'" in Page(text).policy()
