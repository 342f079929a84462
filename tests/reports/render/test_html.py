from __future__ import annotations

import base64
import copy
import hashlib
import json
import math
import re
from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any

import pytest

from dpaudit.record.result import AuditResult
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
            attributes["data-chart"] or "": json.loads(content)
            for attributes, content in self.scripts
            if "data-chart" in attributes
        }


PAGES: dict[str, str] = {}


def rendered(result: AuditResult) -> str:
    """The page of this record, drawn once."""
    key = repr(result)
    if key not in PAGES:
        PAGES[key] = html.render(result)
    return PAGES[key]


def data_of(spec: dict[str, Any]) -> list[dict[str, Any]]:
    return [datum for values in spec["datasets"].values() for datum in values]


def test_numbers_and_verdict(result: AuditResult) -> None:
    page = Page(rendered(result))
    for part in ("0.400 [0.360, 0.420]", "1.234 [1.100, 1.400]", "≥ 2.718 (more than claimed)"):
        assert part in page.text
    assert ("section", {"class": "verdict broken"}) in page.tags
    assert list(page.specs()) == ["accuracy", "tradeoff", "certified", "difference", "rmse"]
    assert {datum.get("value") for datum in data_of(page.specs()["rmse"])} == {1.2345}


def test_cells_are_those_of_markdown(result: AuditResult) -> None:
    text = Page(rendered(result)).text
    for line in markdown.render(result).splitlines():
        if line.startswith("| ") and "---" not in line:
            for cell in line.strip("| ").split(" | "):
                assert re.sub(r"\\(.)", r"\1", cell.replace("**", "")) in text


def test_loads_nothing(result: AuditResult) -> None:
    text = rendered(result)
    page = Page(text)
    for _, attributes in page.tags:
        assert not {"src", "href", "srcset", "data", "action"} & set(attributes)
    style = text.split("<style>")[1].split("</style>")[0]
    assert "url(" not in style
    assert "@import" not in style
    for spec in page.specs().values():
        assert '"url"' not in json.dumps(spec)
    assert "default-src 'none'" in page.policy()


def test_policy_allows_the_page_s_own_script_alone(result: AuditResult) -> None:
    page = Page(rendered(result))
    run = [content for attributes, content in page.scripts if "type" not in attributes]
    assert len(run) == 1
    summary = base64.b64encode(hashlib.sha256(run[0].encode()).digest()).decode()
    assert f"script-src 'sha256-{summary}';" in page.policy()
    assert "unsafe-eval" not in page.policy()


def test_labels_cannot_break_out(make: Make) -> None:
    text = rendered(make(label=EVIL, attack=EVIL + "2", rule=EVIL))
    page = Page(text)
    assert not [tag for tag, _ in page.tags if tag == "img"]
    assert "<img" not in text.replace(pages._script(), "")
    assert EVIL in page.text
    assert {datum["model"] for datum in data_of(page.specs()["accuracy"])} == {EVIL}


def test_same_record_same_bytes(result: AuditResult, lists: AuditResult) -> None:
    for record in (result, lists):
        assert html.render(record) == rendered(record)


def test_headings_and_captions(hard: AuditResult) -> None:
    page = Page(rendered(hard))
    tags = [tag for tag, _ in page.tags]
    assert ("html", {"lang": "en"}) in page.tags
    assert tags.count("h1") == 1
    assert tags.count("table") == tags.count("caption")
    assert tags.count("figure") == tags.count("figcaption") == len(page.specs())


def test_charts_leave_out_what_was_not_measured(make: Make) -> None:
    def names(**options: Any) -> list[str]:
        return [chart.name for chart in charts.render(make(**options))]

    assert names(rated=False, game=False) == ["accuracy", "tradeoff", "difference"]
    assert names(attacks=False) == ["certified", "difference", "rmse"]
    assert names(epsilons=(float("inf"),), game=False) == ["tradeoff"]


