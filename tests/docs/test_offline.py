from __future__ import annotations

from pathlib import Path

import pytest
from offline import loaded_by, loaded_from_elsewhere  # type: ignore[import-not-found]


@pytest.mark.cases(
    "html",
    [
        '<script src="https://cdn.example/x.js"></script>',
        '<link rel="stylesheet" href="//fonts.example/css">',
        '<img src="http://img.example/a.png">',
        '<div style="background: url(https://img.example/b.png)"></div>',
        '<style>@import "https://fonts.example/x.css";</style>',
    ],
)
def test_what_a_page_loads_from_another_host_is_found(html: str) -> None:
    assert len(set(loaded_by(html))) == 1


@pytest.mark.cases(
    "html",
    [
        '<a href="https://example.org">',
        '<script src="_static/x.js"></script>',
        '<img src="a//b.png">',
    ],
)
def test_links_and_own_files_are_not(html: str) -> None:
    assert loaded_by(html) == []


def test_style_sheets_are_read_too(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("<p>nothing</p>")
    (tmp_path / "site.css").write_text("a { background: url('https://img.example/c.png') }")
    assert loaded_from_elsewhere(tmp_path) == ["https://img.example/c.png"]
