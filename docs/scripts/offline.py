"""Find what the pages of a built site would load from other hosts."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

# Attributes whose address a browser loads by itself. A link that is followed (`a`) is not one.
_LOADED = {"src", "srcset", "poster", "data"}
_REMOTE = re.compile(r"(?:https?:)?//", re.IGNORECASE)
_IN_STYLE = re.compile(r"""(?:url\(|@import)\s*["']?((?:https?:)?//[^"')\s]+)""", re.IGNORECASE)


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            loaded = name in _LOADED or (tag == "link" and name == "href")
            if value and loaded and _REMOTE.match(value):
                self.found.append(value)
            if value and name == "style":
                self.found += _IN_STYLE.findall(value)


def loaded_by(html: str) -> list[str]:
    """Return the addresses on other hosts that a browser loads with a page."""
    page = _Page()
    page.feed(html)
    return [*page.found, *_IN_STYLE.findall(html)]


def loaded_from_elsewhere(site: Path) -> list[str]:
    """Return what pages and style sheets of a site load from other hosts, without repetition."""
    found = []
    for path in sorted(site.rglob("*")):
        if path.suffix in {".html", ".svg"}:
            found += loaded_by(path.read_text(encoding="utf-8"))
        elif path.suffix == ".css":
            found += _IN_STYLE.findall(path.read_text(encoding="utf-8"))
    return list(dict.fromkeys(found))