def test_every_chart_is_valid_vega_lite(make: Make, lists: AuditResult, valid: Valid) -> None:
    found = [*charts.render(make(epsilons=(0.1, 1.0, math.inf))), *charts.render(lists)]
    names = ["accuracy", "tradeoff", "certified", "difference", "rmse", "convergence"]
    assert sorted({chart.name for chart in found}) == sorted(names)
    for chart in found:
        assert valid(chart.spec)
        broken = copy.deepcopy(chart.spec)
        broken["layer"][-1]["encoding"]["y"]["scale"] = {"type": "no such scale"}
        assert not valid(broken)


def test_zero_difference_is_drawn_as_its_upper_bound(make: Make) -> None:
    result = make()
    same = [
        found.model_copy(
            update={"estimate": found.estimate.model_copy(update={"value": 1.0, "lower": 0.97})}
        )
        if found.metric == "utility.overlap" and found.epsilon == 10
        else found
        for found in result.measurements
    ]
    spec = Page(rendered(result.model_copy(update={"measurements": same}))).specs()["difference"]
    zero = next(datum for datum in data_of(spec) if datum["epsilon"] == 10)
    assert zero["drawn"] == "upper bound (measured: 0)"
    assert zero["shown"] == pytest.approx(0.03)
    assert all(datum["shown"] > 0 and datum["lower"] > 0 for datum in data_of(spec))


def test_broken_claims_are_marked(result: AuditResult) -> None:
    spec = Page(rendered(result)).specs()["certified"]
    verdicts = {datum["at"]: datum["verdict"] for datum in data_of(spec) if "verdict" in datum}
    assert verdicts == {
        "0.1": "more than claimed",
        "1": "more than claimed",
        "10": "not more than claimed",
    }


def test_chains_are_drawn_by_states_and_steps(lists: AuditResult) -> None:
    specs = Page(rendered(lists)).specs()
    assert list(specs) == ["certified", "difference", "convergence"]
    data = data_of(specs["convergence"])
    assert len(data) == 3 * 2 * 3
    # No step has no place on a logarithmic axis: it is drawn left of the first.
    assert {(datum["step"], datum["x"]) for datum in data} == {(0, 5), (10, 10), (1000, 1000)}
    assert {datum["states"] for datum in data} == {"first 10 states", "all states"}
    assert all(datum["shown"] == datum["value"] > 0 for datum in data)
    assert "datum.value == 5" in json.dumps(specs["convergence"])


@pytest.mark.parametrize("name", ["convergence", "certified", "difference"])
def test_the_charts_of_lists_can_be_drawn(lists: AuditResult, name: str) -> None:
    import altair
    import vl_convert

    spec = Page(rendered(lists)).specs()[name]
    version = ".".join(altair.SCHEMA_VERSION.split(".")[:2])
    drawn = vl_convert.vegalite_to_svg({**spec, "width": 600}, vl_version=version)
    assert ">100<" in drawn
    assert "NaN" not in drawn


@pytest.mark.parametrize("weight", [0.1, 0.5, 0.9])
def test_slider_picks_the_best_epsilon(make: Make, weight: float) -> None:
    import altair
    import vl_convert

    epsilons = (0.1, 0.3, 1.0, 3.0, 10.0)
    spec = Page(rendered(make(epsilons=epsilons))).specs()["tradeoff"]
    data = [datum for datum in data_of(spec) if datum["strongest"]]
    best = max(data, key=lambda at: (1 - weight) * at["utility"] - weight * at["risk"])
    next(part for part in spec["params"] if part["name"] == "weight")["value"] = weight
    version = ".".join(altair.SCHEMA_VERSION.split(".")[:2])
    drawn = vl_convert.vegalite_to_svg({**spec, "width": 600}, vl_version=version)
    assert f"ε = {best['at']} is best: utility {best['utility']:.3f}" in drawn
    assert drawn.count("is best") == drawn.count("is best: utility")


def test_without_charts_no_script_runs(make: Make) -> None:
    result = make(attacks=False, game=False, rated=False)
    text = rendered(result.model_copy(update={"measurements": []}))
    assert "<script" not in text
    assert "script-src 'none'" in Page(text).policy()
