"""Pages of every kind, made from small audits, and the browser that shows them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from report_pages import LOOKS, RUNS, Open  # type: ignore[import-not-found]

from dpaudit.cli import main


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium, of the system if it has one."""
    api = pytest.importorskip(
        "playwright.sync_api", reason="needs playwright: pip install '.[browser]'"
    )
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "chrome"))), None)
    with api.sync_playwright() as playwright:
        if not (found or Path(playwright.chromium.executable_path).exists()):
            pytest.skip(
                "needs Chromium: install the system's, or run 'playwright install chromium'"
            )
        # The sandbox needs a user other than root; the pages are our own.
        yield playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])


@pytest.fixture(scope="session")
def page_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The page of each kind of report, made when it is first asked for."""
    folder = tmp_path_factory.mktemp("pages")

    @cache
    def make(kind: str) -> Path:
        out = folder / kind
        if kind == "claims":
            asked = ["claims", "pa11-thm3.1", "--verify", "--trials", "300", "--seed", "1"]
            found = CliRunner().invoke(main, [*asked, "-o", str(out), "--quiet"])
            page = out / "claims.html"
        elif kind in ("card", "evidence"):
            record, page = make("item_item").parent, folder / f"{kind}.html"
            asked = ["report", str(record), "--format", kind, "-o", str(page)]
            found = CliRunner().invoke(main, asked)
        else:
            asked = ["run", *RUNS[kind], "--allow-code", "--quiet"]
            found = CliRunner().invoke(main, [*asked, "-o", str(out)])
            page = out / "report.html"
        assert page.exists(), found.output
        return page

    return make


@pytest.fixture
def opened(browser: Any, page_of: Callable[[str], Path]) -> Open:
    """A function that opens the page of a kind and notes errors and requests in `page.seen`."""

    @contextmanager
    def show(kind: str, look: str = "desk") -> Iterator[Any]:
        width, scheme, medium = LOOKS[look]
        size = {"width": width, "height": 900}
        context = browser.new_context(viewport=size, color_scheme=scheme)
        page = context.new_page()
        page.seen = []
        address = page_of(kind).as_uri()
        page.on("console", lambda message: page.seen.append(message.text))
        page.on("pageerror", lambda error: page.seen.append(str(error)))
        page.on("request", lambda request: request.url == address or page.seen.append(request.url))
        page.emulate_media(media=medium, color_scheme=scheme)
        page.goto(address)
        yield page
        context.close()

    return show
