"""The controls of charts: what a reader moves, picks, chooses and opens."""

from __future__ import annotations

from typing import Any

import pytest
from report_pages import Open  # type: ignore[import-not-found]

pytestmark = pytest.mark.browser

# How visible each series of a chart is.
OPACITIES = """(figure) => {
  const known = new Set([...figure.querySelectorAll(".series button")].map((each) => each.value));
  return Object.fromEntries([...figure.querySelectorAll(".chart .mark-line path")]
    .filter((path) => known.has(path.__data__?.datum?.series))
    .map((path) => [path.__data__.datum.series, Number(path.getAttribute("opacity") ?? 1)]));
}"""


def answer(page: Any) -> list[str]:
    found: list[str] = page.locator("#figure-tradeoff .answer li").all_text_contents()
    return found


@pytest.mark.parametrize("look", ["desk", "phone"])
def test_the_slider_changes_the_answer(opened: Open, look: str) -> None:
    with opened("item_item", look) as page:
        before = answer(page)
        assert len(before) == 2
        slider = page.get_by_label("weight w of leakage against utility")
        slider.fill("0.95")
        assert page.locator("#figure-tradeoff output").text_content() == "0.95"
        assert answer(page) != before
        rings = page.locator("#figure-tradeoff .chart svg text", has_text="ε = ")
        assert len(rings.all_text_contents()) == len(answer(page))
        for line in page.locator("#figure-tradeoff .answer li").all():
            box = line.bounding_box()
            assert box["x"] + box["width"] <= page.viewport_size["width"]


def test_the_slider_recommends_no_broken_claim(opened: Open) -> None:
    with opened("item_item") as page:
        (note,) = page.locator("#figure-tradeoff .notes li").all_text_contents()
        assert note.startswith("published is not offered: its claim is false at ε = 0.1, 1")
        slider = page.get_by_label("weight w of leakage against utility")
        for weight in ("0", "0.3", "0.5", "0.7", "1"):
            slider.fill(weight)
            assert [line.split(":")[0] for line in answer(page)] == ["corrected", "no noise"]


def test_a_series_is_picked_by_hovering_and_kept_by_a_click(opened: Open) -> None:
    with opened("federated") as page:
        figure = page.locator("#figure-transcripts")
        first = figure.locator(".series button").first
        name = first.get_attribute("value")
        assert set(figure.evaluate(OPACITIES).values()) == {1}
        first.hover()
        shown = figure.evaluate(OPACITIES)
        assert [series for series, opacity in shown.items() if opacity == 1] == [name]
        page.mouse.move(0, 0)
        assert set(figure.evaluate(OPACITIES).values()) == {1}
        first.click()
        page.mouse.move(0, 0)
        assert first.get_attribute("aria-pressed") == "true"
        assert min(figure.evaluate(OPACITIES).values()) < 0.5
        first.press("Enter")
        page.mouse.move(0, 0)
        assert first.get_attribute("aria-pressed") == "false"


def test_a_grey_series_has_a_colour_and_a_label_while_it_is_picked(opened: Open) -> None:
    with opened("federated") as page:
        figure = page.locator("#figure-transcripts")
        colors = {
            value: figure.locator(f'button[value="{value}"] line').get_attribute("stroke")
            for value in figure.evaluate(OPACITIES)
        }
        assert len({color for color in colors.values() if color != "var(--rest)"}) == 6
        grey = next(value for value, color in colors.items() if color == "var(--rest)")
        label = figure.locator(".chart svg text", has_text=grey)
        assert label.count() == 0
        figure.get_by_text("in grey until picked").click()
        figure.locator(f'button[value="{grey}"]').click()
        assert label.count() == 1
        # No other label is in its way.
        assert figure.locator(".chart svg text", has_text="guess").count() == 0
        stroke = f"""(figure) => [...figure.querySelectorAll(".chart .mark-line path")]
          .find((path) => path.__data__?.datum?.series === {grey!r}).getAttribute("stroke")"""
        assert figure.evaluate(stroke) == "var(--text)"


def test_a_point_of_the_chart_picks_its_series_and_tells_its_numbers(opened: Open) -> None:
    with opened("item_item") as page:
        figure = page.locator("#figure-accuracy")
        point = figure.locator(".chart svg .mark-symbol path").last
        point.scroll_into_view_if_needed()
        point.hover(force=True)
        page.wait_for_selector("#vg-tooltip-element.visible")
        assert "attack accuracy" in page.locator("#vg-tooltip-element").text_content()
        assert min(figure.evaluate(OPACITIES).values()) < 0.5


def test_a_choice_shows_another_group(opened: Open) -> None:
    with opened("federated") as page:
        figure = page.locator("#figure-transcripts")
        points = """(figure) => [...figure.querySelectorAll(".chart .mark-symbol path")]
          .map((path) => path.__data__?.datum?.model).filter(Boolean)"""
        assert len(set(figure.evaluate(points))) == 1
        last = figure.locator("option").last.text_content()
        figure.get_by_label("model").select_option(last)
        assert set(figure.evaluate(points)) == {last}


def test_the_numbers_of_a_chart_are_a_table(opened: Open) -> None:
    with opened("item_item") as page:
        figure = page.locator("#figure-accuracy")
        assert figure.locator(".numbers table").count() == 0
        figure.get_by_text("The numbers of this chart").click()
        heads = figure.locator(".numbers th").all_text_contents()
        assert heads == ["series", "ε", "attack accuracy", "trials"]
        first = page.locator(".table.results td").nth(0).text_content()
        assert first in figure.locator(".numbers td:nth-child(2)").all_text_contents()
        assert figure.locator(".numbers tbody tr").count() == 18
        assert figure.get_by_role("link", name="The tables").get_attribute("href") == "#results"


def test_a_chart_is_saved_with_its_colours(opened: Open) -> None:
    with opened("item_item") as page:
        with page.expect_download() as saving:
            page.locator("#figure-accuracy").get_by_text("Save as SVG").click()
        text = saving.value.path().read_text(encoding="utf-8")
        assert saving.value.suggested_filename == "accuracy.svg"
        assert "<svg" in text
        assert "var(--" not in text
