"""Charts as pictures that need no page."""

from __future__ import annotations

import re
from xml.etree import ElementTree as Xml

import pytest

from dpaudit.record.result import AuditResult
from dpaudit.reports import chart_parts as parts
from dpaudit.reports.render.svg import svg
from dpaudit.reports.sections.base import charts_of
from tests.support.membership_records import record
from tests.support.records import Make

SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.long
@pytest.mark.drawn
def test_a_picture_is_a_file_of_its_own_with_a_ground_and_fixed_colours(
    result: AuditResult,
) -> None:
    pictures = svg(result)
    assert list(pictures) == [f"{chart.name}.svg" for chart in charts_of(result)]
    for chart in charts_of(result):
        text = pictures[f"{chart.name}.svg"]
        assert not re.search(r"var\(|<style|\b(class|href|src)=", text)
        root = Xml.fromstring(text)  # noqa: S314  our own
        assert root.tag == f"{SVG}svg"
        assert root[0].attrib == {"width": "100%", "height": "100%", "fill": "#fff"}
        assert root.attrib["viewBox"] == f"0 0 {root.attrib['width']} {root.attrib['height']}"
        assert chart.title in root.attrib["aria-label"]
        colors = {element.get(name) for element in root.iter() for name in ("fill", "stroke")}
        assert "#0063a3" in colors
        assert all(color in (None, "none") or color.startswith("#") for color in colors)
    assert "claimed ε" in pictures["certified.svg"]


def test_each_panel_has_a_file_with_its_name(make: Make) -> None:
    assert list(svg(record(make))) == [
        "membership-target-interaction.svg",
        "membership-target-user.svg",
    ]


def test_panels_whose_names_differ_in_signs_alone_have_files_of_their_own(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["A b", "a/b", "../a:b", "x" * 300, "x" * 301, "ü"]
    panels = [parts.Panel(name, {}) for name in names]
    table = parts.numbers({}, [])
    chart = parts.Chart("roc", "ROC", "", "", panels, table)
    monkeypatch.setattr("dpaudit.reports.render.svg.charts_of", lambda _: [chart])
    long = f"roc-{'x' * 36}"
    assert [*svg(make())] == [
        f"{name}.svg"
        for name in ("roc-a-b", "roc-a-b-2", "roc-a-b-2-2", long, f"{long}-2", "roc-ü")
    ]


def test_a_record_without_charts_has_no_file(make: Make) -> None:
    bare = make(epsilons=(1.0,), attacks=False, game=False, gate=False, rated=False)
    assert svg(bare.model_copy(update={"measurements": []})) == {}
