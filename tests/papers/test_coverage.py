"""All that docs/claims/coverage.md names exists, and it names every entry of the catalogue."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dpaudit.claims.catalogue import catalogue
from dpaudit.core import registry

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "claims" / "coverage.md"
ENTRIES = {entry.id for entry in catalogue()}
PAPERS = {id_.split("-")[0] for id_ in ENTRIES}
# A defense's name may begin like a paper's id.
PARTS = registry.names("defenses")


def heading_anchors(page: str) -> set[str]:
    """The anchors that GitHub generates for the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", page, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def wrong_names(page: str) -> list[str]:
    """The names on a page that do not exist: entries, examples, test modules and links."""
    wrong = []
    for name in re.findall(r"`([^`]+)`", page):
        if "…" in name:  # a placeholder
            continue
        paper, dash, _ = name.partition("-")
        if dash and paper in PAPERS and name not in PARTS:
            if name not in ENTRIES:
                wrong.append(name)
        elif name.endswith(".toml") and not (ROOT / "examples" / name).is_file():
            wrong.append(name)
        elif name.endswith(".py"):
            place = ROOT if name.startswith("bench/") else ROOT / "tests"
            if not (place / name).is_file():
                wrong.append(name)
    defined = dict(re.findall(r"^\[([^\]]+)\]: (\S+)$", page, re.MULTILINE))
    used = re.findall(r"\]\[([^\]]+)\]", page)
    wrong += [label for label in used if label not in defined]
    wrong += [label for label in defined if label not in used]
    for link in [*re.findall(r"\]\(([^)]+)\)", page), *defined.values()]:
        path, _, anchor = link.partition("#")
        target = PAGE.parent / path
        if not target.is_file() or (
            anchor and anchor not in heading_anchors(target.read_text(encoding="utf-8"))
        ):
            wrong.append(link)
    return wrong


def uncited(page: str) -> set[str]:
    """The entries that a page does not name."""
    return ENTRIES - set(re.findall(r"`([^`]+)`", page))


def test_all_that_is_named_exists() -> None:
    assert wrong_names(PAGE.read_text(encoding="utf-8")) == []


def test_every_entry_is_on_the_page() -> None:
    assert uncited(PAGE.read_text(encoding="utf-8")) == set()


@pytest.mark.cases(
    "planted",
    [
        "`pa11-thm9.9`",
        "`ml-100k-nothing.toml`",
        "`claims/test_nothing.py`",
        "`bench/nothing.py`",
        "[results](nothing.md)",
        "[results](../results/movielens.md#nothing)",
        "[results][nothing]",
        "[r]: ../results/movielens.md",
        "[r][r]\n\n[r]: ../results/movielens.md#nothing",
    ],
)
def test_what_does_not_exist_is_found(planted: str) -> None:
    assert len(wrong_names(planted)) == 1


def test_what_exists_is_not() -> None:
    page = (
        "`pa11-thm2.2`, `quickstart.toml`, `papers/test_coverage.py`, `auditor/test_run.py`, "
        "[r](pa11.md#theorem-32-cosine-pa11-thm32) and [r][r]\n\n[r]: ../results/movielens.md"
    )
    assert wrong_names(page) == []
    assert uncited(page) == ENTRIES - {"pa11-thm2.2"}


def test_tables_are_whole_and_say_what_covers_each_row() -> None:
    rows = [
        line
        for line in PAGE.read_text(encoding="utf-8").splitlines()
        if line.startswith("|") and not line.startswith("| ---")
    ]
    for row in rows:
        cells = re.split(r"(?<!\\)\|", row)[1:-1]
        assert len(cells) == 3, row
        assert all(cell.strip() for cell in cells), row
