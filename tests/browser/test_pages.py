"""What every page owes its readers: on a desk, on a phone, in the dark and on paper."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from report_pages import KINDS, LOOKS, PAGES, RUNS, Open  # type: ignore[import-not-found]

pytestmark = pytest.mark.browser
# Bytes of a page; charts of submissions have a point for each round and attack.
MOST_BYTES = {"federated": 600_000}
USUAL = 400_000
# A black box has one point, which needs no chart.
CHARTED = [kind for kind in KINDS if kind != "black-box"]

# The charts that can be seen: their marks, and their sizes in pixels.
CHARTS = """[...document.querySelectorAll(".panel svg")]
  .filter((svg) => svg.checkVisibility())
  .map((svg) => {
    const box = svg.getBoundingClientRect();
    const marks = svg.querySelectorAll("path, line");
    const card = svg.closest("figure").getBoundingClientRect();
    return {
      name: svg.closest("figure").id,
      marks: [...marks].map((mark) => mark.getBoundingClientRect())
        .filter((mark) => mark.width > 0 || mark.height > 0).length,
      plot: box.width,
      left: box.left - card.left, right: card.right - box.right, height: box.height,
    };
  })"""
# Texts of charts that overlap others, or leave their card.
CROWDED = """[...document.querySelectorAll(".panel svg")]
  .filter((svg) => svg.checkVisibility())
  .flatMap((svg) => {
    const card = svg.closest("figure").getBoundingClientRect();
    const texts = [...svg.querySelectorAll("text")]
      .filter((text) => text.textContent && text.getAttribute("opacity") !== "0")
      .map((text) => ({ words: text.textContent, box: text.getBoundingClientRect() }));
    const out = texts.filter(({ box }) => box.left < card.left || box.right > card.right);
    const meet = (a, b) =>
      Math.min(a.right, b.right) - Math.max(a.left, b.left) > 2 &&
      Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 3;
    const pairs = texts.flatMap((one, place) =>
      texts.slice(place + 1).filter((other) => meet(one.box, other.box))
        .map((other) => `${svg.closest("figure").id}: ${one.words} | ${other.words}`));
    return [...out.map((one) => `${svg.closest("figure").id}: ${one.words}`), ...pairs];
  })"""
# Cells of tables that are cut off, and cannot be scrolled to.
LOST = """[...document.querySelectorAll("table")]
  .filter((table) => table.checkVisibility())
  .filter((table) => table.getBoundingClientRect().right > innerWidth + 1)
  .filter((table) => getComputedStyle(table.parentElement).overflowX !== "auto")
  .map((table) => table.caption?.textContent ?? "")"""


UNFOLD = "document.querySelectorAll('details').forEach((each) => (each.open = true))"


@pytest.mark.parametrize("kind", PAGES)
@pytest.mark.parametrize("look", LOOKS)
def test_a_page_is_whole_and_loads_nothing(opened: Open, kind: str, look: str) -> None:
    with opened(kind, look) as page:
        assert page.seen == []
        for _ in range(2):
            assert page.evaluate("document.documentElement.scrollWidth") <= LOOKS[look][0]
            assert page.evaluate(LOST) == []
            page.evaluate(UNFOLD)


@pytest.mark.parametrize("kind", CHARTED)
@pytest.mark.parametrize("look", [look for look in LOOKS if look != "paper"])
def test_every_chart_has_marks_and_fits(opened: Open, kind: str, look: str) -> None:
    with opened(kind, look) as page:
        page.evaluate(UNFOLD)
        charts = page.evaluate(CHARTS)
        wanted = page.evaluate('[...document.querySelectorAll("figure")].map((each) => each.id)')
        assert {chart["name"] for chart in charts} == set(wanted) != set()
        for chart in charts:
            assert chart["marks"] > 0, chart
            assert chart["plot"] > 100, chart
            assert min(chart["left"], chart["right"]) >= 0, chart
            assert chart["height"] > 100, chart
        assert page.evaluate(CROWDED) == []


@pytest.mark.parametrize("kind", PAGES)
@pytest.mark.parametrize("look", [look for look in LOOKS if look != "paper"])
def test_axe_finds_nothing_serious(opened: Open, kind: str, look: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    with opened(kind, look) as page:
        page.evaluate(UNFOLD)
        found = axe.Axe().run(page).response["violations"]
        grave = [each for each in found if each["impact"] in ("serious", "critical")]
        assert [(each["id"], each["nodes"][0]["html"][:200]) for each in grave] == []
        assert "heading-order" not in {each["id"] for each in found}


@pytest.mark.parametrize("kind", PAGES)
def test_a_page_is_small(page_of: Callable[[str], Path], kind: str) -> None:
    assert page_of(kind).stat().st_size <= MOST_BYTES.get(kind, USUAL)


@pytest.mark.parametrize("kind", CHARTED)
def test_charts_follow_the_scheme_without_being_drawn_again(opened: Open, kind: str) -> None:
    look = """(() => {
      const style = (of) => getComputedStyle(document.querySelector(of));
      const light = (color) => color.match(/\\d+/g).slice(0, 3).every((part) => part > 128);
      return [light(style("figure").backgroundColor), light(style(".panel text").fill)];
    })()"""
    with opened(kind) as page:
        page.evaluate(UNFOLD)
        assert page.evaluate(look) == [True, False]
        page.emulate_media(color_scheme="dark")
        assert page.evaluate(look) == [False, True]
        page.emulate_media(media="print")
        assert page.evaluate(look) == [True, False]


@pytest.mark.parametrize("kind", RUNS)
def test_paper_is_one_sheet_with_the_first_screen(opened: Open, kind: str) -> None:
    with opened(kind, "paper") as page:
        assert page.locator("#outcome").is_visible()
        assert not page.locator(".details").is_visible()
        assert _sheets(page) == 1


@pytest.mark.parametrize("kind", RUNS)
def test_nothing_of_the_first_screen_is_below_its_end(opened: Open, kind: str) -> None:
    with opened(kind) as page:
        assert page.locator("#outcome").bounding_box()["y"] < 200
        assert page.locator("#next").bounding_box()["y"] < 900


def test_contents_stand_beside_the_text_or_fold(opened: Open) -> None:
    with opened("claims") as page:
        link = page.get_by_role("link", name="Verdicts")
        assert link.is_visible()
        link.click()
        assert page.locator("#verdicts").bounding_box()["y"] < 50
        assert page.locator("nav .toc").bounding_box()["y"] >= 0
    with opened("claims", "phone") as page:
        link = page.get_by_role("link", name="Verdicts")
        assert not link.is_visible()
        page.get_by_text("Contents").click()
        assert link.is_visible()


def test_a_table_that_scrolls_shows_it(opened: Open) -> None:
    with opened("item_item", "phone") as page:
        page.evaluate(UNFOLD)
        table = page.locator(".table.results").first
        wide, shown = (
            table.evaluate(f"(each) => each.{name}") for name in ("scrollWidth", "clientWidth")
        )
        assert wide > shown
        image: Any = table.evaluate("(each) => getComputedStyle(each).backgroundAttachment")
        assert image.startswith("local, local, scroll, scroll")


def test_a_card_prints_on_one_page(opened: Open) -> None:
    with opened("card", "paper") as page:
        assert page.locator("main").is_visible()
        assert not page.locator(".appendix").is_visible()
        assert _sheets(page) == 1


def _sheets(page: Any) -> int:
    return len(re.findall(rb"/Type\s*/Page\b", page.pdf(prefer_css_page_size=True)))
